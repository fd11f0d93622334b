# A model as users of Optimisers.jl have it: nested tuples, named or not, with arrays as leaves.

"""
    setup(rule, model; device, grad_eltype, state_eltype, master, hyperparameters...)

Returns an optimizer of all arrays in a model of nested NamedTuples, Tuples and Vectors of these. A
parameter's name is the path to it, `layers.1.weight`. Functions, numbers, `nothing` and arrays of
integers other than `UInt16` are left alone. What cannot be trained where it is, is refused: a view,
a transpose, an array within a struct or a Dict.

    model = (layers = ((weight = randn(Float32, 4, 3), bias = zeros(Float32, 4)),),)
    opt = Talus.setup("adamw", model; lr = 1e-3)
    Talus.update!(opt, gradients)
"""
function setup(rule, model; grad_eltype = nothing, state_eltype = nothing, master::Symbol = :auto,
               device = nothing, hyperparameters...)
    leaves = leaves_of(model)
    isempty(leaves) && throw(ArgumentError("setup: the model has no array to train"))
    type, id = device === nothing ? device_of(last(first(leaves))) : device
    opt = Optimizer(rule; device = type, device_id = id, hyperparameters...)
    first_index = add!(opt, leaves; grad_eltype = grad_eltype, state_eltype = state_eltype,
                       master = master)
    opt.model = (model, first_index)
    return opt
end

"""
    update!(opt, gradients; stream)

Binds the gradients of a model, in its shape, and takes a step. `nothing`, for an array or for a
whole branch, leaves it out; so does a missing name. Returns `opt`.
"""
function update!(opt::Optimizer, gradients; stream = current_stream(opt))
    require_outside(opt)
    model, first_index = model_of(opt)
    column = Union{Nothing,DenseArray}[]
    gather!(column, model, gradients, "")
    bind_grads!(opt, column; first = first_index)
    return step!(opt; stream = stream)
end

"""
    update!(opt, model, gradients; stream)

The same, as `Optimisers.update!`: returns `(opt, model)`. Arrays of the model that are others than
before, of the same sizes, take their place.
"""
function update!(opt::Optimizer, model, gradients; stream = current_stream(opt))
    require_outside(opt)
    first_index = model_of(opt)[2]
    leaves = leaves_of(model)
    before = leaves_of(opt.model[1])
    first.(leaves) == first.(before) ||
        throw(ArgumentError("update!: the model has parameters $(join(first.(leaves), ", ")), " *
                            "expected $(join(first.(before), ", "))"))
    for (i, (_, array)) in enumerate(leaves)
        index = first_index + i - 1
        opt.data[index+1].array === array || bind_data!(opt, index, array)
    end
    opt.model = (model, first_index)
    return update!(opt, gradients; stream = stream), model
end

"Sets hyperparameters of all groups, as `Optimisers.adjust!`: `adjust!(opt, lr)` or by keyword."
adjust!(opt::Optimizer, lr::Real) = set!(opt, "lr", lr)
adjust!(opt::Optimizer; hyperparameters...) = set!(opt; hyperparameters...)

function model_of(opt)
    opt.model === nothing &&
        throw(ArgumentError("update!: this optimizer was not made by setup: use step!"))
    return opt.model
end

is_parameter(x) = x isa DenseArray && element_dtype(eltype(x)) != 0
is_branch(x) = x isa NamedTuple || x isa Tuple || x isa AbstractVector && !(eltype(x) <: Number)

join_path(path, key) = isempty(path) ? string(key) : "$path.$key"

# (path, array) of each array that can be trained, in order.
function leaves_of(model)
    leaves = Pair{String,DenseArray}[]
    collect_leaves!(leaves, model, "")
    return leaves
end

function collect_leaves!(leaves, x, path)
    if is_branch(x)
        foreach(key -> collect_leaves!(leaves, x[key], join_path(path, key)), keys(x))
    elseif is_parameter(x)
        push!(leaves, path => x)
    elseif is_numeric(x)
        throw(ArgumentError("$path: got $(article(x)), expected a dense array of Float32, " *
                            "Float64, Float16, or UInt16 (bf16): copy it"))
    else
        refuse_hidden(x, path, path => x, IdDict())
    end
end

is_numeric(x) = x isa AbstractArray{<:Union{AbstractFloat,Complex{<:AbstractFloat}}}

# Nothing of a model is left out in silence: what is no branch must hold no array to train. seen has
# the objects that were looked into, which may refer to each other.
function refuse_hidden(x, path, (outer, holder)::Pair, seen)
    (is_parameter(x) || is_numeric(x)) &&
        throw(ArgumentError("$path: an array within $(article(holder))" *
                            (isempty(outer) ? "" : " at $outer") *
                            ", expected within NamedTuples, Tuples and Vectors"))
    (is_opaque(x) || haskey(seen, x)) && return
    seen[x] = true
    for (key, part) in parts_of(x)
        refuse_hidden(part, join_path(path, key), outer => holder, seen)
    end
end

# Functions may have captured arrays, and random number generators have buffers.
is_opaque(x) = isbits(x) || x isa Union{Function,AbstractString,Symbol,Type,Module} ||
    nameof(Base.moduleroot(parentmodule(typeof(x)))) === :Random

parts_of(x::AbstractDict) = pairs(x)
parts_of(x::AbstractArray) =
    eltype(x) <: Number ? () : ((i, x[i]) for i in eachindex(x) if isassigned(x, i))
parts_of(x) = ((f, getfield(x, f)) for f in fieldnames(typeof(x)) if isdefined(x, f))

article(x) = (name = string(typeof(x)); (lowercase(name[1]) in "aeiou" ? "an " : "a ") * name)

# The gradients in the order of the leaves.
function gather!(column, x, gradient, path)
    if is_branch(x)
        check_keys(x, gradient, path)
        foreach(key -> gather!(column, x[key], branch(gradient, key), join_path(path, key)),
                keys(x))
    elseif is_parameter(x)
        gradient === nothing || gradient isa DenseArray ||
            throw(ArgumentError("gradient of $path: got $(article(gradient)), " *
                                "expected a dense array or nothing: copy it"))
        push!(column, gradient)
    end
end

branch(::Nothing, key) = nothing
branch(gradient, key) = key in keys(gradient) ? gradient[key] : nothing

function check_keys(x, gradient, path)
    gradient === nothing && return
    is_branch(gradient) ||
        throw(ArgumentError("gradients of $path: got $(article(gradient)), expected $(keys(x))"))
    unknown = setdiff(keys(gradient), keys(x))
    isempty(unknown) && return
    throw(ArgumentError("gradients of \"$path\": got $(join(unknown, ", ")), " *
                        "expected of $(join(keys(x), ", "))"))
end
