# An optimizer, its groups, hyperparameters and settings.

# What the library holds a pointer to: the array, and where and how long it was when bound.
struct Bound
    array::Any
    pointer::Ptr{Cvoid}
    count::Int
end
Bound(array) = Bound(array, address(array), length(array))
bound_or_nothing(array) = array === nothing ? nothing : Bound(array)

"""
    Optimizer(algorithm; device = Talus.CPU, device_id = 0, hyperparameters...)

Creates an optimizer whose group 0 runs an algorithm or alias, a String or Symbol.

    opt = Optimizer("adamw"; lr = 3e-4)
    Talus.add!(opt, weight, gradient; name = "weight")
    Talus.step!(opt)
"""
mutable struct Optimizer <: Handle
    pointer::Ptr{Cvoid}
    depth::Int  # of calls under way, see Inside
    in_closure::Bool
    device::Int32
    # Roots of what the library keeps pointers to, by parameter; of rows for one step.
    data::Vector{Union{Nothing,Bound}}
    grads::Vector{Union{Nothing,Bound}}
    state::Dict{Tuple{Int64,String},Bound}
    rows::Dict{Int64,Tuple{Bound,Bound}}
    scale::Any
    model::Any  # of setup: (model, index of its first parameter)

    function Optimizer(algorithm; device = CPU, device_id = 0, hyperparameters...)
        rule = String(algorithm)
        check_keywords(rule, hyperparameters)
        out = Ref{Ptr{Cvoid}}(C_NULL)
        @check talus_create(rule::Cstring, device::Int32, device_id::Int32, out::Ref{Ptr{Cvoid}})
        made = new(out[], 0, false, device, [], [], Dict(), Dict(), nothing, nothing)
        opt = finalizer(release!, made)
        set!(opt; hyperparameters...)
        return opt
    end
end

destroy(::Optimizer, pointer) = @lib talus_destroy(pointer::Ptr{Cvoid})::Cvoid

function forget!(opt::Optimizer)
    foreach(empty!, (opt.data, opt.grads, opt.state, opt.rows))
    opt.scale = opt.model = nothing
    return nothing
end

function Base.show(io::IO, opt::Optimizer)
    isopen(opt) || return print(io, "Talus.Optimizer, closed")
    print(io, "Talus.Optimizer of ", join((algorithm(opt, g) for g in 0:group_count(opt)-1), ", "),
          " for ", param_count(opt), " parameters")
end

"""
    add_group!(opt, algorithm = nothing; hyperparameters...)

Adds a group and returns its index. `nothing`: the algorithm of the constructor. Values set for all
groups apply first. If one of the hyperparameters is refused, the group is there without it.
"""
function add_group!(opt::Optimizer, rule = nothing; hyperparameters...)
    rule === nothing || check_keywords(String(rule), hyperparameters)
    name = rule === nothing ? C_NULL : String(rule)
    out = Ref{Int32}(0)
    @check talus_add_group(opt::Ptr{Cvoid}, name::Cstring, out::Ref{Int32})
    set!(opt; group = out[], hyperparameters...)
    return Int(out[])
end

group_count(opt::Optimizer) = Int(@lib talus_group_count(Inside(opt)::Ptr{Cvoid})::Int32)

"Returns the algorithm of a group by its own name, never an alias."
function algorithm(opt::Optimizer, group = 0)
    name = @lib talus_group_algorithm(Inside(opt)::Ptr{Cvoid}, group::Int32)::Ptr{UInt8}
    name == C_NULL &&
        throw(TalusError(E_ARGUMENT, "no group $group, there are $(group_count(opt))"))
    return unsafe_string(name)
end

"""
    set!(opt, name, value; group = Talus.ALL)
    set!(opt; group = Talus.ALL, hyperparameters...)

Sets hyperparameters, which act on the next step. Of several, those before a refused one are set.
"""
function set!(opt::Optimizer, name, value::Real; group = ALL)
    @check talus_set(opt::Ptr{Cvoid}, group::Int32, String(name)::Cstring, value::Float64)
    return opt
end
function set!(opt::Optimizer; group = ALL, hyperparameters...)
    for (name, value) in hyperparameters
        set!(opt, name, value; group = group)
    end
    return opt
end

"Returns a hyperparameter of a group as it was set: the base of a schedule, see `value_now`."
function Base.get(opt::Optimizer, name::Union{AbstractString,Symbol}; group = 0)
    out = Ref(0.0)
    @check talus_get(opt::Ptr{Cvoid}, group::Int32, String(name)::Cstring, out::Ref{Float64})
    return out[]
end

"""
    set_setting!(opt; settings...)

Sets settings of the whole optimizer, such as `threads` or `max_grad_norm`; `hypers("settings")`
describes each.
"""
function set_setting!(opt::Optimizer, name, value::Real)
    @check talus_set_setting(opt::Ptr{Cvoid}, String(name)::Cstring, value::Float64)
    return opt
end
function set_setting!(opt::Optimizer; settings...)
    check_keywords("settings", settings)
    for (name, value) in settings
        set_setting!(opt, name, value)
    end
    return opt
end

"Returns a setting of the whole optimizer."
function setting(opt::Optimizer, name)
    out = Ref(0.0)
    @check talus_get_setting(opt::Ptr{Cvoid}, String(name)::Cstring, out::Ref{Float64})
    return out[]
end
