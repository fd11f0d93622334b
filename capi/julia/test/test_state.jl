# State tensors and step counts.

@testset "state is there from the first step on, of the size of its parameter" begin
    opt = Optimizer("adamw")
    Talus.add!(opt, zeros(Float32, 2, 3), Float32[1 2 3; 4 5 6]; name = "w")
    @test [(s.param, s.slot, s.eltype, s.count) for s in Talus.states(opt)] ==
          [(0, "exp_avg", Float32, 6), (0, "exp_avg_sq", Float32, 6)]
    @test Talus.state(opt, "w", "exp_avg") === nothing
    Talus.step!(opt)
    @test Talus.state(opt, "w", "exp_avg") ≈ 0.1f0 .* Float32[1 2 3; 4 5 6]
    @test refused(() -> Talus.state(opt, "w", "no_such"), "TALUS_E_NAME", "no_such")
end

@testset "a copy is one, and a view is live" begin
    opt = Optimizer("sgd"; lr = 1, momentum = 0.5)
    p = zeros(Float32, 2)
    Talus.add!(opt, p, ones(Float32, 2))
    Talus.step!(opt)
    copied = Talus.state(opt, 0, "momentum_buffer")
    live = Talus.unsafe_state(opt, 0, "momentum_buffer")
    live .= 4
    @test copied == ones(Float32, 2)
    Talus.step!(opt)
    @test live == fill(3f0, 2) && p == fill(-4f0, 2)
end

function trained(count)
    opt = Optimizer("adamw"; lr = 0.1)
    p = Float32[1, 2]
    Talus.add!(opt, p, Float32[1, -1])
    foreach(_ -> Talus.step!(opt), 1:count)
    return opt, p
end

@testset "steps and state that were bound are what goes on" begin
    whole, expected = trained(5)
    half, p = trained(3)
    moments = [Talus.state(half, 0, slot) for slot in ("exp_avg", "exp_avg_sq")]
    opt = Optimizer("adamw"; lr = 0.1)
    Talus.add!(opt, p, Float32[1, -1])
    close(half)
    @test refused(() -> Talus.set_steps!(opt, 0, 3), "TALUS_E_STATE", "exp_avg")
    Talus.bind_state!(opt, 0, "exp_avg", moments[1])
    Talus.bind_state!(opt, 0, "exp_avg_sq", moments[2])
    Talus.set_steps!(opt, 0, 3)
    GC.gc()
    Talus.step!(opt)
    Talus.step!(opt)
    @test p == expected && Talus.steps(opt, 0) == 5
    @test moments[1] == Talus.state(whole, 0, "exp_avg")
    @test refused(() -> Talus.bind_state!(opt, 0, "exp_avg", zeros(Float32, 3)), "TALUS_E_ARGUMENT")
    @test opt.state[(0, "exp_avg")].array === moments[1]
end

@testset "prepare, and what the statistics count" begin
    opt = Optimizer("adamw")
    Talus.add!(opt, zeros(Float32, 100), ones(Float32, 100))
    @test Talus.stats(opt).state_bytes == 0
    Talus.prepare!(opt)
    @test Talus.stats(opt).state_bytes >= 800 && Talus.stats(opt).steps == 0
    Talus.set_setting!(opt; stats = 1)
    Talus.step!(opt)
    @test Talus.stats(opt; wait = true).steps == 1 && Talus.stats(opt).grad_norm == 10
    @test Talus.bytes_per_param(opt).state == 8
    @test Talus.bytes_per_param(opt; eltype = UInt16).master == 4
    @test Talus.bytes_per_param(opt; eltype = Float16, grad_eltype = Float32,
                                master = :none).grad == 4
    @test caught(() -> Talus.bytes_per_param(opt; master = :half)) isa ArgumentError
end
