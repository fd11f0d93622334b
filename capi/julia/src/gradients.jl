# Gradients: bound by column, by one, or as some columns of an array; and arrays that move.

"""
    bind_grad!(opt, parameter, gradient)

Binds the gradient of one parameter until it is bound again. `nothing`: the step leaves the
parameter out.
"""
function bind_grad!(opt::Optimizer, which, gradient::Union{DenseArray,Nothing})
    return bind_grads!(opt, Union{DenseArray,Nothing}[gradient]; first = index_of(opt, which))
end

"""
    bind_grads!(opt, gradients; first = 0)

Binds a whole column in one call, all or none: those of parameters first, first + 1 and so on.
"""
function bind_grads!(opt::Optimizer, gradients::AbstractVector; first::Integer = 0)
    for (i, gradient) in enumerate(gradients)
        gradient === nothing && continue
        check_match(opt, first + i - 1, "gradient", :grad_dtype, gradient)
    end
    point_grads!(opt, Int64(first), map(bound_or_nothing, gradients))
    return opt
end

# A closure is where gradients are bound and zeroed; other callbacks are not.
for_grads(opt) = opt.in_closure ? Inside(opt) : opt

function point_grads!(opt, first::Int64, bounds)
    pointers = Ptr{Cvoid}[b === nothing ? C_NULL : b.pointer for b in bounds]
    @check talus_bind_grads(for_grads(opt)::Ptr{Cvoid}, first::Int64, length(pointers)::Int64,
                            pointers::Ptr{Ptr{Cvoid}})
    for (i, bound) in enumerate(bounds)
        opt.grads[first+i] = bound
        delete!(opt.rows, first + i - 1)
    end
end

"""
    bind_rows!(opt, parameter, columns, values)

Binds a gradient of some columns for the next step alone: `values[.., i]` is that of
`parameter[.., columns[i]]`, counted from 1. (What is a column of a Julia array, an index of its
last dimension, is a row of the library, which counts them from 0.) For algorithms of
`names("row_gradients")`. `nothing` for both takes it back.
"""
function bind_rows!(opt::Optimizer, which, columns::DenseVector{<:Union{Int32,Int64}},
                    values::DenseArray)
    index = index_of(opt, which)
    check_columns("$(label_of(opt, index)): values", param_info(opt, index), columns, values)
    rows = columns .- one(eltype(columns))
    point_rows!(opt, index, Bound(rows), Bound(values))
    return opt
end
function bind_rows!(opt::Optimizer, which, ::Nothing, ::Nothing)
    index = index_of(opt, which)
    @check talus_bind_rows(opt::Ptr{Cvoid}, index::Int64, C_NULL::Ptr{RowsInfo})
    delete!(opt.rows, index)
    return opt
end

function point_rows!(opt, index::Int64, rows::Bound, values::Bound)
    info = Ref(RowsInfo(index_dtype = index_dtype(eltype(rows.array)), count = rows.count,
                        indices = rows.pointer, values = values.pointer))
    @check talus_bind_rows(opt::Ptr{Cvoid}, index::Int64, info::Ref{RowsInfo})
    opt.rows[index] = (rows, values)
end

function check_columns(label, info, columns, values)
    element_dtype(eltype(values)) == info.grad_dtype ||
        throw(ArgumentError("$label have elements of $(eltype(values)), " *
                            "expected $(element_type(info.grad_dtype))"))
    whole = size_of(info)
    expected = (whole[1:max(end - 1, 0)]..., length(columns))
    size(values) == expected ||
        throw(DimensionMismatch("$label are $(size(values)), expected $expected"))
end

"""
    zero_grad!(opt; unbind = false, stream)

Writes zeros into the bound gradients, or forgets them.
"""
function zero_grad!(opt::Optimizer; unbind::Bool = false, stream = current_stream(opt))
    opt.in_closure ? follow_grads!(opt) : follow!(opt)
    @check talus_zero_grad(for_grads(opt)::Ptr{Cvoid}, Int32(unbind)::Int32, stream::Ptr{Cvoid})
    unbind && fill!(opt.grads, nothing)
    unbind && empty!(opt.rows)
    return opt
end

# An array that has been resized is not what was added; one that was moved meanwhile (push! and
# pop!, say) still is, so only its pointer is told anew. Asked before each call that touches tensor
# memory.

has_moved(b::Bound) = address(b.array) != b.pointer || length(b.array) != b.count
has_moved(::Nothing) = false

function follow!(opt::Optimizer)
    require_outside(opt)
    isopen(opt) || return
    any(has_moved, opt.data) && follow_data!(opt)
    any(has_moved, opt.grads) && follow_grads!(opt)
    isempty(opt.state) || follow_state!(opt)
    isempty(opt.rows) || follow_rows!(opt)
    opt.scale === nothing || follow_scale!(opt)
end

function follow_data!(opt)
    for (i, bound) in enumerate(opt.data)
        has_moved(bound) && point_data!(opt, i - 1, moved(opt, i - 1, "data", bound))
    end
end

function follow_grads!(opt)
    for (i, bound) in enumerate(opt.grads)
        has_moved(bound) && point_grads!(opt, i - 1, [moved(opt, i - 1, "gradient", bound)])
    end
end

function follow_state!(opt)
    for ((index, slot), bound) in collect(opt.state)
        has_moved(bound) && point_state!(opt, index, slot, moved(opt, index, "state", bound))
    end
end

function follow_rows!(opt)
    for (index, (rows, values)) in collect(opt.rows)
        has_moved(values) && point_rows!(opt, index, rows, moved(opt, index, "values", values))
    end
end

function follow_scale!(opt)
    any(has_moved, opt.scale) || return
    bind_scale!(opt, map(bound -> bound === nothing ? nothing : bound.array, opt.scale)...)
end

# After a function that the library has called, which still has the pointers from before.
function require_unmoved(opt::Optimizer; grads = true)
    foreach(data -> require_unmoved(opt, "data", data...), enumerate(opt.data))
    grads && foreach(grad -> require_unmoved(opt, "gradient", grad...), enumerate(opt.grads))
    for ((index, _), bound) in opt.state
        require_unmoved(opt, "state", index + 1, bound)
    end
    for (index, bounds) in opt.rows, bound in bounds
        require_unmoved(opt, "rows", index + 1, bound)
    end
    opt.scale === nothing || foreach(b -> require_unmoved(opt, "scale", 0, b), opt.scale)
end

function require_unmoved(opt, what, place, bound)
    has_moved(bound) || return
    owner = place == 0 ? "the optimizer" : label_of(opt, place - 1)
    throw(TalusError(E_STATE, "$owner: $what has been moved or resized within a callback"))
end

function moved(opt, index, what, bound)
    length(bound.array) == bound.count && return Bound(bound.array)
    throw(TalusError(E_ARGUMENT, "$(label_of(opt, index)): $what has been resized: " *
                                 "got $(length(bound.array)) elements, expected $(bound.count)"))
end
