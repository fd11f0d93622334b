# The declarations against the header and the library, and libraries that are none.

const structs = ("talus_hyper" => Talus.HyperInfo, "talus_param" => Talus.ParamInfo,
                 "talus_rows" => Talus.RowsInfo, "talus_state" => Talus.StateInfo,
                 "talus_bytes" => Talus.BytesInfo, "talus_stats" => Talus.StatsInfo,
                 "talus_io" => Talus.IOInfo, "talus_writer" => Talus.WriterInfo,
                 "talus_reader" => Talus.ReaderInfo)
const include_folder = normpath(@__DIR__, "..", "..", "..", "include")
const header = joinpath(include_folder, "talus.h")
const cc = Sys.which("cc") === nothing ? nothing : "cc"  # not what it is a link to

function layout_program()
    lines = map(structs) do (name, type)
        fields = join(("P($name, $f)" for f in fieldnames(type)), " ")
        "printf(\"%zu\", sizeof($name)); $fields puts(\"\");"
    end
    return "#include <stddef.h>\n#include <stdio.h>\n#include <talus.h>\n" *
           "#define P(s, f) printf(\" %zu:%zu\", offsetof(s, f), sizeof(((s *)0)->f));\n" *
           "int main(void) { $(join(lines, "\n")) return 0; }\n"
end

place(type, i) = "$(fieldoffset(type, i)):$(sizeof(fieldtype(type, i)))"
layout(type) = join([sizeof(type); [place(type, i) for i in 1:fieldcount(type)]], " ")

function compile(folder, name, source, flags...)
    file = joinpath(folder, "$name.c")
    write(file, source)
    run(`$cc -I$include_folder $(collect(flags)) -o $(joinpath(folder, name)) $file`)
    return joinpath(folder, name)
end

@testset "structs have the sizes and offsets of the header" begin
    @test [sizeof(type) for (_, type) in structs] == [56, 64, 40, 64, 56, 72, 32, 24, 32]
    if cc === nothing || !isfile(header)
        skipped("offsets, because there is no cc or no header")
    else
        mktempdir() do folder
            answers = readlines(`$(compile(folder, "layout", layout_program()))`)
            @test answers == [layout(type) for (_, type) in structs]
        end
    end
end

@testset "every function of the header is wrapped, but for hooks that must not call Julia" begin
    if isfile(header)
        found = eachmatch(r"TALUS_API[^;(]*?\b(talus_\w+)\(", read(header, String))
        declared = Set(Symbol(m[1]) for m in found)
        @test length(declared) > 60
        hooks = Set((:talus_set_parallel_for, :talus_set_allocator, :talus_set_log))
        @test setdiff(declared, Talus.wrapped) == hooks
        @test isempty(setdiff(Talus.wrapped, declared))
    else
        skipped("functions, because there is no header")
    end
end

@testset "numbers of the header" begin
    @test Talus.abi_version().major == Talus.ABI
    @test Talus.version() isa VersionNumber
    @test Talus.sym(:talus_step) != C_NULL
    @test TalusError(3, "x").name == "TALUS_E_RANGE"
    @test Talus.dtype.((Float16, UInt16, Float32, Float64)) == (0x1002, 0x1004, 0x2002, 0x4002)
end

@testset "a library that is missing, another one, or of another ABI is refused in words" begin
    load(path) = run_julia("-e", "push!(LOAD_PATH, $(repr(dirname(@__DIR__)))); using Talus";
                           TALUS_LIB = path)
    status, output = load("/nowhere/libtalus.so.0")
    @test status != 0 && occursin("/nowhere/libtalus.so.0", output) && occursin("TALUS_LIB", output)
    if cc === nothing
        skipped("libraries of another ABI, because there is no cc")
    else
        mktempdir() do folder
            other = compile(folder, "other.so", "int x;", "-shared")
            status, output = load(other)
            @test status != 0 && occursin("is no libtalus", output)
            newer = compile(folder, "newer.so",
                            "unsigned talus_abi_version(void) { return 9u << 16; }", "-shared")
            status, output = load(newer)
            @test status != 0 && occursin("has ABI 9, expected $(Talus.ABI)", output)
            older = compile(folder, "older.so", "unsigned talus_abi_version(void) { return 0; }",
                            "-shared")
            status, output = load(older)
            @test status != 0 && occursin(r"has no talus_\w+", output)
        end
    end
end
