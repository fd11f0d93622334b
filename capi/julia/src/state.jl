# State tensors and step counts.

"""
    states(opt)

Describes all state tensors: parameters in order, slots in order; `data` is a pointer to live
memory, NULL until there is some.
"""
function states(opt::Optimizer)
    count = @lib talus_state_count(opt::Ptr{Cvoid})::Int64
    return [state_info(opt, i) for i in 0:count-1]
end

function state_info(opt, i)
    out = Ref(StateInfo())
    @check talus_state_info(opt::Ptr{Cvoid}, i::Int64, out::Ref{StateInfo})
    s = out[]
    return (param = s.param, slot = text(s.slot), eltype = element_type(s.dtype), data = s.data,
            first = s.first, count = s.count, bytes = s.bytes, alignment = s.alignment)
end

"""
    state(opt, parameter, slot)

Returns a copy of a state tensor, of the parameter's size where it has as many elements; `nothing`
until there is one.
"""
function state(opt::Optimizer, which, slot::AbstractString)
    live = unsafe_state(opt, which, slot)
    return live === nothing ? nothing : GC.@preserve opt copy(live)
end

"""
    unsafe_state(opt, parameter, slot)

Views a state tensor: live memory of the library, to be written only between calls, and gone when
the optimizer is closed or the state is elsewhere (see talus_state).
"""
function unsafe_state(opt::Optimizer, which, slot::AbstractString)
    index = index_of(opt, which)
    whole = size_of(param_info(opt, index))
    found = find_state(opt, index, slot)
    found === nothing && throw(TalusError(E_NAME, "parameter $index: no slot \"$slot\""))
    found.data == C_NULL && return nothing
    dims = found.count == prod(whole) ? whole : (Int(found.count),)
    return wrap(opt, found.eltype, found.data, dims)
end

function find_state(opt, index, slot)
    all = states(opt)
    place = findfirst(s -> s.param == index && s.slot == slot, all)
    return place === nothing ? nothing : all[place]
end

"""
    bind_state!(opt, parameter, slot, array)

Puts a state tensor into an array of the caller, of as many elements and of the type that `states`
says. Its contents are the state if the parameter's step count is above 0, see `set_steps!`.
"""
function bind_state!(opt::Optimizer, which, slot::AbstractString, array::DenseArray)
    index = index_of(opt, which)
    found = find_state(opt, index, slot)  # nothing: the library says so
    found === nothing || check_state("$(label_of(opt, index)): $slot", found, array)
    point_state!(opt, index, String(slot), Bound(array))
    return opt
end

function check_state(label, found, array)
    element_dtype(eltype(array)) == dtype(found.eltype) ||
        throw(ArgumentError("$label has elements of $(eltype(array)), expected $(found.eltype)"))
    length(array) == found.count ||
        throw(DimensionMismatch("$label has $(length(array)) elements, expected $(found.count)"))
end

function point_state!(opt, index::Int64, slot::String, bound::Bound)
    bytes = bound.count * sizeof(eltype(bound.array))
    @check talus_bind_state(opt::Ptr{Cvoid}, index::Int64, slot::Cstring, bound.pointer::Ptr{Cvoid},
                            bytes::UInt64)
    opt.state[(index, slot)] = bound
end

"Returns how many steps a parameter has taken."
function steps(opt::Optimizer, which)
    out = Ref{Int64}(0)
    @check talus_steps(opt::Ptr{Cvoid}, index_of(opt, which)::Int64, out::Ref{Int64})
    return out[]
end

"Sets how many steps a parameter has taken; above 0 its state must be there, 0 starts it afresh."
function set_steps!(opt::Optimizer, which, count::Integer)
    @check talus_set_steps(opt::Ptr{Cvoid}, index_of(opt, which)::Int64, count::Int64)
    return opt
end
