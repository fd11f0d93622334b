# Steps with a closure.

function quadratic()
    p, g = Float32[3, -1], zeros(Float32, 2)
    opt = Optimizer("sgd"; lr = 0.25)
    Talus.add!(opt, p, g)
    return opt, p, g
end

@testset "a closure computes gradients and loss" begin
    opt, p, g = quadratic()
    losses = [Talus.step!(opt) do
        g .= 2 .* p
        sum(abs2, p)
    end for _ in 1:3]
    @test losses == [10, 2.5, 0.625] && p == Float32[0.375, -0.125]
end

@testset "what a closure throws comes out, and no step was taken" begin
    opt, p, g = quadratic()
    @test caught(() -> Talus.step!(() -> error("mine"), opt)) == ErrorException("mine")
    @test caught(() -> Talus.step!(() -> "no number", opt)) isa MethodError
    @test p == Float32[3, -1] && Talus.steps(opt, 0) == 0
    Talus.step!(() -> 0, opt)
    @test Talus.steps(opt, 0) == 1
end

@testset "a closure may bind, allocate, collect and yield" begin
    opt, p, _ = quadratic()
    loss = Talus.step!(opt) do
        Talus.bind_grad!(opt, 0, 2 .* p)
        GC.gc()
        yield()
        [sum(abs2, p)][1]
    end
    @test loss == 10 && p == Float32[1.5, -0.5] && !(current_task().sticky && !Base.roottask.sticky)
end

@testset "the library's own errors come out of a closure's step" begin
    opt = Optimizer("sgd")
    Talus.add!(opt, [1.0])
    @test refused(() -> Talus.step!(() -> 0.0, opt), "TALUS_E_STATE", "gradient")
end

# Calls of an optimizer that none of its callbacks may make; each is refused and changes nothing.
forbidden(opt) = ("close" => () -> close(opt), "step!" => () -> Talus.step!(opt),
                  "step! of a closure" => () -> Talus.step!(() -> 0.0, opt),
                  "add!" => () -> Talus.add!(opt, zeros(Float32, 3)),
                  "add_group!" => () -> Talus.add_group!(opt),
                  "remove!" => () -> Talus.remove!(opt, 0),
                  "move!" => () -> Talus.move!(opt, 0, 0),
                  "bind_data!" => () -> Talus.bind_data!(opt, 0, zeros(Float32, 2)),
                  "bind_rows!" => () -> Talus.bind_rows!(opt, 0, [1], Float32[1]),
                  "bind_state!" => () -> Talus.bind_state!(opt, 0, "momentum_buffer",
                                                           zeros(Float32, 2)),
                  "set!" => () -> Talus.set!(opt; lr = 9), "get" => () -> get(opt, "lr"),
                  "set_setting!" => () -> Talus.set_setting!(opt; threads = 1),
                  "prepare!" => () -> Talus.prepare!(opt), "stats" => () -> Talus.stats(opt),
                  "grad_norm" => () -> Talus.grad_norm(opt),
                  "attach!" => () -> Talus.attach!(opt, "lr", Schedule("constant")),
                  "detach!" => () -> Talus.detach!(opt, "lr"),
                  "value_now" => () -> Talus.value_now(opt, "lr"),
                  "save" => () -> Talus.save(opt, IOBuffer()),
                  "load!" => () -> Talus.load!(opt, IOBuffer()),
                  "set_note!" => () -> Talus.set_note!(opt, "a", "b"),
                  "set_clock!" => () -> Talus.set_clock!(opt, 3))
# Those that a closure may make.
binding(opt) = ("bind_grad!" => () -> Talus.bind_grad!(opt, 0, nothing),
                "zero_grad!" => () -> Talus.zero_grad!(opt))

refused_inside(call) = refused(call, "TALUS_E_STATE", "the optimizer is in a call")
accepted(calls) = [name for (name, call) in calls if !refused_inside(call)]

@testset "a closure may make no other call of its optimizer" begin
    opt, p, g = quadratic()
    wrong = ["not run"]
    Talus.step!(opt) do
        wrong = accepted(forbidden(opt))
        g .= 1
        0.0
    end
    @test wrong == []
    @test p == Float32[2.75, -1.25] && Talus.steps(opt, 0) == 1 && get(opt, "lr") == 0.25
    @test refused_inside(() -> Talus.step!(() -> (close(opt); 0.0), opt))
    @test isopen(opt) && Talus.steps(opt, 0) == 1 && Talus.param_count(opt) == 1
    Talus.step!(opt)
    @test p == Float32[2.5, -1.5]
end

@testset "a function of a schedule may make none at all" begin
    opt, p, g = quadratic()
    wrong = ["not run"]
    factor(t) = (wrong = accepted((forbidden(opt)..., binding(opt)...)); 1.0)
    Talus.attach!(opt, "lr", Schedule(factor))
    g .= 1
    for call in (() -> Talus.step!(opt), () -> Talus.step!(() -> 0.0, opt),
                 () -> Talus.value_now(opt, "lr"))
        wrong = ["not run"]
        call()
        @test wrong == []
    end
    @test p == Float32[2.5, -1.5] && Talus.steps(opt, 0) == 2
end

@testset "a function of progress may make none either" begin
    opt, p, g = quadratic()
    wrong = ["not run"]
    file = IOBuffer()
    progress(done, total) = (wrong = accepted((forbidden(opt)..., binding(opt)...)); true)
    for call in (() -> Talus.save(opt, file; progress = progress),
                 () -> Talus.load!(opt, seekstart(file); progress = progress))
        wrong = ["not run"]
        call()
        @test wrong == []
    end
    @test isopen(opt) && Talus.param_count(opt) == 1
end

@testset "a callback may show its optimizer, name its parameters, and call others" begin
    opt, p, g = quadratic()
    other, q, h = quadratic()
    h .= 1
    shown = ""
    loss = Talus.step!(opt) do
        shown = repr(opt)
        Talus.step!(() -> (g .= 1; 3.0), other)
    end
    @test loss == 3 && shown == repr(opt) && p == q == Float32[2.75, -1.25]
    @test caught(() -> Talus.step!(() -> Talus.step!(() -> error("inner"), other), opt)) ==
          ErrorException("inner")
    @test caught(() -> Talus.step!(opt) do
        caught(() -> Talus.step!(() -> error("inner"), other))
        error("outer")
    end) == ErrorException("outer")
    Talus.step!(opt)
    Talus.step!(other)
    @test p == q == Float32[2.5, -1.5]
end

@testset "a schedule is not closed by its own function" begin
    schedule = Schedule("lambda")
    Talus.set_function!(schedule, t -> (close(schedule); 1.0))
    @test refused(() -> Talus.value(schedule, 1, 0), "TALUS_E_STATE", "the schedule is in a call")
    Talus.set_function!(schedule, t -> 2.0)
    @test Talus.value(schedule, 1, 0) == 2
end

@testset "a finalizer that is run within a call leaves the library its optimizer" begin
    opt, p, g = quadratic()
    Talus.step!(() -> (finalize(opt); g .= 1; 0.0), opt)
    @test isopen(opt) && p == Float32[2.75, -1.25]
    @test close(opt) === nothing && !isopen(opt)
end
