# What the library says of itself: algorithms, hyperparameters, features. Nothing is listed here.

"Returns the version of the loaded library."
function version()
    v = @lib talus_version()::UInt32
    return VersionNumber(v >> 16, v >> 8 & 0xff, v & 0xff)
end

"Returns the ABI of the loaded library: the number of its file, and the count of additions since."
function abi_version()
    v = @lib talus_abi_version()::UInt32
    return (major = Int(v >> 16), additions = Int(v & 0xffff))
end

"Returns compiler, build type and commit of the loaded library in one line, for bug reports."
build_info() = unsafe_string(@lib talus_build_info()::Cstring)

"""
    names(list)

Returns the names of a list: `"algorithms"`, `"aliases"`, `"slots/adamw"`, `"schedules"`,
`"features"`, and others that `"lists"` names.
"""
function names(list::AbstractString)
    count = @lib talus_name_count(list::Cstring)::Int32
    count < 0 && throw(TalusError(E_NAME, "no list named \"$list\""))
    return [unsafe_string(@lib talus_name_at(list::Cstring, i::Int32)::Cstring) for i in 0:count-1]
end

"Returns the line about one name of a list."
function doc(list::AbstractString, name::AbstractString)
    line = @lib talus_name_doc(list::Cstring, name::Cstring)::Ptr{UInt8}
    line == C_NULL && throw(TalusError(E_NAME, "no \"$name\" in list \"$list\""))
    return unsafe_string(line)
end

"""
    hypers(owner)

Describes each hyperparameter of an algorithm or alias, each of `"settings"`, of `"scaler"`, or of a
schedule, as `"schedule/cosine"`: name, default, range, kind (`:real`, `:integer` or `:flag`) and
what it is.
"""
function hypers(owner::AbstractString)
    count = @lib talus_hyper_count(owner::Cstring)::Int32
    count < 0 && hyper_info(owner, 0)  # whose error names what is known
    return [hyper_info(owner, i) for i in 0:count-1]
end

function hyper_info(owner, i)
    info = Ref(HyperInfo())
    @check talus_hyper_info(owner::Cstring, i::Int32, info::Ref{HyperInfo})
    h = info[]
    return (name = Symbol(text(h.name)), default = h.def, min = h.min, max = h.max,
            kind = kinds[h.kind+1], fixed = h.flags & 4 != 0, required = h.flags & 8 != 0,
            min_open = h.flags & 1 != 0, max_open = h.flags & 2 != 0, doc = text(h.doc))
end

# Keywords are the library's names, so a typing error is one of the caller's, known before the call.
function check_keywords(owner, keywords)
    isempty(keywords) && return
    known = [h.name for h in hypers(owner)]
    for name in keys(keywords)
        name in known ||
            throw(ArgumentError("$owner: got keyword $name, expected one of $(join(known, ", "))"))
    end
end

"Tells whether a feature can be used here and now; see `why_not`."
has_feature(name::AbstractString) = (@lib talus_has_feature(name::Cstring)::Int32) != 0

"Returns why a feature cannot be used, or `nothing` where it can."
why_not(name::AbstractString) = has_feature(name) ? nothing : last_error()

"Sets the folders that plugins are looked for in first, separated by `:`; `nothing`: none."
set_plugin_path(folders::Union{AbstractString,Nothing}) =
    @check talus_set_plugin_path(something(folders, C_NULL)::Cstring)
