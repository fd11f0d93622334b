# Saving, loading, and going on to the bit.

# Two groups, a 16-bit matrix and an f64 vector, a schedule; what step i does depends on i alone.
function fresh()
    model = (matrix = Float16[1 2 3; 4 5 6], vector = [1.0, -1.0])
    opt = Optimizer("adamw"; lr = 0.1)
    group = Talus.add_group!(opt, "lamb")
    Talus.add!(opt, model.matrix; name = "matrix")
    Talus.add!(opt, model.vector; name = "vector", group = group)
    Talus.attach!(opt, "lr", Schedule("cosine"; T_max = 20))
    return opt, model
end

function train!(opt, range)
    for i in range
        Talus.bind_grads!(opt, [Float16.(sin.(i .+ [1 2 3; 4 5 6])), cos.(i .+ [1.0, 2.0])])
        Talus.step!(opt)
    end
end

const ways = ("a file", "shards", "an IO")

bytes_of(opt; options...) = (io = IOBuffer(); Talus.save(opt, io; options...); take!(io))

@testset "what is resumed through $way has the bits of what was never stopped" for way in ways
    mktempdir() do folder
        whole, expected = fresh()
        train!(whole, 1:10)
        stopped, _ = fresh()
        train!(stopped, 1:4)
        file = joinpath(folder, way == "shards" ? "x.safetensors.index.json" : "x.safetensors")
        way == "an IO" ? open(io -> Talus.save(stopped, io; params = true), file, "w") :
            Talus.save(stopped, file; params = true)
        close(stopped)
        resumed, model = fresh()
        way == "an IO" ? open(io -> Talus.load!(resumed, io; params = true), file) :
            Talus.load!(resumed, file; params = true)
        train!(resumed, 5:10)
        @test reinterpret(UInt16, model.matrix) == reinterpret(UInt16, expected.matrix)
        @test reinterpret(UInt64, model.vector) == reinterpret(UInt64, expected.vector)
        @test bytes_of(resumed; params = true) == bytes_of(whole; params = true)
    end
end

@testset "a file and an IO get the same bytes, also behind others" begin
    opt, _ = fresh()
    train!(opt, 1:3)
    mktempdir() do folder
        file = joinpath(folder, "x.safetensors")
        Talus.save(opt, file)
        @test read(file) == bytes_of(opt)
        Talus.save(opt, file; digest = false)
        @test read(file) != bytes_of(opt)
        both = IOBuffer([UInt8[1, 2, 3]; bytes_of(opt)])
        seek(both, 3)
        again, _ = fresh()
        Talus.load!(again, both; params = true, allow_missing = true, check_only = true)
        @test Talus.steps(again, 0) == 0
    end
end

@testset "progress is told, may cancel, and what it throws comes out" begin
    opt, _ = fresh()
    train!(opt, 1:2)
    seen = Tuple{Int,Int}[]
    mktempdir() do folder
        file = joinpath(folder, "x.safetensors")
        Talus.save(opt, file; progress = (done, total) -> push!(seen, (done, total)))
        @test length(seen) >= 2 && issorted(first.(seen)) && seen[end][1] == seen[end][2] > 0
        before = read(file)
        train!(opt, 3:3)
        @test refused(() -> Talus.save(opt, file; progress = (done, total) -> false),
                      "TALUS_E_CANCELLED")
        fail(done, total) = error("mine")
        for call in (() -> Talus.save(opt, file; progress = fail),
                     () -> Talus.load!(opt, file; progress = fail))
            @test caught(call) == ErrorException("mine")
        end
        @test read(file) == before && readdir(folder) == ["x.safetensors"] &&
            Talus.steps(opt, 0) == 3
    end
end

struct Full <: IO end  # that takes nothing
Base.unsafe_write(::Full, ::Ptr{UInt8}, ::UInt) = error("full")

@testset "files that are not there, not whole, or of another model" begin
    opt, _ = fresh()
    train!(opt, 1:2)
    whole = bytes_of(opt)
    @test refused(() -> Talus.load!(opt, "/nowhere/x.safetensors"), "TALUS_E_IO", "/nowhere")
    @test caught(() -> Talus.save(opt, Full())) == ErrorException("full")
    @test refused(() -> Talus.load!(opt, IOBuffer(whole[1:100])), "TALUS_E_FORMAT")
    damaged = copy(whole)
    damaged[end] ⊻= 1
    @test refused(() -> Talus.load!(opt, IOBuffer(damaged)), "TALUS_E_FORMAT")
    other = Optimizer("adamw")
    Talus.add!(other, [1.0]; name = "other")
    e = caught(() -> Talus.load!(other, IOBuffer(whole)))
    @test e isa TalusError && e.name == "TALUS_E_MISMATCH" && e.detail > 0 &&
        occursin("other", e.message)
    @test caught(() -> Talus.load!(opt, IOBuffer(whole); in_peace = true)) isa ArgumentError
    @test bytes_of(opt) == whole
end

function halving()
    opt = Optimizer("sgd"; lr = 1)
    p = zeros(1)
    Talus.add!(opt, p, ones(1); name = "p")
    Talus.attach!(opt, "lr", Schedule(t -> 0.5^t))
    return opt, p
end

@testset "functions of schedules are given again after a load" begin
    opt, _ = halving()
    Talus.step!(opt)
    again, p = halving()
    Talus.load!(again, IOBuffer(bytes_of(opt)))
    @test refused(() -> Talus.step!(again), "TALUS_E_STATE", "function")
    Talus.set_function!(Talus.schedule(again, "lr").schedule, t -> 0.5^t)
    Talus.step!(again)
    @test p == [-0.5]
end

@testset "notes are kept, and travel" begin
    opt, _ = fresh()
    @test Talus.note(opt, "epoch") === nothing
    Talus.set_note!(opt, "epoch", "12 of ∞")
    Talus.set_note!(opt, "empty", "")
    again, _ = fresh()
    Talus.load!(again, IOBuffer(bytes_of(opt)))
    @test Talus.note(again, "epoch") == "12 of ∞" && Talus.note(again, "empty") == ""
    Talus.set_note!(again, "epoch", nothing)
    @test Talus.note(again, "epoch") === nothing
    @test caught(() -> Talus.set_note!(opt, "epoch", "a\0b")) isa ArgumentError
    @test refused(() -> Talus.set_note!(opt, "", "x"), "TALUS_E_ARGUMENT")
end
