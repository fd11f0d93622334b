# Owners of what the library has created: closed by hand or by the finalizer, once.

abstract type Handle end

"""
    close(handle)

Frees an optimizer, schedule or scaler, and lets go of its arrays; again: nothing. Else this is done
once nobody refers to it any more. What is closed can no longer be used.
"""
function Base.close(handle::Handle)
    require_outside(handle)
    isopen(handle) && wait_device(handle)
    return release!(handle)
end

# The finalizer: late, on any thread, so it neither throws nor waits for work of the caller's.
# Within a call (finalize, exit) the library still uses it, and it stays.
function release!(handle::Handle)
    pointer = handle.pointer
    (pointer == C_NULL || is_called(handle)) && return nothing
    handle.pointer = C_NULL
    destroy(handle, pointer)
    forget!(handle)  # after the library has let go of them
    return nothing
end

Base.isopen(handle::Handle) = handle.pointer != C_NULL

forget!(::Handle) = nothing

what(handle::Handle) = lowercase(string(nameof(typeof(handle))))

# ccall roots the handle for as long as the call takes.
function Base.unsafe_convert(::Type{Ptr{Cvoid}}, handle::Handle)
    require_outside(handle)
    return Base.unsafe_convert(Ptr{Cvoid}, Inside(handle))
end

# A copy would free the same object once more; one that was serialized has none.
Base.deepcopy_internal(handle::Handle, ::IdDict) = refuse_copy(handle)
Base.copy(handle::Handle) = refuse_copy(handle)
Serialization.serialize(::Serialization.AbstractSerializer, handle::Handle) = refuse_copy(handle)

refuse_copy(handle) =
    throw(ArgumentError("the $(what(handle)) is memory of the library, neither copied nor " *
                        "serialized: make another, of an optimizer by save and load!"))

# Calls that run functions of the caller count themselves in depth, and what these may not call of
# the same handle is refused. Inside(handle) passes for what they may, and for those calls.
is_called(handle::Handle) = handle.depth > 0

struct Inside{H<:Handle}
    handle::H
end

function Base.unsafe_convert(::Type{Ptr{Cvoid}}, inside::Inside)
    isopen(inside.handle) && return inside.handle.pointer
    throw(TalusError(E_STATE, "the $(what(inside.handle)) is closed"))
end

function require_outside(handle::Handle)
    is_called(handle) || return
    exception = handle isa Optimizer ? "; a closure may bind and zero gradients" : ""
    throw(TalusError(E_STATE, "the $(what(handle)) is in a call, whose callbacks may call " *
                              "nothing of it$exception"))
end

# A call of this task that may run functions of the caller, and what one of them has thrown.
mutable struct Call
    arrays::Any  # whose arrays stay where they are for as long: an optimizer, or none
    in_schedule::Bool
    thrown::Any
end

current_call() = get(task_local_storage(), :talus_call, nothing)

require_unmoved(::Any) = nothing
require_unmoved(call::Call) = require_unmoved(call.arrays)

# Runs such a call. What a function throws comes out in place of the library's error, which says
# only that it has failed.
function calling(f, handle::Handle; arrays = handle)
    require_outside(handle)
    call, outer = Call(arrays, false, nothing), current_call()
    handle.depth += 1
    task_local_storage(:talus_call, call)
    try
        return pinned(f)
    catch
        call.thrown === nothing ? rethrow() : throw(call.thrown)
    finally
        task_local_storage(:talus_call, outer)
        handle.depth -= 1
    end
end

# The first exception is the one that counts.
function keep!(call::Union{Call,Nothing}, thrown)
    call === nothing || call.thrown !== nothing || (call.thrown = thrown)
    return nothing
end
