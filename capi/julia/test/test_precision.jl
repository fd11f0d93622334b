# Loss scale, norms, clips and masters.

function half(g = Float16[1, 2])
    p = Float16[1, 2]
    opt = Optimizer("sgd"; lr = 0.5)
    Talus.add!(opt, p, g; name = "w")
    return opt, p, g
end

@testset "a scaler divides, skips and grows" begin
    scaler = Scaler(; init_scale = 4, growth_interval = 1)
    opt, p, g = half()
    Talus.attach!(opt, scaler)
    g .= 4
    Talus.step!(opt)
    Talus.update!(scaler)
    @test p == Float16[0.5, 1.5] && Talus.scale(scaler) == 8
    g[2] = Inf
    Talus.step!(opt)
    Talus.update!(scaler)
    @test p == Float16[0.5, 1.5] && Talus.scale(scaler) == 4
    stats = Talus.stats(opt)
    @test stats.found_inf && stats.skipped == 1 && stats.nonfinite_param == 0 &&
        stats.loss_scale == 4
    @test get(scaler, "total_skips") == 1
    Talus.set!(scaler, "scale", 2)
    close(scaler)  # and serves on
    g .= 2
    Talus.step!(opt)
    @test p == Float16[0, 1]
    Talus.detach!(opt)
    Talus.step!(opt)
    @test p == Float16[-1, 0]
    @test refused(() -> Scaler(; init_scale = 0), "TALUS_E_RANGE", "scale")
end

@testset "somebody else's scale is read by each step, and kept alive" begin
    opt, p, g = half(Float16[4, 4])
    scale, found = Float32[4], Float32[0]
    Talus.bind_scale!(opt, scale, found)
    Talus.step!(opt)
    @test p == Float16[0.5, 1.5]
    found[1] = 1
    Talus.step!(opt)
    @test p == Float16[0.5, 1.5] && Talus.stats(opt).skipped == 1
    push!(scale, 1)
    @test caught(() -> Talus.step!(opt)) isa DimensionMismatch
    pop!(scale)
    found[1], scale[1] = 0, 8
    Talus.step!(opt)
    @test p == Float16[0.25, 1.25]
    Talus.bind_scale!(opt, nothing)
    Talus.step!(opt)
    @test p == Float16[-1.75, -0.75]
    @test caught(() -> Talus.bind_scale!(opt, zeros(1))) isa MethodError
end

@testset "norms, of one optimizer, a group, or several" begin
    opt, p, g = half(Float16[3, 4])
    other, _, _ = half(Float16[0, 12])
    @test Talus.grad_norm(opt) == 5 && Talus.grad_norm(opt; type = 1) == 7
    @test Talus.grad_norm(opt; type = Inf, group = 0) == 4
    @test Talus.grad_norm([opt, other]) == 13
    @test Talus.clip_grad_norm!([opt, other], 6.5) == 13
    Talus.step!(opt)
    @test p ≈ Float16[0.25, 1] atol = 1e-3
    @test g == Float16[3, 4]
    @test refused(() -> Talus.grad_norm(opt; type = 3), "TALUS_E_RANGE", "norm_type")
    @test refused(() -> Talus.clip_grad_norm!(opt, 0), "TALUS_E_RANGE", "max_norm")
    @test refused(() -> Talus.grad_norm(Optimizer[]), "TALUS_E_ARGUMENT", "count is 0")
end

@testset "a master is copied out, set, and made anew from its parameter" begin
    opt, p, g = half(Float16[1, 1])
    Talus.set!(opt; lr = 2.0^-13)
    Talus.step!(opt)
    @test p == Float16[1, 2] && Talus.export_param(opt, "w") == Float32[1, 2] .- 2f0^-13
    Talus.import_param!(opt, "w", Float32[5, 6])
    @test p == Float16[5, 6]
    p .= 7
    Talus.restore_param!(opt, "w")
    @test p == Float16[5, 6]
    p .= 8
    Talus.import_param!(opt, "w")
    @test Talus.export_param(opt, "w") == Float32[8, 8]
    @test caught(() -> Talus.import_param!(opt, "w", zeros(Float32, 3))) isa DimensionMismatch
    @test refused(() -> Talus.export_param(opt, "w"; view = "no_such"), "TALUS_E_NAME", "no_such")
    none = Optimizer("sgd")
    Talus.add!(none, Float16[1], Float16[1]; master = :none)
    @test refused(() -> Talus.export_param(none, 0), "TALUS_E_UNSUPPORTED", "master")
end
