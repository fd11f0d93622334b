# Models of nested tuples, as users of Optimisers.jl have them.

function model_of_two()
    first = (weight = Float32[1 2; 3 4], bias = Float32[1, 2], act = tanh)
    second = (weight = Float32[5 6], bias = nothing, kept = [1, 2])
    return (layers = (first, second), scale = [2.0], name = "net")
end

function ones_like(model)
    first = (weight = ones(Float32, 2, 2), bias = ones(Float32, 2), act = nothing)
    second = (weight = ones(Float32, 1, 2), bias = nothing, kept = nothing)
    return (layers = (first, second), scale = [1.0])
end

@testset "names are the paths to the arrays" begin
    opt = Talus.setup("sgd", model_of_two())
    @test [Talus.param(opt, i).name for i in 0:Talus.param_count(opt)-1] ==
          ["layers.1.weight", "layers.1.bias", "layers.2.weight", "scale"]
    @test Talus.param(Talus.setup("sgd", [[1f0], [2f0]]), 1).name == "2"
end

@testset "update! steps by the gradients of the model's shape" begin
    model = model_of_two()
    opt = Talus.setup(:sgd, model; lr = 1)
    @test Talus.update!(opt, ones_like(model)) === opt
    @test model.layers[1].weight == Float32[0 1; 2 3] && model.layers[1].bias == Float32[0, 1]
    @test model.layers[2].weight == Float32[4 5] && model.scale == [1.0]
    @test model.layers[2].kept == [1, 2]
    Talus.adjust!(opt, 2)
    Talus.adjust!(opt; momentum = 0.0)
    @test get(opt, "lr") == 2
end

@testset "nothing, or a missing name, leaves arrays and branches out" begin
    model = model_of_two()
    opt = Talus.setup("sgd", model; lr = 1)
    Talus.update!(opt, (layers = (nothing, (weight = ones(Float32, 1, 2),)), scale = nothing))
    @test model.layers[1].weight == Float32[1 2; 3 4] && model.layers[2].weight == Float32[4 5] &&
        model.scale == [2]
    @test Talus.steps(opt, "layers.1.weight") == 0 && Talus.steps(opt, "layers.2.weight") == 1
end

@testset "gradients of another shape are refused, and nothing has changed" begin
    model = model_of_two()
    opt = Talus.setup("sgd", model; lr = 1)
    good = ones_like(model)
    wrong = ((layer = nothing,), (scale = [1.0, 2.0],), (scale = 1.0,), (scale = Float32[1],),
             (scale = view([1.0, 2.0], 1:1),), (layers = (good.layers..., nothing),), (layers = 3,))
    for part in wrong
        bad = merge(good, part)
        @test caught(() -> Talus.update!(opt, bad)) isa Union{ArgumentError,DimensionMismatch}
    end
    @test model.scale == [2] && Talus.steps(opt, "scale") == 0
end

@testset "update! of a model, as Optimisers.jl has it, follows arrays that were replaced" begin
    model = model_of_two()
    opt = Talus.setup("sgd", model; lr = 1)
    opt, model = Talus.update!(opt, model, ones_like(model))
    replaced = merge(model, (scale = [10.0],))
    opt, replaced = Talus.update!(opt, replaced, ones_like(model))
    @test replaced.scale == [9.0] && model.scale == [1.0]
    @test replaced.layers[1].bias == Float32[-1, 0]
    @test caught(() -> Talus.update!(opt, (scale = [1.0],), ones_like(model))) isa ArgumentError
    longer = merge(model, (scale = [1.0, 2.0],))
    @test caught(() -> Talus.update!(opt, longer, ones_like(model))) isa DimensionMismatch
end

@testset "what cannot be trained where it is, is refused" begin
    for bad in ((w = view([1.0, 2.0], 1:1),), (w = [1.0 2.0]',), (f = tanh,), ())
        @test caught(() -> Talus.setup("sgd", bad)) isa ArgumentError
    end
    shared = [1.0]
    @test refused(() -> Talus.setup("sgd", (a = shared, b = shared)), "TALUS_E_ARGUMENT", "b")
    @test caught(() -> Talus.update!(Optimizer("sgd"), nothing)) isa ArgumentError
end

struct Layer
    weight
    bias
end
mutable struct Ring
    next
    weight
    Ring(weight) = (ring = new(); ring.next = ring; ring.weight = weight; ring)
end

@testset "an array that would be left out is refused by its path" begin
    layer, dict = Layer([1.0], [2.0]), Dict(:w => [1.0])
    for (part, path, type) in ((layer, "x.weight", "a Layer"), (dict, "x.w", "a Dict"),
                               ((1, layer), "x.2.weight", "a Layer"), (Ref([1.0]), "x.x", "Ref"),
                               (Layer(nothing, dict), "x.bias.w", "a Layer"),
                               (Ring([1.0]), "x.weight", "a Ring"),
                               (Layer(1, view([1.0], 1:1)), "x.bias", "a Layer"),
                               (reshape([[1.0]], 1, 1), "x.1", "an Array"),
                               (Layer(1, [1.0im]), "x.bias", "a Layer"))
        for model in ((w = [1.0], x = part), (x = part,))
            e = caught(() -> Talus.setup("sgd", model))
            @test e isa ArgumentError && startswith(e.msg, "$path: ") && occursin(type, e.msg)
        end
    end
    @test caught(() -> Talus.setup("sgd", dict)) isa ArgumentError
    @test caught(() -> Talus.setup("sgd", (w = [1.0], x = [1.0im]))) isa ArgumentError
    opt = Talus.setup("sgd", (w = [1.0],))
    @test caught(() -> Talus.update!(opt, (w = [1.0], x = dict), (w = [1.0],))) isa ArgumentError
end

@testset "what has nothing to train is left alone" begin
    captured, undefined = [1.0], Vector{Any}(undef, 2)
    rest = (Layer([1, 2], "a"), Dict(1 => "b"), Ring(3), t -> captured .* t, :word, 1:3, r"x",
            Float32, missing, MersenneTwister(1), undefined)
    opt = Talus.setup("sgd", (w = [1.0], rest = (rest[1:end-1]..., Layer(1, undefined))); lr = 1)
    @test Talus.param_count(opt) == 1
end

@testset "element types are asked for the whole model" begin
    model = (a = UInt16[0x3f80], b = UInt16[0x3f80])
    opt = Talus.setup("sgd", model; lr = 0.5, grad_eltype = Float32, master = :none)
    Talus.update!(opt, (a = Float32[1], b = Float32[1]))
    @test model.a == model.b == UInt16[0x3f00] && Talus.param(opt, "a").master == :none
end
