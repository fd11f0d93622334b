# Trains the digit example: its accuracy, and a run that is stopped and resumed.
using Test

const example = joinpath(@__DIR__, "..", "examples", "digits.jl")

train(arguments...) = read(`$(Base.julia_cmd()) --startup-file=no $example $(collect(arguments))`,
                           String)

@testset "digits" begin
    mktempdir() do folder
        path(name) = joinpath(folder, name * ".safetensors")
        whole = train("--save", path("whole"))
        print(whole)
        @test parse(Float64, match(r"\ntest accuracy ([\d.]+) \(\d+ of 599\)\n$", whole)[1]) >= 0.96
        stopped = train("--stop-after", "29", "--save", path("stopped"))
        @test !occursin("test accuracy", stopped)
        @test train("--resume", path("stopped"), "--save", path("resumed")) == whole
        @test read(path("stopped")) != read(path("whole"))
        @test read(path("resumed")) == read(path("whole"))
    end
end
