# The structs of talus.h, field for field, and its numbers. Text is a Ptr{UInt8}, which a struct
# does not root: whoever fills one in preserves it.

Base.@kwdef struct HyperInfo  # talus_hyper
    struct_size::UInt32 = sizeof(HyperInfo)
    kind::Int32 = 0
    name::Ptr{UInt8} = C_NULL
    doc::Ptr{UInt8} = C_NULL
    def::Float64 = 0
    min::Float64 = 0
    max::Float64 = 0
    flags::UInt32 = 0
    reserved::UInt32 = 0
end

Base.@kwdef struct ParamInfo  # talus_param
    struct_size::UInt32 = sizeof(ParamInfo)
    dtype::Int32 = 0
    data::Ptr{Cvoid} = C_NULL
    grad::Ptr{Cvoid} = C_NULL
    name::Ptr{UInt8} = C_NULL
    shape::Ptr{Int64} = C_NULL
    ndim::Int32 = 0
    grad_dtype::Int32 = 0
    state_dtype::Int32 = 0
    master::Int32 = 0
    flags::UInt64 = 0
end

Base.@kwdef struct RowsInfo  # talus_rows
    struct_size::UInt32 = sizeof(RowsInfo)
    index_dtype::Int32 = 0
    count::Int64 = 0
    indices::Ptr{Cvoid} = C_NULL
    values::Ptr{Cvoid} = C_NULL
    flags::UInt64 = 0
end

Base.@kwdef struct StateInfo  # talus_state
    struct_size::UInt32 = sizeof(StateInfo)
    dtype::Int32 = 0
    slot::Ptr{UInt8} = C_NULL
    data::Ptr{Cvoid} = C_NULL
    param::Int64 = 0
    first::Int64 = 0
    count::Int64 = 0
    bytes::UInt64 = 0
    alignment::UInt64 = 0
end

Base.@kwdef struct BytesInfo  # talus_bytes
    struct_size::UInt32 = sizeof(BytesInfo)
    reserved::UInt32 = 0
    param::Float64 = 0
    grad::Float64 = 0
    master::Float64 = 0
    state::Float64 = 0
    read::Float64 = 0
    written::Float64 = 0
end

Base.@kwdef struct StatsInfo  # talus_stats
    struct_size::UInt32 = sizeof(StatsInfo)
    found_inf::Int32 = 0
    steps::Int64 = 0
    skipped::Int64 = 0
    grad_norm::Float64 = 0
    clip_factor::Float64 = 0
    loss_scale::Float64 = 0
    state_bytes::UInt64 = 0
    workspace_bytes::UInt64 = 0
    nonfinite_param::Int64 = 0
end

Base.@kwdef struct IOInfo  # talus_io
    struct_size::UInt32 = sizeof(IOInfo)
    reserved::UInt32 = 0
    flags::UInt64 = 0
    user::Ptr{Cvoid} = C_NULL
    progress::Ptr{Cvoid} = C_NULL
end

Base.@kwdef struct WriterInfo  # talus_writer
    struct_size::UInt32 = sizeof(WriterInfo)
    reserved::UInt32 = 0
    user::Ptr{Cvoid} = C_NULL
    write::Ptr{Cvoid} = C_NULL
end

Base.@kwdef struct ReaderInfo  # talus_reader
    struct_size::UInt32 = sizeof(ReaderInfo)
    reserved::UInt32 = 0
    user::Ptr{Cvoid} = C_NULL
    size::UInt64 = 0
    read_at::Ptr{Cvoid} = C_NULL
end

# A struct that the library fills, as named values without what only the ABI needs.
function named(info::T) where {T}
    fields = Tuple(f for f in fieldnames(T) if f !== :struct_size && f !== :reserved)
    return NamedTuple{fields}(Tuple(getfield(info, f) for f in fields))
end

text(pointer::Ptr{UInt8}) = pointer == C_NULL ? nothing : unsafe_string(pointer)

"As a group: every group, and the default of groups added later."
const ALL = -1

"Device types."
const CPU, CUDA = 1, 2

const masters = (auto = 0, none = 1, f32 = 2)
const clocks = (applied = 0, called = 1, manual = 2)
const kinds = (:real, :integer, :flag)

# The number of one of a few words.
function choose(what, words, word::Symbol)
    haskey(words, word) && return Int32(words[word])
    throw(ArgumentError("$what: got :$word, expected one of $(join(repr.(keys(words)), ", "))"))
end

"""
    element_dtype(T)

Returns the library's number of an element type, 0 for one that it does not have. `UInt16` holds the
bits of a bf16; for a bf16 type of another package add a method:
`Talus.element_dtype(::Type{BFloat16}) = Talus.element_dtype(UInt16)`.
"""
element_dtype(::Type) = Int32(0)
element_dtype(::Type{Float16}) = Int32(0x1002)
element_dtype(::Type{UInt16}) = Int32(0x1004)
element_dtype(::Type{Float32}) = Int32(0x2002)
element_dtype(::Type{Float64}) = Int32(0x4002)

dtype(::Nothing) = Int32(0)  # the default
function dtype(T::Type)
    number = element_dtype(T)
    number == 0 &&
        throw(ArgumentError("got elements of $T, expected Float32, Float64, Float16, or UInt16 " *
                            "(bf16)"))
    return number
end

index_dtype(::Type{Int32}) = Int32(0x2000)
index_dtype(::Type{Int64}) = Int32(0x4000)

element_type(dtype::Integer) =
    dtype == 0x1002 ? Float16 : dtype == 0x1004 ? UInt16 : dtype == 0x2002 ? Float32 : Float64
