# Parameters: arrays of the caller, in place.
#
# Julia stores columns, the library rows: an array is handed over with its size reversed, which says
# of the same memory the same thing.

"""
    address(array)

Returns where the elements of a dense array are; for arrays of a device an extension adds a method.
"""
address(array::DenseArray) = Ptr{Cvoid}(pointer(array))

"Returns (device type, id) of the memory of an array."
device_of(::DenseArray) = (CPU, 0)

extents(array) = Int64[reverse(size(array))...]

"""
    add!(opt, parameter, gradient = nothing; name, group = 0, grad_eltype, state_eltype,
         master = :auto)

Adds a parameter and returns its index. The step reads `gradient` and writes `parameter` in place.
Without a gradient yet, `grad_eltype` says what it will be (default: the parameter's). Behind
Float16 and bf16 (`UInt16`) there is an f32 master, unless `master` is `:none`. A view or a
transpose is a `MethodError`: copy it.
"""
function add!(opt::Optimizer, parameter::DenseArray, gradient::Union{DenseArray,Nothing} = nothing;
              name::Union{AbstractString,Nothing} = nothing, group = 0, options...)
    return add!(opt, [name => parameter], [gradient]; group = group, options...)
end

"""
    add!(opt, [name => parameter, ...], [gradient, ...]; ...)

Adds several, all or none, and returns the index of the first.
"""
function add!(opt::Optimizer, parameters::Vector{<:Pair},
              gradients::Vector = fill(nothing, length(parameters));
              group = 0, grad_eltype = nothing, state_eltype = nothing, master::Symbol = :auto)
    length(parameters) == length(gradients) ||
        throw(DimensionMismatch("got $(length(gradients)) gradients, " *
                                "expected $(length(parameters))"))
    for (i, (parameter, gradient)) in enumerate(zip(parameters, gradients))
        check_gradient(label_of(length(opt.data) + i - 1, parameter[1]), parameter[2], gradient)
    end
    roots = Any[]
    infos = [describe(parameters[i], gradients[i], grad_eltype, state_eltype, master, roots)
             for i in eachindex(parameters)]
    first = Ref{Int64}(0)
    GC.@preserve parameters gradients roots begin
        @check talus_add_params(opt::Ptr{Cvoid}, group::Int32, length(infos)::Int64,
                                infos::Ptr{ParamInfo}, first::Ref{Int64})
    end
    append!(opt.data, Bound[Bound(p) for (_, p) in parameters])
    append!(opt.grads, map(bound_or_nothing, gradients))
    return first[]
end

function check_gradient(label, parameter, gradient)
    (gradient === nothing || size(parameter) == size(gradient)) && return
    throw(DimensionMismatch("$label: gradient is $(size(gradient)), expected $(size(parameter))"))
end

# Its text and shape live in roots until the library has copied them.
function describe((name, parameter)::Pair, gradient, grad_eltype, state_eltype, master, roots)
    shape = extents(parameter)
    label = name === nothing ? nothing : Base.cconvert(Cstring, String(name))
    push!(roots, shape, label)
    return ParamInfo(
        dtype = dtype(eltype(parameter)), data = address(parameter),
        grad = gradient === nothing ? C_NULL : address(gradient),
        name = label === nothing ? C_NULL : Ptr{UInt8}(Base.unsafe_convert(Cstring, label)),
        shape = pointer(shape), ndim = length(shape),
        grad_dtype = dtype(gradient === nothing ? grad_eltype : eltype(gradient)),
        state_dtype = dtype(state_eltype), master = choose("master", masters, master))
end

param_count(opt::Optimizer) = @lib talus_param_count(Inside(opt)::Ptr{Cvoid})::Int64

"Returns the index of the parameter of this name, `nothing` where there is none."
function find(opt::Optimizer, name::AbstractString)
    index = @lib talus_find_param(Inside(opt)::Ptr{Cvoid}, name::Cstring)::Int64
    return index < 0 ? nothing : index
end

index_of(::Optimizer, param::Integer) = Int64(param)
function index_of(opt::Optimizer, name::AbstractString)
    index = find(opt, name)
    index === nothing && throw(TalusError(E_NAME, "no parameter named \"$name\""))
    return index
