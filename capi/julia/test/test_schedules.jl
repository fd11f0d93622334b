# Schedules, their functions and clocks.

function scheduled(schedule; clock = :applied)
    p = zeros(1)
    opt = Optimizer("sgd"; lr = 1)
    Talus.add!(opt, p, ones(1))
    Talus.attach!(opt, "lr", schedule; clock = clock)
    return opt, p
end

@testset "a schedule has parameters, milestones, pieces and values" begin
    step = Schedule("step"; step_size = 2, gamma = 0.5)
    @test [Talus.value(step, 1, t) for t in 0:4] == [1, 1, 0.5, 0.5, 0.25]
    @test get(step, "gamma") == 0.5 && Talus.kind(step) == "step"
    multistep = Schedule("multistep"; milestones = [3, 1], gamma = 0.1)
    @test sort(Talus.milestones(multistep)) == [1, 3]
    whole = Schedule("sequential"; pieces = [Schedule("constant"), step], milestones = [5])
    @test Talus.kind.(Talus.pieces(whole)) == ["constant", "step"]
    @test Talus.value(whole, 1, 7) == 0.5
    @test isnan(get(Schedule("cosine"), "T_max"))
    @test refused(() -> Talus.value(Schedule("cosine"), 1, 0), "TALUS_E_STATE", "T_max")
    @test refused(() -> Schedule("step"; gamma = -1), "TALUS_E_RANGE", "gamma")
    @test refused(() -> push!(step, step), "TALUS_E_UNSUPPORTED", "step")
end

@testset "a step uses the schedule's value in place of the base" begin
    opt, p = scheduled(Schedule("step"; step_size = 1, gamma = 0.5))
    @test (Talus.step!(opt); p) == [-1]
    @test Talus.value_now(opt, "lr") == 0.5 && get(opt, "lr") == 1
    @test (Talus.step!(opt); p) == [-1.5]
    attached = Talus.schedule(opt, "lr")
    @test Talus.kind(attached.schedule) == "step" && attached.clock == :applied
    Talus.set!(attached.schedule; gamma = 0.25)
    @test Talus.value_now(opt, "lr") == 0.0625
    Talus.detach!(opt, "lr")
    @test Talus.schedule(opt, "lr") === nothing && Talus.value_now(opt, "lr") == 1
end

@testset "a manual clock is set by the caller" begin
    opt, p = scheduled(Schedule("step"; step_size = 1, gamma = 0.5); clock = :manual)
    Talus.step!(opt)
    @test Talus.value_now(opt, "lr") == 1
    Talus.set_clock!(opt, 2)
    @test Talus.value_now(opt, "lr") == 0.25
    @test (Talus.clock(opt), Talus.clock(opt, :applied), Talus.clock(opt, :called)) == (2, 1, 1)
    @test caught(() -> Talus.clock(opt, :wall)) isa ArgumentError
    @test refused(() -> Talus.set_clock!(opt, -1), "TALUS_E_RANGE", "-1")
end

@noinline function scheduled_by(f)
    schedule = Schedule(f)
    return scheduled(schedule)..., WeakRef(schedule)
end

@testset "a function outlives its Schedule, not its optimizer" begin
    opt, p, weak = scheduled_by(t -> 1 / (1 + t))
    collect_all()
    @test weak.value === nothing
    foreach(_ -> Talus.step!(opt), 1:3)
    @test p == [-(1 + 1 / 2 + 1 / 3)]
    live() = count(root -> !root.dead[], Talus.roots)
    before = live()
    close(opt)
    @test live() == before - 1
    product = Schedule(t -> 0.5, "multiplicative")
    @test [Talus.value(product, 1, t) for t in 0:2] == [1, 0.5, 0.25]
end

@testset "what a function throws comes out, and nothing has changed" begin
    opt, p = scheduled(Schedule(t -> t < 1 ? 1.0 : error("mine")))
    Talus.step!(opt)
    for f in (() -> Talus.step!(opt), () -> Talus.step!(() -> 0.0, opt),
              () -> Talus.value_now(opt, "lr"))
        @test caught(f) == ErrorException("mine")
    end
    @test p == [-1] && Talus.steps(opt, 0) == 1
    Talus.set_function!(Talus.schedule(opt, "lr").schedule, t -> NaN)
    @test refused(() -> Talus.step!(opt), "TALUS_E_RANGE", "lambda")
    Talus.set_function!(Talus.schedule(opt, "lr").schedule, t -> 2)
    Talus.step!(opt)
    @test p == [-3]
end

@testset "a function of a schedule changes none" begin
    constant = Schedule("constant")
    whole = Schedule("chained"; pieces = [constant])
    change = () -> nothing
    lambda = Schedule(t -> (change(); 1.0))
    push!(whole, lambda)
    opt, p = scheduled(whole)
    for f in (() -> push!(whole, Schedule("lambda")), () -> Talus.set_function!(lambda, t -> 2.0),
              () -> Talus.set!(constant; factor = 0.5),
              () -> Talus.set_milestones!(Schedule("multistep"), [1]))
        change = f
        @test refused(() -> Talus.step!(opt), "TALUS_E_STATE", "within the function")
        @test refused(() -> Talus.value(whole, 1, 0), "TALUS_E_STATE", "within the function")
    end
    change = () -> Talus.value(Schedule("constant"), 1, 0)
    Talus.step!(opt)
    @test p != [0] && length(Talus.pieces(whole)) == 2
end

@testset "plateau hears of metrics" begin
    opt, p = scheduled(Schedule("plateau"; factor = 0.5, patience = 0))
    foreach(metric -> Talus.observe!(opt, metric), (1, 2))
    @test Talus.value_now(opt, "lr") == 0.5
    @test refused(() -> Talus.observe!(Optimizer("sgd"), 1), "TALUS_E_STATE", "plateau")
end
