# What the library says of itself, and keywords made of it.

@testset "lists, and the line about each name" begin
    for list in Talus.names("lists"), name in Talus.names(list)
        @test !isempty(name)
        @test Talus.doc(list, name) isa String
    end
    @test "adamw" in Talus.names("algorithms")
    @test refused(() -> Talus.names("nothing"), "TALUS_E_NAME", "nothing")
    @test refused(() -> Talus.doc("algorithms", "nothing"), "TALUS_E_NAME", "nothing")
end

@testset "every hyperparameter of every algorithm is a keyword with its default" begin
    for rule in vcat(Talus.names("algorithms"), Talus.names("aliases"))
        described = Talus.hypers(rule)
        @test !isempty(described)
        given = [h.name => h.default for h in described if !isnan(h.default)]
        opt = Optimizer(rule; given...)
        @test all(get(opt, name) == value for (name, value) in given)
        close(opt)
    end
    for owner in vcat("settings", "scaler", "schedule/" .* Talus.names("schedules"))
        @test all(h -> h.kind in Talus.kinds && !isempty(h.doc), Talus.hypers(owner))
    end
    @test refused(() -> Talus.hypers("nothing"), "TALUS_E_NAME", "nothing")
end

@testset "an unknown keyword is refused with the known ones" begin
    for f in (() -> Optimizer("adamw"; learning_rate = 1),
              () -> Talus.setup("adamw", [[1f0]]; learning_rate = 1),
              () -> Talus.add_group!(Optimizer("sgd"), "adamw"; learning_rate = 1))
        e = caught(f)
        @test e isa ArgumentError && occursin("learning_rate", e.msg) && occursin("beta1", e.msg)
    end
    @test caught(() -> Schedule("cosine"; t_max = 1)) isa ArgumentError
    @test caught(() -> Scaler(; size = 1)) isa ArgumentError
    @test caught(() -> Talus.set_setting!(Optimizer("sgd"); thread = 1)) isa ArgumentError
    @test caught(() -> Optimizer("sgd\0x")) isa ArgumentError
end

@testset "errors have code, name, text and detail" begin
    e = caught(() -> Optimizer("sgd"; lr = -1))
    @test e isa TalusError && (e.code, e.name, e.detail) == (3, "TALUS_E_RANGE", 0)
    @test occursin("lr", e.message) && occursin("-1", e.message)
    @test sprint(showerror, e) == "TALUS_E_RANGE: " * e.message
    @test refused(() -> Optimizer("no_such"), "TALUS_E_NAME", "no_such", "adamw")
end

@testset "features say why they cannot be used" begin
    @test Talus.has_feature("cpu") && Talus.why_not("cpu") === nothing
    @test !Talus.has_feature("no_such") && occursin("no_such", Talus.why_not("no_such"))
end

@testset "what is shown" begin
    opt = Optimizer(:adamw)
    Talus.add!(opt, [1.0])
    @test string(opt) == "Talus.Optimizer of adamw for 1 parameters"
    @test string(Schedule("step")) == "Talus.Schedule, step"
    @test string(Scaler()) == "Talus.Scaler, of scale 65536.0"
    close(opt)
    @test string(opt) == "Talus.Optimizer, closed"
end
