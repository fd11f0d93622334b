# Different optimizers on different threads; errors belong to the thread that made them.

function trained_from(i)
    p = fill(Float32(i), 1000)
    opt = Optimizer("adamw"; lr = 0.1)
    Talus.add!(opt, p, ones(Float32, 1000))
    Talus.attach!(opt, "lr", Schedule(t -> 1 / (1 + t)))
    foreach(_ -> Talus.step!(opt), 1:20)
    return p
end

@testset "optimizers of different threads do not meet" begin
    expected = trained_from.(1:32)
    found = Vector{Any}(undef, 32)
    Threads.@threads for i in 1:32
        found[i] = trained_from(i)
        i % 8 == 0 && GC.gc()
    end
    @test found == expected
end

@testset "errors belong to their threads" begin
    messages = Vector{String}(undef, 64)
    Threads.@threads for i in 1:64
        messages[i] = caught(() -> Optimizer("nothing_$i")).message
    end
    @test all(occursin("\"nothing_$i\"", messages[i]) for i in 1:64)
end

@testset "threads of the library change no result" begin
    results = map((1, 4)) do threads
        p = collect(Float32, 1:100_000)
        opt = Optimizer("lamb"; lr = 0.1)
        Talus.set_setting!(opt; threads = threads)
        Talus.add!(opt, p, sin.(p))
        foreach(_ -> Talus.step!(opt), 1:3)
        p
    end
    @test results[1] == results[2]
end
