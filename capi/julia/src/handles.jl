# Owners of what the library has created: closed by hand or by the finalizer, once.

abstract type Handle end

"""
    close(handle)

Frees an optimizer, schedule or scaler, and lets go of its arrays; again: nothing. Else this is done
once nobody refers to it any more. What is closed can no longer be used.
"""
function Base.close(handle::Handle)
    isopen(handle) && wait_device(handle)
    return release!(handle)
end

# The finalizer: late, on any thread, so it neither throws nor waits for work of the caller's.
function release!(handle::Handle)
    pointer = handle.pointer
    pointer == C_NULL && return nothing
    handle.pointer = C_NULL
    destroy(handle, pointer)
    forget!(handle)  # after the library has let go of them
    return nothing
end

Base.isopen(handle::Handle) = handle.pointer != C_NULL

forget!(::Handle) = nothing

# ccall roots the handle for as long as the call takes.
function Base.unsafe_convert(::Type{Ptr{Cvoid}}, handle::Handle)
    isopen(handle) && return handle.pointer
    throw(TalusError(E_STATE, "the $(lowercase(string(nameof(typeof(handle))))) is closed"))
end
