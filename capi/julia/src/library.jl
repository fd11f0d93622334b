# The shared library: found, loaded and checked once a process; and the error that its calls end in.

"The ABI that these declarations are of: the number in `libtalus.so.0`."
const ABI = 0

const wrapped = Symbol[]        # the functions that this package calls
const addresses = Ptr{Cvoid}[]  # theirs in the loaded library, in the same order
const library = Ref{Ptr{Cvoid}}(C_NULL)

# Calls a function of talus.h: @lib talus_step(opt::Ptr{Cvoid}, stream::Ptr{Cvoid})::Int32.
macro lib(call)
    name = call.args[1].args[1]
    name in wrapped || push!(wrapped, name)
    place = findfirst(isequal(name), wrapped)
    call.args[1].args[1] = Expr(:$, :(addresses[$place]))
    return esc(Expr(:macrocall, Symbol("@ccall"), __source__, call))
end

"""
    sym(name)

Returns the address of a function of talus.h, for calls that this package does not wrap; the
optimizer itself is passed as `opt::Ptr{Cvoid}`.
"""
sym(name::Symbol) = Libdl.dlsym(library[], name)

# A handle from the time of precompilation means nothing in the next process: hence here.
function __init__()
    path = get(ENV, "TALUS_LIB", "libtalus.so.$ABI")
    library[] = open_library(path)
    resize!(addresses, length(wrapped))
    for (i, name) in enumerate(wrapped)
        addresses[i] = find_function(path, name)
    end
    return nothing
end

function open_library(path)
    handle, reason = try
        Libdl.dlopen(path), ""
    catch e
        C_NULL, sprint(showerror, e)
    end
    handle == C_NULL &&
        error("Talus: no library: $reason; expected libtalus.so.$ABI on the loader's path, or ",
              "its file in the variable TALUS_LIB")
    version = Libdl.dlsym_e(handle, :talus_abi_version)
    version == C_NULL && error("Talus: $path is no libtalus: it has no talus_abi_version")
    abi = (@ccall $version()::UInt32) >> 16
    abi == ABI || error("Talus: $path has ABI $abi, expected $ABI")
    return handle
end

function find_function(path, name)
    address = Libdl.dlsym_e(library[], name)
    address == C_NULL && error("Talus: $path has no $name: it is older than this package")
    return address
end

"""
What a call of the library has refused: `code` (a `TALUS_E_` number), `name` (`"TALUS_E_RANGE"`),
`message` (what, where, got, expected) and `detail` (the number that goes with the code, or 0).
"""
struct TalusError <: Exception
    code::Int32
    name::String
    message::String
    detail::Int64
end
TalusError(code, message, detail = 0) =
    TalusError(code, unsafe_string(@lib talus_status_name(code::Int32)::Cstring), message, detail)

Base.showerror(io::IO, e::TalusError) = print(io, e.name, ": ", e.message)

const E_ARGUMENT, E_NAME, E_STATE = 1, 2, 4

last_error() = unsafe_string(@lib talus_last_error()::Cstring)

# The text belongs to this thread: nothing between the call and here may yield.
function check(status::Int32)
    status == 0 && return nothing
    throw(TalusError(status, last_error(), @lib talus_last_error_detail()::Int64))
end

macro check(call)
    return esc(:(check(@lib $call::Int32)))
end

# A task that has C frames of the library on its stack stays on their thread, also where a callback
# yields.
function pinned(f)
    task = current_task()
    sticky = task.sticky
    task.sticky = true
    try
        return f()
    finally
        task.sticky = sticky
    end
end
