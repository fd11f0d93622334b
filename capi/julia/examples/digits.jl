# Trains a digit classifier with Talus.jl: a whole training program. For the use of the library read
# create_optimizer and train!; the network and its gradients are the program's own affair.
#
#     julia --project=capi/julia capi/julia/examples/digits.jl [--epochs N] [--stop-after N]
#           [--save FILE] [--resume FILE] [--data FILE]
#
# It has the images, the split, the network and the hyperparameters of capi/examples/train_digits.c.
# A run that is stopped after some epochs, saved and resumed gives the bits of one that is not.
push!(LOAD_PATH, dirname(@__DIR__))
using LinearAlgebra, Printf, Talus

const classes = 10
const hidden = 128
const batch = 32
const noise = 0.3f0  # standard deviation, added to pixels in training
const split_seed, run_seed = 1797, 1

# SplitMix64 (Steele, Lea & Flood 2014).
mutable struct Random
    state::UInt64
end

function bits!(random)
    z = random.state += 0x9e3779b97f4a7c15
    z = (z ⊻ (z >> 30)) * 0xbf58476d1ce4e5b9
    z = (z ⊻ (z >> 27)) * 0x94d049bb133111eb
    return z ⊻ (z >> 31)
end

unit!(random) = Float32(bits!(random) >> 40) / 8388608 - 1  # uniform in -1 .. 1

function shuffle!(order, random)
    for i in length(order):-1:2
        j = Int(((bits!(random) >> 32) * i) >> 32) + 1
        order[i], order[j] = order[j], order[i]
    end
    return order
end

struct Images
    pixels::Matrix{Float32}  # a column for each image
    digits::Vector{Int}
end
Base.getindex(images::Images, which) = Images(images.pixels[:, which], images.digits[which])
Base.length(images::Images) = length(images.digits)

function load_images(file)
    rows = [parse.(Int, split(line, ',')) for line in eachline(file)]
    return Images(hcat((Float32.(row[1:end-1]) ./ 16 for row in rows)...), last.(rows))
end

# Training, validation and test, of an order that no run changes.
function thirds(images)
    order = shuffle!(collect(1:length(images)), Random(split_seed))
    count = length(images) ÷ 3
    return [images[order[k*count+1:(k+1)*count]] for k in 0:2]
end

# Weights uniform within sqrt(6 / inputs) (He et al. 2015), biases 0.
layer(random, outputs, inputs) =
    (weight = [unit!(random) * sqrt(6f0 / inputs) for _ in 1:outputs, _ in 1:inputs],
     bias = zeros(Float32, outputs))

create_model(random, pixels) =
    (hidden = layer(random, hidden, pixels), output = layer(random, classes, hidden))

features(model, x) = max.(model.hidden.weight * x .+ model.hidden.bias, 0)
logits(model, h) = model.output.weight * h .+ model.output.bias

function accuracy(model, images)
    scores = logits(model, features(model, images.pixels))
    right = count(argmax(scores[:, i]) - 1 == images.digits[i] for i in 1:length(images))
    return right / length(images), right
end

# Returns the gradients of the mean cross entropy, in the shape of the model.
function gradients(model, x, digits)
    h = features(model, x)
    z = logits(model, h)
    e = exp.(z .- maximum(z; dims = 1))
    d = e ./ sum(e; dims = 1)
    foreach(i -> d[digits[i]+1, i] -= 1, eachindex(digits))
    d ./= length(digits)
    dh = (model.output.weight' * d) .* (h .> 0)
    return (hidden = (weight = dh * x', bias = vec(sum(dh; dims = 2))),
            output = (weight = d * h', bias = vec(sum(d; dims = 2))))
end

# Biases have a group of their own, since they do not decay; the rate falls in a line.
function create_optimizer(model, epochs)
    opt = Talus.setup("adamw", model; lr = 0.01)
    biases = Talus.add_group!(opt; weight_decay = 0)
    Talus.move!(opt, biases, ["hidden.bias", "output.bias"])
    falling = Schedule("linear"; start_factor = 1, end_factor = 1 / epochs,
                       total_iters = max(epochs - 1, 1))
    return Talus.attach!(opt, "lr", falling; clock = :manual)
end

function train_epoch!(opt, model, images, random)
    order = shuffle!(collect(1:length(images)), random)
    for first in 1:batch:length(order)
        some = images[order[first:min(first + batch - 1, end)]]
        x = [p + noise * (unit!(random) + unit!(random) + unit!(random)) for p in some.pixels]
        Talus.update!(opt, gradients(model, x, some.digits))
    end
end

function train!(opt, model, training, validation, random, epochs, stop)
    for epoch in Talus.clock(opt):min(epochs, stop)-1
        train_epoch!(opt, model, training, random)
        Talus.set_clock!(opt, epoch + 1)
        stderr isa Base.TTY || continue
        @printf(stderr, "\repoch %d of %d, validation accuracy %.4f", epoch + 1, epochs,
                accuracy(model, validation)[1])
    end
    stderr isa Base.TTY && println(stderr)
end

# The checkpoint holds the clock, which counts epochs; a note, where the random numbers are.
function save(opt, random, file)
    Talus.set_note!(opt, "digits.random", string(random.state))
    Talus.save(opt, file; params = true)
end

function resume!(opt, random, file)
    Talus.load!(opt, file; params = true)
    random.state = parse(UInt64, Talus.note(opt, "digits.random"))
end

function options(arguments)
    given = Dict("--epochs" => "80", "--stop-after" => "1000000", "--save" => "", "--resume" => "",
                 "--data" => joinpath(@__DIR__, "..", "..", "examples", "data", "digits.csv"))
    for i in 1:2:length(arguments)
        haskey(given, arguments[i]) && i < length(arguments) ||
            error("digits.jl: got $(arguments[i]), expected one of ",
                  join(sort(collect(keys(given))), ", "), ", each with a value")
        given[arguments[i]] = arguments[i+1]
    end
    return given
end

function main()
    BLAS.set_num_threads(1)  # the same sums for every number of cores
    given = options(ARGS)
    epochs = parse(Int, given["--epochs"])
    training, validation, test = thirds(load_images(given["--data"]))
    random = Random(run_seed)
    model = create_model(random, size(training.pixels, 1))
    opt = create_optimizer(model, epochs)
    isempty(given["--resume"]) || resume!(opt, random, given["--resume"])
    train!(opt, model, training, validation, random, epochs, parse(Int, given["--stop-after"]))
    isempty(given["--save"]) || save(opt, random, given["--save"])
    println(opt, ", ", Talus.stats(opt).steps, " steps")
    @printf("validation accuracy %.4f (%d of %d)\n", accuracy(model, validation)...,
            length(validation))
    # A run that was stopped has not ended, and does not look at the test third.
    Talus.clock(opt) == epochs &&
        @printf("test accuracy %.4f (%d of %d)\n", accuracy(model, test)..., length(test))
    close(opt)
end

main()
