# The tests of Talus.jl, with Julia's standard library alone:
#
#     TALUS_LIB=.../libtalus.so.0 julia --project=capi/julia capi/julia/test/runtests.jl [PART...]
#
# conformance.jl and digits.jl are programs of their own.
push!(LOAD_PATH, dirname(@__DIR__))
using Talus, Random, Serialization, Test

# What a call throws; a test that nothing is thrown fails.
function caught(f)
    try
        f()
    catch e
        return e
    end
    return nothing
end

# A TalusError of this name whose text has all the words.
function refused(f, name, words...)
    e = caught(f)
    return e isa TalusError && e.name == name && all(word -> occursin(word, e.message), words)
end

collect_all() = foreach(_ -> GC.gc(), 1:3)

# What cannot run on this machine says so.
skipped(what) = println("SKIPPED: ", what)

# Runs a Julia of its own, and returns its exit status and all that it printed.
function run_julia(arguments...; environment...)
    out = IOBuffer()
    command = `$(Base.julia_cmd()) --startup-file=no $(collect(arguments))`
    for (name, value) in environment
        command = addenv_1_5(command, string(name), value)
    end
    process = run(pipeline(ignorestatus(command), stdout = out, stderr = out))
    return process.exitcode, String(take!(out))
end

# addenv is of Julia 1.6.
addenv_1_5(command, name, value) = setenv(command, merge(Dict(pairs(ENV)), Dict(name => value)))

println("Julia ", VERSION, ", ", Threads.nthreads(), " threads, ", Talus.build_info())
const parts = ["abi", "names", "arrays", "moved", "life", "groups", "rows", "state", "closure",
               "schedules", "precision", "checkpoint", "model", "threads", "page"]
@testset "Talus.jl" begin
    for part in (isempty(ARGS) ? parts : ARGS)
        @testset "$part" begin
            include("test_$part.jl")
        end
    end
end
