# Arrays of every element type, in place; sizes; what is no dense array.

bf16(x::Float32) = UInt16(reinterpret(UInt32, x) >> 16)  # of numbers that it holds exactly

@testset "arrays of $T are updated in place" for T in (Float16, Float32, Float64)
    opt = Optimizer("sgd"; lr = 0.5)
    p, g = T[1, 2, 3], ones(T, 3)
    Talus.add!(opt, p, g; name = "w")
    Talus.step!(opt)
    @test p == T[0.5, 1.5, 2.5] && g == ones(T, 3)
    @test Talus.param(opt, "w").eltype == T
end

@testset "UInt16 is bf16, also as a gradient of Float32 and under a type of somebody else" begin
    opt = Optimizer("sgd"; lr = 0.5)
    p, q = bf16.(Float32[1, 2]), Float32[1, 2]
    Talus.add!(opt, p, bf16.(Float32[1, 1]); name = "p")
    Talus.add!(opt, q, bf16.(Float32[1, 1]); name = "q")
    Talus.step!(opt)
    @test p == bf16.(Float32[0.5, 1.5]) && q == Float32[0.5, 1.5]
    @test Talus.param(opt, "p").master == :f32 && Talus.param(opt, "q").grad_eltype == UInt16
    primitive type Brain 16 end
    Talus.element_dtype(::Type{Brain}) = Talus.element_dtype(UInt16)
    r = reinterpret.(Brain, bf16.(Float32[1, 2]))
    Talus.add!(opt, r, bf16.(Float32[1, 1]))
    Talus.step!(opt)
    @test reinterpret.(UInt16, r) == bf16.(Float32[0.5, 1.5])
end

@testset "sizes are reversed, memory is not" begin
    opt = Optimizer("sgd")
    Talus.add!(opt, Float32[1 2 3; 4 5 6]; name = "matrix")
    Talus.add!(opt, zeros(2, 3, 4); name = "cube")
    Talus.add!(opt, fill(1.0); name = "scalar")
    Talus.add!(opt, Float32[]; name = "empty")
    @test [Talus.param(opt, i).size for i in 0:3] == [(2, 3), (2, 3, 4), (), (0,)]
    @test [Talus.param(opt, i).name for i in 0:3] == ["matrix", "cube", "scalar", "empty"]
    info = Talus.param_info(opt, 1)
    @test unsafe_wrap(Array, info.shape, 3) == [4, 3, 2]
end

# A reader of its own for the file, with Python's standard library.
const reader = """
import json, struct, sys
data = open(sys.argv[1], "rb").read()
size = int.from_bytes(data[:8], "little")
found = json.loads(data[8:8 + size])["w"]
begin, end = found["data_offsets"]
values = struct.unpack("<%df" % ((end - begin) // 4), data[8 + size:][begin:end])
print(found["shape"], [list(values[i * 2:i * 2 + 2]) for i in range(3)])
"""

@testset "a 2 x 3 array is a 3 x 2 one of rows to other languages" begin
    python = Sys.which("python3")
    if python === nothing
        skipped("reading a 2 x 3 array in Python, because there is no python3")
    else
        mktempdir() do folder
            opt = Optimizer("sgd")
            Talus.add!(opt, Float32[1 2 3; 4 5 6], zeros(Float32, 2, 3); name = "w")
            Talus.step!(opt)
            Talus.save(opt, joinpath(folder, "x.safetensors"); params = true)
            @test readchomp(`$python -c $reader $folder/x.safetensors`) ==
                  "[3, 2] [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]"
        end
    end
end

@testset "a rule that sees the whole tensor takes any number of dimensions" begin
    opt = Optimizer("lamb"; lr = 0.1)
    p, q = Float32[1 2 3; 4 5 6], Float32[1, 4, 2, 5, 3, 6]
    Talus.add!(opt, p, ones(Float32, 2, 3))
    Talus.add!(opt, q, ones(Float32, 6))
    Talus.step!(opt)
    @test vec(p) == q && p[1] != 1
end

