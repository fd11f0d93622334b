# The page of these bindings: its examples run as they stand.

@testset "examples of README.md" begin
    page = read(joinpath(@__DIR__, "..", "README.md"), String)
    examples = [String(m[1]) for m in eachmatch(r"```julia\n(.*?)```"s, page)]
    @test length(examples) >= 2
    mktempdir() do folder
        cd(folder) do
            for (i, example) in enumerate(examples)
                include_string(Module(Symbol("Example", i)), example, "README.md, example $i")
                @test true
            end
        end
    end
end

@testset "docstrings for what users call" begin
    undocumented = [name for name in (:setup, :update!, :add!, :step!, :save, :load!, :bind_rows!,
                                      :state, :names)
                    if Base.Docs.doc(getfield(Talus, name)) === nothing]
    @test isempty(undocumented)
end
