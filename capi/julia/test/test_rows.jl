# Gradients of some columns, which are the library's rows.

@testset "columns of $I are those of the array, counted from 1" for I in (Int32, Int64)
    opt = Optimizer("sgd"; lr = 1)
    table = zeros(Float32, 2, 4)
    Talus.add!(opt, table; name = "table")
    Talus.bind_rows!(opt, "table", I[3, 1], Float32[1 3; 2 4])
    GC.gc()
    Talus.step!(opt)
    @test table == Float32[-3 0 -1 0; -4 0 -2 0]
    @test isempty(opt.rows)
    @test refused(() -> Talus.step!(opt), "TALUS_E_STATE", "gradient")
end

@testset "a column that is not there, or values of another size, are refused" begin
    opt = Optimizer("sparse_adam")
    Talus.add!(opt, zeros(Float32, 2, 4))
    one = zeros(Float32, 2, 1)
    @test refused(() -> Talus.bind_rows!(opt, 0, [5], one), "TALUS_E_ARGUMENT", "4")
    @test refused(() -> Talus.bind_rows!(opt, 0, [0], one), "TALUS_E_ARGUMENT", "-1")
    @test caught(() -> Talus.bind_rows!(opt, 0, [1], zeros(Float32, 2, 2))) isa DimensionMismatch
    @test caught(() -> Talus.bind_rows!(opt, 0, [1], zeros(Float16, 2, 1))) isa ArgumentError
    @test caught(() -> Talus.bind_rows!(opt, 0, [1.0], zeros(Float32, 2, 1))) isa MethodError
    @test isempty(opt.rows)
end

@testset "they are taken back by hand, or by a dense gradient" begin
    opt = Optimizer("sgd"; lr = 1)
    table = zeros(Float32, 2, 4)
    Talus.add!(opt, table)
    Talus.bind_rows!(opt, 0, [1], ones(Float32, 2, 1))
    Talus.bind_rows!(opt, 0, nothing, nothing)
    @test isempty(opt.rows)
    Talus.bind_rows!(opt, 0, [1], ones(Float32, 2, 1))
    Talus.bind_grad!(opt, 0, ones(Float32, 2, 4))
    @test isempty(opt.rows)
    Talus.step!(opt)
    @test table == fill(-1f0, 2, 4)
end
