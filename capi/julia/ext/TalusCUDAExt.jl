# CuArrays for Talus: their memory, and the stream of the task. Untested: no machine of the project
# has CUDA.jl.
module TalusCUDAExt

using CUDA: CUDA, CuArray, CuPtr
using Talus: Talus

Talus.address(array::CuArray) = reinterpret(Ptr{Cvoid}, pointer(array))
Talus.device_of(array::CuArray) = (Talus.CUDA, Int(CUDA.deviceid(CUDA.device(array))))

# Each task has a stream of its own, so it is asked for at each call.
stream() = reinterpret(Ptr{Cvoid}, CUDA.stream().handle)

allocate(T, dims) = CUDA.zeros(T, dims...)
wrap(T, pointer, dims) = unsafe_wrap(CuArray, reinterpret(CuPtr{T}, pointer), dims)

# CUDA.jl may hand out freed memory again on its own stream: what is under way ends first.
wait() = CUDA.synchronize()

__init__() = Talus.device_calls[] =
    (stream = stream, allocate = allocate, wrap = wrap, wait = wait)

end