@testset "what is no dense array of ours is refused, not copied" begin
    opt = Optimizer("sgd")
    a = zeros(Float32, 4, 4)
    for x in (view(a, 1:2, :), a', transpose(a), 1:3, reinterpret(Float32, zeros(Int32, 3)))
        @test caught(() -> Talus.add!(opt, x)) isa MethodError
        @test caught(() -> Talus.add!(opt, a, x)) isa MethodError
    end
    for T in (Int32, ComplexF32, Bool)
        e = caught(() -> Talus.add!(opt, zeros(T, 3)))
        @test e isa ArgumentError && occursin(string(T), e.msg)
    end
    @test Talus.param_count(opt) == 0
end

@testset "gradients of another size or type are refused" begin
    opt = Optimizer("sgd")
    p = zeros(Float32, 2, 3)
    @test caught(() -> Talus.add!(opt, p, zeros(Float32, 3, 2))) isa DimensionMismatch
    @test refused(() -> Talus.add!(opt, p, zeros(Float64, 2, 3)), "TALUS_E_UNSUPPORTED", "f64")
    Talus.add!(opt, p; name = "p", grad_eltype = Float16)
    @test caught(() -> Talus.bind_grad!(opt, "p", zeros(Float32, 2, 3))) isa ArgumentError
    @test caught(() -> Talus.bind_grad!(opt, "p", zeros(Float16, 6))) isa DimensionMismatch
    @test caught(() -> Talus.bind_data!(opt, "p", zeros(Float32, 6))) isa DimensionMismatch
    @test refused(() -> Talus.step!(opt), "TALUS_E_STATE")
    Talus.bind_grad!(opt, "p", ones(Float16, 2, 3))
    Talus.step!(opt)
    @test p == fill(-Float32(get(opt, "lr")), 2, 3)
end

@testset "several are added all or none" begin
    opt = Optimizer("sgd")
    a, b = zeros(Float32, 2), zeros(Float32, 3)
    @test refused(() -> Talus.add!(opt, ["a" => a, "a" => b]), "TALUS_E_ARGUMENT", "\"a\"")
    @test refused(() -> Talus.add!(opt, ["a" => a, "b" => a]), "TALUS_E_ARGUMENT", "b")
    @test Talus.param_count(opt) == 0 && isempty(opt.data)
    @test caught(() -> Talus.add!(opt, ["a" => a], [a, b])) isa DimensionMismatch
    @test Talus.add!(opt, ["a" => a, "b" => b]) == 0
    @test Talus.add!(opt, Float32[1]; name = "c") == 2
end

@testset "errors name the parameter, the one without a name by its index" begin
    opt = Optimizer("sgd")
    Talus.add!(opt, [1.0])
    said(f) = caught(f).msg
    long = [1.0, 2.0]
    @test said(() -> Talus.add!(opt, [1.0], long)) == "parameter 1: gradient is (2,), expected (1,)"
    @test startswith(said(() -> Talus.add!(opt, ["a" => [1.0], nothing => [1.0]], [nothing, long])),
                     "parameter 2: gradient")
    @test startswith(said(() -> Talus.add!(opt, [1.0], long; name = "a")),
                     "parameter 1 \"a\": gradient")
    for f in (() -> Talus.bind_grad!(opt, 0, long), () -> Talus.bind_grad!(opt, 0, Float32[1]),
              () -> Talus.bind_data!(opt, 0, long), () -> Talus.bind_rows!(opt, 0, [1], long),
              () -> Talus.import_param!(opt, 0, Float32[1, 2]))
        @test occursin("parameter 0 \"param.0\"", said(f))
    end
    e = caught(() -> Talus.update!(Talus.setup("sgd", (a = [1.0],)), (a = view(long, 1:1),)))
    @test startswith(e.msg, "gradient of a: got a SubArray")
    e = caught(() -> Talus.update!(Talus.setup("sgd", (a = ([1.0],),)), (a = IdDict(),)))
    @test startswith(e.msg, "gradients of a: got an IdDict")
end
