# Who keeps what alive, and until when.

resident_bytes() = 4096 * parse(Int, split(read("/proc/self/statm", String))[2])

# Adds arrays that nobody else refers to; counts those that have gone.
function add_unrooted!(opt, gone, count)
    for i in 1:count
        p, g = zeros(Float32, 1000), ones(Float32, 1000)
        foreach(a -> finalizer(_ -> gone[] += 1, a), (p, g))
        Talus.add!(opt, p, g)
    end
end

@testset "arrays live until they are bound anew, removed, or the optimizer is closed" begin
    opt, gone = Optimizer("sgd"; lr = 1), Ref(0)
    add_unrooted!(opt, gone, 10)
    collect_all()
    @test gone[] == 0
    Talus.step!(opt)
    @test all(bound -> bound.array == fill(-1f0, 1000), opt.data)
    Talus.bind_grad!(opt, 0, zeros(Float32, 1000))
    collect_all()
    @test gone[] == 1
    Talus.bind_grad!(opt, 1, nothing)
    Talus.bind_data!(opt, 1, zeros(Float32, 1000))
    collect_all()
    @test gone[] == 3
    Talus.remove!(opt, 2)
    collect_all()
    @test gone[] == 5
    Talus.zero_grad!(opt; unbind = true)
    collect_all()
    @test gone[] == 12
    close(opt)
    collect_all()
    @test gone[] == 20
end

@testset "closing is for once, and what is closed answers so" begin
    opt, schedule, scaler = Optimizer("sgd"), Schedule("step"), Scaler()
    Talus.add!(opt, [1.0], [1.0])
    for handle in (opt, schedule, scaler)
        @test isopen(handle)
        close(handle)
        @test !isopen(handle)
        @test close(handle) === nothing
    end
    for f in (() -> Talus.step!(opt), () -> Talus.add!(opt, [1.0]), () -> Talus.stats(opt),
              () -> get(opt, "lr"), () -> Talus.grad_norm(opt), () -> Talus.save(opt, IOBuffer()))
        @test refused(f, "TALUS_E_STATE", "the optimizer is closed")
    end
    @test refused(() -> Talus.kind(schedule), "TALUS_E_STATE", "the schedule is closed")
    @test refused(() -> Talus.attach!(Optimizer("sgd"), scaler), "TALUS_E_STATE",
                  "the scaler is closed")
end

@testset "a handle is neither copied nor serialized, alone or in something" begin
    handles = (Optimizer("sgd"), Schedule("step"), Scaler())
    for handle in handles, holder in (handle, [handle], (a = handle,), Dict(1 => handle))
        for f in (() -> deepcopy(holder), () -> serialize(IOBuffer(), holder),
                  () -> copy(handle))
            e = caught(f)
            @test e isa ArgumentError && occursin("copied", e.msg) &&
                occursin(Talus.what(handle), e.msg)
        end
    end
    foreach(close, handles)
end

function cycle(count, closes)
    for _ in 1:count
        opt = Optimizer("adamw")
        Talus.add!(opt, zeros(Float32, 100), ones(Float32, 100))
        Talus.attach!(opt, "lr", Schedule(t -> 1 / (1 + t)))
        Talus.attach!(opt, Scaler())
        Talus.step!(opt)
        closes && close(opt)
    end
    collect_all()
end

@testset "10,000 are made and gone without growth, closed or not" begin
    cycle_both() = (cycle(5000, true); cycle(5000, false))
    cycle_both()
    if Sys.islinux()
        before = resident_bytes()
        cycle_both()
        @test resident_bytes() - before < 4 << 20  # 400 bytes of each
    else
        skipped("the resident set, because there is no /proc")
    end
    @test count(root -> !root.dead[], Talus.roots) < 10
    foreach(_ -> close(Schedule(t -> 1.0)), 1:length(Talus.roots)+16)
    @test length(Talus.roots) < 40
end

@testset "many parameters come and go in one optimizer" begin
    opt = Optimizer("sgd")
    for _ in 1:100
        index = Talus.add!(opt, zeros(Float32, 10), ones(Float32, 10); name = "w")
        Talus.step!(opt)
        Talus.remove!(opt, "w")
        @test all(isnothing, opt.data) && all(isnothing, opt.grads)
    end
    @test Talus.find(opt, "w") === nothing
end
