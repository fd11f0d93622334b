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
    @test opt.state[(0, "exp_avg")].array === moments[1]
end

@testset "state of another type or length is refused, and what was bound stays" begin
    opt = Optimizer("adamw"; lr = 0.1)
    p, wide, half = zeros(Float32, 4), zeros(4), zeros(UInt16, 4)
    Talus.add!(opt, p, ones(Float32, 4); name = "w")
    Talus.add!(opt, wide, ones(4))
    Talus.add!(opt, half, fill(0x3f80, 4))
    good = zeros(Float32, 4)
    Talus.bind_state!(opt, "w", "exp_avg", good)
    refuse(which, array, type, words...) = begin
        e = caught(() -> Talus.bind_state!(opt, which, "exp_avg", array))
        e isa type && all(word -> occursin(word, e.msg), words)
    end
    @test refuse("w", zeros(Int32, 4), ArgumentError, "\"w\"", "Int32")
    @test refuse("w", zeros(Float64, 2), ArgumentError, "\"w\"", "exp_avg", "Float64", "Float32")
    @test refuse("w", zeros(Float16, 8), ArgumentError, "Float16")
    @test refuse("w", zeros(Float32, 3), DimensionMismatch, "\"w\"", "exp_avg", "3", "4")
    @test refuse(1, zeros(Float32, 8), ArgumentError, "parameter 1 \"param.1\": exp_avg", "Float64")
    @test refuse(2, zeros(UInt16, 8), ArgumentError, "expected Float32")
    @test refused(() -> Talus.bind_state!(opt, "w", "no_such", good), "TALUS_E_NAME", "no_such")
    Talus.bind_state!(opt, 1, "exp_avg", zeros(4))
    Talus.bind_state!(opt, 2, "exp_avg", zeros(Float32, 4))
    Talus.bind_state!(opt, "w", "exp_avg_sq", zeros(Float32, 2, 2))
    Talus.step!(opt)
    @test good == fill(0.1f0, 4) && opt.state[(0, "exp_avg")].array === good
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
