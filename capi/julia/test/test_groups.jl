# Groups, hyperparameters, settings, and what parameters there are.

@testset "groups have their own values" begin
    opt = Optimizer("adamw"; lr = 0.5)
    @test Talus.add_group!(opt; weight_decay = 0) == 1
    @test Talus.add_group!(opt, "sgd"; momentum = 0.9) == 2
    @test Talus.group_count(opt) == 3
    @test [Talus.algorithm(opt, g) for g in 0:2] == ["adamw", "adamw", "sgd"]
    @test [get(opt, "lr"; group = g) for g in 0:2] == [0.5, 0.5, 0.5]
    @test get(opt, "weight_decay") == 0.01 && get(opt, :weight_decay; group = 1) == 0
    Talus.set!(opt; group = 1, lr = 0.25)
    Talus.set!(opt, "amsgrad", true; group = 0)
    @test [get(opt, "lr"; group = g) for g in 0:2] == [0.5, 0.25, 0.5]
    @test get(opt, "amsgrad") == 1 && get(opt, "amsgrad"; group = 1) == 0
    @test refused(() -> Talus.algorithm(opt, 3), "TALUS_E_ARGUMENT", "3")
    @test refused(() -> Talus.set!(opt; group = 3, lr = 1), "TALUS_E_ARGUMENT", "3")
    @test refused(() -> get(opt, "no_such"), "TALUS_E_NAME", "no_such")
end

@testset "parameters move between groups by index or name, one or several" begin
    opt = Optimizer("sgd"; lr = 1)
    slow = Talus.add_group!(opt; lr = 0.5)
    arrays = [zeros(Float32, 1) for _ in 1:4]
    for (i, a) in enumerate(arrays)
        Talus.add!(opt, a, ones(Float32, 1); name = "w$i")
    end
    Talus.move!(opt, slow, "w1")
    Talus.move!(opt, slow, [1, 2])
    @test [Talus.param(opt, "w$i").group for i in 1:4] == [1, 1, 1, 0]
    Talus.step!(opt)
    @test only.(arrays) == [-0.5, -0.5, -0.5, -1]
    @test refused(() -> Talus.move!(opt, slow, "no_such"), "TALUS_E_NAME", "no_such")
    @test refused(() -> Talus.move!(opt, 7, "w1"), "TALUS_E_ARGUMENT", "7")
end

@testset "parameters are found, and removed" begin
    opt = Optimizer("sgd"; lr = 1)
    a, b = zeros(Float32, 1), zeros(Float32, 1)
    Talus.add!(opt, a, ones(Float32, 1); name = "a")
    Talus.add!(opt, b, ones(Float32, 1); name = "b")
    @test (Talus.find(opt, "a"), Talus.find(opt, "b"), Talus.find(opt, "c")) == (0, 1, nothing)
    Talus.remove!(opt, "a")
    @test Talus.find(opt, "a") === nothing && Talus.find(opt, "b") == 1
    Talus.step!(opt)
    @test a == [0] && b == [-1]
    @test refused(() -> Talus.steps(opt, 0), "TALUS_E_ARGUMENT", "0")
end

@testset "settings" begin
    opt = Optimizer("sgd")
    Talus.set_setting!(opt; threads = 2, max_grad_norm = Inf)
    @test Talus.setting(opt, "threads") == 2 && Talus.setting(opt, :max_grad_norm) == Inf
    @test refused(() -> Talus.set_setting!(opt, "threads", -1), "TALUS_E_RANGE", "threads")
    @test refused(() -> Talus.setting(opt, "no_such"), "TALUS_E_NAME", "no_such")
end

@testset "a gradient of nothing leaves the parameter out" begin
    opt = Optimizer("sgd"; lr = 1)
    a, b = zeros(Float32, 1), zeros(Float32, 1)
    Talus.add!(opt, ["a" => a, "b" => b])
    Talus.bind_grads!(opt, [ones(Float32, 1), nothing])
    Talus.step!(opt)
    @test a == [-1] && b == [0] && Talus.steps(opt, "b") == 0
    Talus.bind_grads!(opt, [ones(Float32, 1)]; first = 1)
    Talus.bind_grad!(opt, "a", nothing)
    Talus.step!(opt)
    @test a == [-1] && b == [-1]
    @test refused(() -> Talus.bind_grads!(opt, [nothing, nothing, nothing]), "TALUS_E_ARGUMENT")
end
