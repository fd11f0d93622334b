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
