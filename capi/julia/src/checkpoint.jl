# Checkpoints, to files and streams, and notes.

const save_flags = (params = 1, no_digest = 2)
const load_flags = (allow_missing = 16, allow_extra = 32, convert = 64, keep_hyper = 128,
                    params = 256, in_place = 512, check_only = 1024)

flag_bits(words, chosen) =
    foldl(|, (UInt64(words[name]) for (name, on) in pairs(chosen) if on); init = UInt64(0))

# Functions of the caller; what one throws stops the call.
struct Callback
    stream::Any
    progress::Any
end

function guarded(f, user::Ptr{Cvoid})::Int32
    call = current_call()
    try
        goes_on = f(unsafe_pointer_to_objref(user)[]::Callback) !== false
        require_unmoved(call)
        return goes_on ? Int32(0) : Int32(1)
    catch e
        keep!(call, e)
        return Int32(1)
    end
end

call_progress(user::Ptr{Cvoid}, done::UInt64, total::UInt64)::Int32 =
    guarded(c -> c.progress(Int(done), Int(total)), user)

function call_write(user::Ptr{Cvoid}, bytes::Ptr{UInt8}, count::UInt64)::Int32
    guarded(c -> (unsafe_write(c.stream, bytes, count); true), user)
end

function call_read(user::Ptr{Cvoid}, offset::UInt64, bytes::Ptr{UInt8}, count::UInt64)::Int32
    guarded(user) do c
        seek(c.stream[1], c.stream[2] + offset)
        unsafe_read(c.stream[1], bytes, count)
        true
    end
end

# Calls f(io, user) with a talus_io whose callbacks belong to the call.
function with_io(f, opt, flags, progress, stream = nothing)
    callback = Ref(Callback(stream, progress))
    user = pointer_from_objref(callback)
    call = progress === nothing ? C_NULL :
        @cfunction(call_progress, Int32, (Ptr{Cvoid}, UInt64, UInt64))
    GC.@preserve callback calling(opt) do
        f(Ref(IOInfo(flags = flags, user = user, progress = call)), user)
    end
    return nothing
end

"""
    save(opt, to; params = false, digest = true, progress = nothing, stream)

Saves step counts, state, masters, hyperparameters, schedules, clocks and notes, with `params` also
the parameters, as safetensors. `to` is a path (one that ends in `.safetensors.index.json` is an
index with shards beside it), where the old file stays until the new one is whole, or an `IO` that
the bytes are written to. `progress(done_bytes, total_bytes)` may return `false` to cancel. Sizes in
the file are those of rows: a 2 x 3 array of Julia has shape [3, 2]. A long call blocks its thread,
and a garbage collection waits for it.
"""
function save(opt::Optimizer, path::AbstractString; params::Bool = false, digest::Bool = true,
              progress = nothing, stream = current_stream(opt))
    follow!(opt)
    flags = flag_bits(save_flags, (params = params, no_digest = !digest))
    with_io(opt, flags, progress) do io, _
        @check talus_save(Inside(opt)::Ptr{Cvoid}, path::Cstring, io::Ref{IOInfo},
                          stream::Ptr{Cvoid})
    end
end
function save(opt::Optimizer, to::IO; params::Bool = false, digest::Bool = true, progress = nothing,
              stream = current_stream(opt))
    follow!(opt)
    call = @cfunction(call_write, Int32, (Ptr{Cvoid}, Ptr{UInt8}, UInt64))
    flags = flag_bits(save_flags, (params = params, no_digest = !digest))
    with_io(opt, flags, progress, to) do io, user
        writer = Ref(WriterInfo(user = user, write = call))
        @check talus_save_to(Inside(opt)::Ptr{Cvoid}, writer::Ref{WriterInfo}, io::Ref{IOInfo},
                             stream::Ptr{Cvoid})
    end
end

"""
    load!(opt, from; params = false, allow_missing = false, allow_extra = false, convert = false,
          keep_hyper = false, in_place = false, check_only = false, progress = nothing, stream)

Loads what `save` wrote, from a path or from an `IO` that can be sought, of which the rest is the
checkpoint. All is checked before anything changes. `params`: the caller's arrays are written, too.
Functions of schedules are missing then, see `set_function!`. A long call blocks its thread, and a
garbage collection waits for it.
"""
function load!(opt::Optimizer, path::AbstractString; progress = nothing,
               stream = current_stream(opt), flags...)
    follow!(opt)
    with_io(opt, flag_bits(load_flags, known_flags(flags)), progress) do io, _
        @check talus_load(Inside(opt)::Ptr{Cvoid}, path::Cstring, io::Ref{IOInfo},
                          stream::Ptr{Cvoid})
    end
    return opt
end
function load!(opt::Optimizer, from::IO; progress = nothing, stream = current_stream(opt), flags...)
    follow!(opt)
    start = position(from)
    bytes = position(seekend(from)) - start
    call = @cfunction(call_read, Int32, (Ptr{Cvoid}, UInt64, Ptr{UInt8}, UInt64))
    with_io(opt, flag_bits(load_flags, known_flags(flags)), progress, (from, start)) do io, user
        reader = Ref(ReaderInfo(user = user, size = bytes, read_at = call))
        @check talus_load_from(Inside(opt)::Ptr{Cvoid}, reader::Ref{ReaderInfo}, io::Ref{IOInfo},
                               stream::Ptr{Cvoid})
    end
    return opt
end

function known_flags(flags)
    for name in keys(flags)
        haskey(load_flags, name) ||
            throw(ArgumentError("load!: got keyword $name, expected one of progress, stream, " *
                                join(keys(load_flags), ", ")))
    end
    return flags
end

"Keeps a note that a checkpoint saves: an epoch, a seed. `nothing` removes it."
function set_note!(opt::Optimizer, key::AbstractString, note::Union{AbstractString,Nothing})
    value = note === nothing ? C_NULL : note
    @check talus_set_note(opt::Ptr{Cvoid}, key::Cstring, value::Cstring)
    return opt
end

"Returns a note, `nothing` where there is none."
function note(opt::Optimizer, key::AbstractString)
    needed = Ref{UInt64}(0)
    @lib talus_get_note(opt::Ptr{Cvoid}, key::Cstring, C_NULL::Ptr{UInt8}, 0::UInt64,
                        needed::Ref{UInt64})::Int32
    needed[] == 0 && return nothing
    bytes = zeros(UInt8, needed[])
    @check talus_get_note(opt::Ptr{Cvoid}, key::Cstring, bytes::Ptr{UInt8}, length(bytes)::UInt64,
                          needed::Ref{UInt64})
    return String(bytes[1:end-1])
end
