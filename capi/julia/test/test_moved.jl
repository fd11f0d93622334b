# Arrays that are resized while they are bound.

# Until the memory is elsewhere: to half a page and back.
function move!(array)
    before, count = pointer(array), length(array)
    for _ in 1:100
        resize!(array, 4000 + length(array))
        resize!(array, count)
        sizehint!(array, count)
        pointer(array) == before || return true
    end
    return false
end

function line()
    p, g = Float32[1, 2, 3], ones(Float32, 3)
    opt = Optimizer("sgd"; lr = 0.5)
    Talus.add!(opt, p, g; name = "w")
    return opt, p, g
end

const movable = ("data" => 2, "gradient" => 3)  # of what line() returns

@testset "a $what that has moved is followed" for (what, which) in movable
    made = line()
    opt, p, g = made
    @test move!(made[which])
    @test Talus.has_moved(which == 2 ? opt.data[1] : opt.grads[1])
    Talus.step!(opt)
    @test p == Float32[0.5, 1.5, 2.5] && g == ones(Float32, 3)
    Talus.zero_grad!(opt)
    @test g == zeros(Float32, 3)
end

@testset "a $what that has been resized is refused" for (what, which) in movable
    made = line()
    opt, p, g = made
    push!(made[which], 9)
    calls = (() -> Talus.step!(opt), () -> Talus.step!(() -> 0.0, opt), () -> Talus.advance!(opt),
             () -> Talus.prepare!(opt), () -> Talus.zero_grad!(opt), () -> Talus.grad_norm(opt),
             () -> Talus.clip_grad_norm!(opt, 1), () -> Talus.load!(opt, IOBuffer()),
             () -> Talus.save(opt, IOBuffer(); params = true))
    for call in calls
        @test refused(call, "TALUS_E_ARGUMENT", "\"w\"", what, "got 4", "expected 3")
    end
    @test p[1:3] == Float32[1, 2, 3] && g[1:3] == ones(Float32, 3) && Talus.steps(opt, "w") == 0
    pop!(made[which])
    Talus.step!(opt)
    @test p == Float32[0.5, 1.5, 2.5]
end

@testset "state and rows that have moved are followed, and refused when resized" begin
    opt, p, g = line()
    Talus.set!(opt; momentum = 0.5)
    buffer = zeros(Float32, 3)
    Talus.bind_state!(opt, "w", "momentum_buffer", buffer)
    Talus.step!(opt)
    @test buffer == ones(Float32, 3)
    @test move!(buffer)
    Talus.step!(opt)
    @test buffer == fill(1.5f0, 3)
    push!(buffer, 0)
    @test refused(() -> Talus.step!(opt), "TALUS_E_ARGUMENT", "state", "got 4")

    rows = Optimizer("sgd"; lr = 1)
    table, values = zeros(Float32, 4), Float32[1]
    Talus.add!(rows, table)
    Talus.bind_rows!(rows, 0, [2], values)
    @test move!(values)
    Talus.step!(rows)
    @test table == Float32[0, -1, 0, 0]
    Talus.bind_rows!(rows, 0, [2], values)
    push!(values, 0)
    @test refused(() -> Talus.step!(rows), "TALUS_E_ARGUMENT", "values", "got 2")
end

@testset "what is resized within a closure is refused, and no step is taken" begin
    opt, p, g = line()
    @test refused(() -> Talus.step!(() -> (push!(p, 9); 0.0), opt), "TALUS_E_STATE",
                  "parameter 0 \"w\"", "data", "callback")
    pop!(p)
    @test refused(() -> Talus.step!(() -> (push!(g, 9); 0.0), opt), "TALUS_E_ARGUMENT", "gradient")
    pop!(g)
    Talus.step!(() -> (@test(move!(g)); g .= 2; 0.0), opt)
    @test p == Float32[0, 1, 2]
end

# An optimizer with all that can be bound, by what it is called in errors.
function bound_line()
    opt, p, g = line()
    Talus.set!(opt; momentum = 0.5)
    table, values, buffer = zeros(Float32, 4), Float32[1], zeros(Float32, 3)
    Talus.add_group!(opt, "sgd")
    Talus.add!(opt, table; group = 1, name = "table")
    Talus.set!(opt, "momentum", 0; group = 1)
    Talus.bind_rows!(opt, "table", [2], values)
    Talus.bind_state!(opt, "w", "momentum_buffer", buffer)
    scale = Float32[1]
    Talus.bind_scale!(opt, scale)
    return opt, Dict("data" => p, "gradient" => g, "rows" => values, "state" => buffer,
                     "scale" => scale)
end

grow!(array) = resize!(array, 100_000)

@testset "$what resized within a callback of $caller is refused" for
        what in ("data", "gradient", "rows", "state", "scale"),
        caller in ("step!", "a closure's step", "save", "load!")
    opt, arrays = bound_line()
    array, before = arrays[what], copy(arrays["data"])
    count = length(array)
    resizing = true
    factor(t) = (resizing && grow!(array); 1.0)
    Talus.attach!(opt, "lr", Schedule(factor))
    progress(done, total) = (grow!(array); true)
    file = IOBuffer()
    Talus.save(opt, file; params = true)
    call = caller == "step!" ? () -> Talus.step!(opt) :
        caller == "save" ? () -> Talus.save(opt, IOBuffer(); params = true, progress = progress) :
        caller == "load!" ? () -> Talus.load!(opt, seekstart(file); params = true,
                                              progress = progress) :
        () -> Talus.step!(() -> 0.0, opt)
    @test refused(call, "TALUS_E_STATE", what, "within a callback")
    @test arrays["data"][1:3] == before && Talus.steps(opt, 0) == 0
    resizing = false
    resize!(array, count)
    Talus.step!(opt)
    @test arrays["data"] == before .- 0.5f0
end

@testset "a function that resizes is no matter where no tensor is read" begin
    opt, p, g = line()
    Talus.attach!(opt, "lr", Schedule(t -> (push!(p, 9); 2.0)))
    @test Talus.value_now(opt, "lr") == 1
    @test length(p) == 4
end
