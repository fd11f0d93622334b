# The step, with or without a closure, and its statistics.

# What an extension for a device knows: its current stream, and arrays of its memory.
const device_calls = Ref{Any}(nothing)

is_remote(handle) = handle.device != CPU && device_calls[] !== nothing

"Returns the stream that work of this task goes to, asked anew for each call; NULL on the CPU."
current_stream(handle::Union{Optimizer,Scaler}) =
    is_remote(handle) ? device_calls[].stream()::Ptr{Cvoid} : C_NULL

# Before arrays are let go: who manages their memory may hand it out again at once.
wait_device(handle::Union{Optimizer,Scaler}) = is_remote(handle) && device_calls[].wait()
wait_device(::Schedule) = nothing

allocate(opt, T, dims) = is_remote(opt) ? device_calls[].allocate(T, dims) : zeros(T, dims)

function wrap(opt, T, pointer, dims)
    is_remote(opt) && return device_calls[].wrap(T, pointer, dims)
    opt.device == CPU ||
        throw(TalusError(E_ARGUMENT, "state is on a device: load CUDA, or use states(opt)"))
    return unsafe_wrap(Array, Ptr{T}(pointer), dims)
end

"Allocates all state and builds the plan now, which else the first step does."
function prepare!(opt::Optimizer; stream = current_stream(opt))
    follow!(opt)
    calling(opt) do
        @check talus_prepare(Inside(opt)::Ptr{Cvoid}, stream::Ptr{Cvoid})
    end
    return opt
end

"""
    step!(opt; stream)

Takes one step: reads the bound gradients, writes parameters and state.
"""
function step!(opt::Optimizer; stream = current_stream(opt))
    follow!(opt)
    calling(opt) do
        @check talus_step(Inside(opt)::Ptr{Cvoid}, stream::Ptr{Cvoid})
    end
    empty!(opt.rows)
    return opt
end

"Counts a step before a captured one is replayed (CUDA graphs)."
function advance!(opt::Optimizer; stream = current_stream(opt))
    follow!(opt)
    calling(opt) do
        @check talus_advance(Inside(opt)::Ptr{Cvoid}, stream::Ptr{Cvoid})
    end
    return opt
end

mutable struct Closure
    f::Any
    opt::Optimizer
end

# Gradients may be bound within; all else must be where it was.
function call_closure(user::Ptr{Cvoid}, loss::Ptr{Float64})::Int32
    closure = unsafe_pointer_to_objref(user)::Closure
    try
        closure.opt.in_closure = true
        unsafe_store!(loss, Float64(closure.f()))
        require_unmoved(closure.opt; grads = false)
        follow_grads!(closure.opt)
        return Int32(0)
    catch e
        keep!(current_call(), e)
        return Int32(1)
    finally
        closure.opt.in_closure = false
    end
end

"""
    step!(f, opt; stream)

Calls `f()`, which computes the gradients and returns the loss, then takes a step and returns the
loss. `f` may bind and zero gradients of the optimizer (`bind_grad!`, `bind_grads!`, `zero_grad!`);
what else it calls of it is refused. An exception of `f` comes out of this call, and no step was
taken.

    loss = Talus.step!(opt) do
        gradient .= 2 .* (weight .- target)
        sum(abs2, weight .- target)
    end
"""
function step!(f, opt::Optimizer; stream = current_stream(opt))
    follow!(opt)
    closure = Closure(f, opt)
    call = @cfunction(call_closure, Int32, (Ptr{Cvoid}, Ptr{Float64}))
    loss = Ref(0.0)
    GC.@preserve closure calling(opt) do
        @check talus_step_closure(Inside(opt)::Ptr{Cvoid}, call::Ptr{Cvoid},
                                  pointer_from_objref(closure)::Ptr{Cvoid}, loss::Ref{Float64},
                                  stream::Ptr{Cvoid})
    end
    empty!(opt.rows)
    return loss[]
end

"""
    stats(opt; wait = false)

Returns steps, skipped steps, norm, bytes and the like. `wait`: for the device first.
"""
function stats(opt::Optimizer; wait::Bool = false)
    out = Ref(StatsInfo())
    @check talus_get_stats(opt::Ptr{Cvoid}, Int32(wait)::Int32, out::Ref{StatsInfo})
    s = named(out[])
    return merge(s, (found_inf = s.found_inf != 0,))
end