end

function param_info(opt::Optimizer, index::Int64)
    info = Ref(ParamInfo())
    @check talus_param_info(Inside(opt)::Ptr{Cvoid}, index::Int64, info::Ref{ParamInfo})
    return info[]
end

size_of(info::ParamInfo) = Tuple(Int(unsafe_load(info.shape, info.ndim - i)) for i in 0:info.ndim-1)

"Describes a parameter, with defaults filled in: name, size, element types, master and group."
function param(opt::Optimizer, which)
    index = index_of(opt, which)
    info = param_info(opt, index)
    return GC.@preserve opt (
        index = index, name = text(info.name), size = size_of(info),
        eltype = element_type(info.dtype),
        grad_eltype = element_type(info.grad_dtype), state_eltype = element_type(info.state_dtype),
        master = keys(masters)[info.master+1],
        group = Int(@lib talus_param_group(Inside(opt)::Ptr{Cvoid}, index::Int64)::Int32))
end

indices_of(opt, which) = Int64[index_of(opt, p) for p in which]
indices_of(opt, which::Union{Integer,AbstractString}) = Int64[index_of(opt, which)]

"""
    move!(opt, group, parameters)

Moves parameters (one, or several) to a group of the same rule; step counts, state and gradients
follow.
"""
function move!(opt::Optimizer, group, which)
    params = indices_of(opt, which)
    @check talus_move_params(opt::Ptr{Cvoid}, group::Int32, length(params)::Int64,
                             params::Ptr{Int64})
    return opt
end

"""
    remove!(opt, parameters)

Removes parameters (one, or several) with their state. Indices of others stay.
"""
function remove!(opt::Optimizer, which)
    params = indices_of(opt, which)
    @check talus_remove_params(opt::Ptr{Cvoid}, length(params)::Int64, params::Ptr{Int64})
    for i in params
        opt.data[i+1] = opt.grads[i+1] = nothing
        delete!(opt.rows, i)
    end
    filter!(bound -> !(bound.first[1] in params), opt.state)
    return opt
end

"""
    bind_data!(opt, parameter, array)

Has another array of the same size and element type stand for a parameter. Its contents are taken as
they are, but behind a master: see `import_param!`.
"""
function bind_data!(opt::Optimizer, which, array::DenseArray)
    index = index_of(opt, which)
    check_match(opt, index, "data", :dtype, array)
    point_data!(opt, index, Bound(array))
    return opt
end

function point_data!(opt, index::Int64, bound::Bound)
    @check talus_bind_data(opt::Ptr{Cvoid}, index::Int64, bound.pointer::Ptr{Cvoid})
    opt.data[index+1] = bound
end

# How errors name a parameter, as the library does.
label_of(index::Integer, name) = "parameter $index" * (name === nothing ? "" : " \"$name\"")
label_of(opt::Optimizer, index) = label_of(index, text(param_info(opt, Int64(index)).name))

function check_match(opt, index, what, field::Symbol, array)
    info = param_info(opt, Int64(index))
    expected = getfield(info, field)
    label = "$(label_of(opt, index)): $what"
    element_dtype(eltype(array)) == expected ||
        throw(ArgumentError("$label has elements of $(eltype(array)), " *
                            "expected $(element_type(expected))"))
    size(array) == size_of(info) ||
        throw(DimensionMismatch("$label is $(size(array)), expected $(size_of(info))"))
end

"Describes the bytes for each element of a parameter of these element types; see talus_bytes."
function bytes_per_param(opt::Optimizer; eltype = Float32, grad_eltype = nothing,
                         state_eltype = nothing, master::Symbol = :auto, group = 0)
    info = Ref(ParamInfo(dtype = dtype(eltype), grad_dtype = dtype(grad_eltype),
                         state_dtype = dtype(state_eltype),
                         master = choose("master", masters, master)))
    out = Ref(BytesInfo())
    @check talus_bytes_per_param(opt::Ptr{Cvoid}, group::Int32, info::Ref{ParamInfo},
                                 out::Ref{BytesInfo})
    return named(out[])
end
