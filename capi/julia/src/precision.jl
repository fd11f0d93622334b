# Mixed precision: loss scale, norms and clips, masters.

"""
    Scaler(; device = Talus.CPU, device_id = 0, parameters...)

Creates a loss scaler, with parameters of `hypers("scaler")`: multiply the loss by `scale(scaler)`,
step the optimizers it is attached to, and `update!(scaler)`.
"""
mutable struct Scaler <: Handle
    pointer::Ptr{Cvoid}
    depth::Int
    device::Int32

    function Scaler(; device = CPU, device_id = 0, parameters...)
        check_keywords("scaler", parameters)
        out = Ref{Ptr{Cvoid}}(C_NULL)
        @check talus_scaler_create(device::Int32, device_id::Int32, out::Ref{Ptr{Cvoid}})
        scaler = finalizer(release!, new(out[], 0, device))
        foreach(name -> set!(scaler, name, parameters[name]), keys(parameters))
        return scaler
    end
end

destroy(::Scaler, pointer) = @lib talus_scaler_destroy(pointer::Ptr{Cvoid})::Cvoid

Base.show(io::IO, scaler::Scaler) =
    print(io, "Talus.Scaler, ", isopen(scaler) ? "of scale $(scale(scaler))" : "closed")

function set!(scaler::Scaler, name, value::Real)
    @check talus_scaler_set(scaler::Ptr{Cvoid}, String(name)::Cstring, value::Float64)
    return scaler
end

"Returns a parameter of a scaler, or `\"growth_tracker\"`, `\"consecutive_skips\"` and the like."
function Base.get(scaler::Scaler, name::Union{AbstractString,Symbol})
    out = Ref(0.0)
    @check talus_scaler_get(scaler::Ptr{Cvoid}, String(name)::Cstring, out::Ref{Float64})
    return out[]
end

"Returns what the loss is to be multiplied by."
function scale(scaler::Scaler)
    out = Ref(0.0)
    @check talus_scaler_scale(scaler::Ptr{Cvoid}, out::Ref{Float64})
    return out[]
end

"Closes a round, once all optimizers have stepped."
function update!(scaler::Scaler; stream = current_stream(scaler))
    @check talus_scaler_update(scaler::Ptr{Cvoid}, stream::Ptr{Cvoid})
    return scaler
end

"Attaches a scaler, which several optimizers may share."
attach!(opt::Optimizer, scaler::Scaler) = attach_scaler!(opt, scaler)

"Takes the scaler away."
detach!(opt::Optimizer) = attach_scaler!(opt, C_NULL)

function attach_scaler!(opt, scaler)
    @check talus_attach_scaler(opt::Ptr{Cvoid}, scaler::Ptr{Cvoid})
    return opt
end

"""
    bind_scale!(opt, scale, found = nothing)

Binds somebody else's scale and flag, arrays of one `Float32` that each step reads; `nothing`: none.
"""
function bind_scale!(opt::Optimizer, scale::Union{DenseArray{Float32},Nothing},
                     found::Union{DenseArray{Float32},Nothing} = nothing)
    for array in (scale, found)
        array === nothing || length(array) == 1 ||
            throw(DimensionMismatch("scale and found: got $(length(array)) elements, expected 1"))
    end
    pointers = map(a -> a === nothing ? C_NULL : address(a), (scale, found))
    @check talus_bind_scale(opt::Ptr{Cvoid}, pointers[1]::Ptr{Cvoid}, pointers[2]::Ptr{Cvoid})
    opt.scale = scale === nothing ? nothing : map(bound_or_nothing, (scale, found))
    return opt
end

listed(opt::Optimizer) = [opt]
listed(opts) = collect(Optimizer, opts)

# Calls f with the pointers of optimizers, which stay alive meanwhile.
function with_pointers(f, opts)
    foreach(follow!, opts)
    GC.@preserve opts f([Base.unsafe_convert(Ptr{Cvoid}, opt) for opt in opts])
end

stream_of(opts) = isempty(opts) ? C_NULL : current_stream(first(opts))

"""
    grad_norm(opt; type = 2, group = Talus.ALL, stream)

Measures a norm of the bound gradients of one optimizer, or of several as if they were one, scaled
back and before clipping.
"""
function grad_norm(opt; type::Real = 2, group = ALL, stream = stream_of(listed(opt)))
    norm = Ref(0.0)
    with_pointers(listed(opt)) do list
        @check talus_grad_norm(list::Ptr{Ptr{Cvoid}}, length(list)::Int32, group::Int32,
                               type::Float64, norm::Ref{Float64}, stream::Ptr{Cvoid})
    end
    return norm[]
end

"""
    clip_grad_norm!(opt, max_norm; type = 2, group = Talus.ALL, stream)

Measures the same, and has the next step of each, and that alone, clipped to `max_norm`. Gradients
are not written.
"""
function clip_grad_norm!(opt, max_norm::Real; type::Real = 2, group = ALL,
                         stream = stream_of(listed(opt)))
    norm = Ref(0.0)
    with_pointers(listed(opt)) do list
        @check talus_clip_grad_norm(list::Ptr{Ptr{Cvoid}}, length(list)::Int32, group::Int32,
                                    max_norm::Float64, type::Float64, norm::Ref{Float64},
                                    stream::Ptr{Cvoid})
    end
    return norm[]
end

"""
    export_param(opt, parameter; view = "master")

Returns a copy of the f32 master behind a 16-bit parameter.
"""
function export_param(opt::Optimizer, which; view = "master", stream = current_stream(opt))
    index = index_of(opt, which)
    copy = allocate(opt, Float32, size_of(param_info(opt, index)))
    follow!(opt)
    @check talus_export_param(opt::Ptr{Cvoid}, view::Cstring, index::Int64,
                              address(copy)::Ptr{Cvoid}, dtype(Float32)::Int32, stream::Ptr{Cvoid})
    return copy
end

"Writes the rounded copy of its master to a parameter."
function restore_param!(opt::Optimizer, which; view = "master", stream = current_stream(opt))
    index = index_of(opt, which)
    follow!(opt)
    @check talus_export_param(opt::Ptr{Cvoid}, view::Cstring, index::Int64, C_NULL::Ptr{Cvoid},
                              dtype(Float32)::Int32, stream::Ptr{Cvoid})
    return opt
end

"""
    import_param!(opt, parameter, master = nothing; view = "master")

Sets the master, and the parameter with it. `nothing`: the parameter was written from outside
(weights loaded, pruned), and its master starts again from it; without this call the next step
undoes what was written.
"""
function import_param!(opt::Optimizer, which, master::Union{DenseArray{Float32},Nothing} = nothing;
                       view = "master", stream = current_stream(opt))
    index = index_of(opt, which)
    whole = size_of(param_info(opt, index))
    master === nothing || size(master) == whole ||
        throw(DimensionMismatch("$(label_of(opt, index)): master is $(size(master)), " *
                                "expected $whole"))
    follow!(opt)
    data = master === nothing ? C_NULL : address(master)
    GC.@preserve master begin
        @check talus_import_param(opt::Ptr{Cvoid}, view::Cstring, index::Int64, data::Ptr{Cvoid},
                                  dtype(Float32)::Int32, stream::Ptr{Cvoid})
    end
    return opt
end
