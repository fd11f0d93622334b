# Runs the conformance script over Talus.jl and compares every answer to the bit; what the calls are
# stands at the top of the script.
#
#     julia --project=capi/julia test/conformance.jl [FILE]
#
# FILE by default: the variable TALUS_CONFORMANCE, or the one in the sources.
push!(LOAD_PATH, dirname(@__DIR__))
using Talus

struct Fault <: Exception
    message::String
end
Base.showerror(io::IO, e::Fault) = print(io, e.message)
fault(words...) = throw(Fault(join(words, " ")))

const types = Dict("f64" => Float64, "f32" => Float32, "f16" => Float16, "bf16" => UInt16)
const bits_types = Dict(Float64 => UInt64, Float32 => UInt32, Float16 => UInt16, UInt16 => UInt16)

element(T, word) = reinterpret(T, parse(bits_types[T], word; base = 16))
double(word) = element(Float64, word)
int(word) = parse(Int, word)
bits(x::T) where {T} = string(reinterpret(bits_types[T], x); base = 16, pad = 2 * sizeof(T))
bits(x::AbstractArray) = join((bits(e) for e in x), " ")
type_of(word) = word == "-" ? nothing : types[word]
master_of(word) = word == "-" ? :auto : Symbol(word)

struct Run
    folder::String
    things::Dict{String,Any}  # arrays, optimizers, schedules, scalers
end
Base.getindex(run::Run, name) = get(() -> fault("there is no", name), run.things, name)
path(run, name) = joinpath(run.folder, name)

function keep(run, name, thing)
    haskey(run.things, name) && fault(name, "is there already")
    run.things[name] = thing
end

array(T, words) = T[element(T, word) for word in words]

function overwrite(a, words)
    length(words) == length(a) || fault("got", length(words), "elements, expected", length(a))
    a .= array(eltype(a), words)
end

# A Julia array's size is that of the script reversed, over the same memory.
function shaped(run, name, word)
    word == "-" && return run[name]
    return reshape(run[name], reverse(int.(split(word, "x")))...)
end

function param(run, opt, group, name, a, g, shape, state, master)
    gradient = g == "-" ? nothing : shaped(run, g, shape)
    Talus.add!(run[opt], shaped(run, a, shape), gradient; name = name, group = int(group),
               state_eltype = type_of(state), master = master_of(master))
end

# In the shape of the parameter.
function bind(run, opt, index, g)
    gradient = g == "-" ? nothing : reshape(run[g], Talus.param(run[opt], int(index)).size)
    Talus.bind_grad!(run[opt], int(index), gradient)
end

function rows(run, opt, index, values, numbers...)
    size = Talus.param(run[opt], int(index)).size
    columns = int.(collect(numbers)) .+ 1
    Talus.bind_rows!(run[opt], int(index), columns,
                     reshape(run[values], size[1:end-1]..., length(columns)))
end

function bytes(run, opt, group, data, grad, state, master)
    found = Talus.bytes_per_param(run[opt]; eltype = type_of(data), grad_eltype = type_of(grad),
                                  state_eltype = type_of(state), master = master_of(master),
                                  group = int(group))
    return bits(collect(values(found)))
end

function same(run, a, b)
    reinterpret(UInt8, run[a]) == reinterpret(UInt8, run[b]) || fault(a, "and", b, "differ")
end

function same_file(run, a, b)
    contents = read.(path.(Ref(run), (a, b)))
    contents[1] == contents[2] && !isempty(contents[1]) ||
        fault(a, "and", b, "differ, or are empty")
end

attach(run, opt, group, hyper, s) = s == "-" ? Talus.detach!(run[opt], hyper; group = int(group)) :
    Talus.attach!(run[opt], hyper, run[s]; group = int(group))

function schedule_function(run, s, word)
    d = double(word)
    Talus.set_function!(run[s], t -> d / (d + t))
end

function schedule_list(run, s, name, values...)
    name == "milestones" || fault("the one list is milestones")
    Talus.set_milestones!(run[s], int.(collect(values)))
end

# A second time: nothing.
destroy(run, name) = haskey(run.things, name) && close(run.things[name])

# Calls that answer nothing.
const acts = Dict(
    "optimizer" => (r, o, rule) -> keep(r, o, Optimizer(rule)),
    "group" => (r, o, rule) -> Talus.add_group!(r[o], rule),
    "set" => (r, o, g, name, x) -> Talus.set!(r[o], name, double(x); group = int(g)),
    "setting" => (r, o, name, x) -> Talus.set_setting!(r[o], name, double(x)),
    "array" => (r, a, type, words...) -> keep(r, a, array(types[type], words)),
    "fill" => (r, a, words...) -> overwrite(r[a], words),
    "same" => same,
    "param" => param,
    "bind" => bind,
    "rows" => rows,
    "set_group" => (r, o, g, p) -> Talus.move!(r[o], int(g), int(p)),
    "remove" => (r, o, p) -> Talus.remove!(r[o], int(p)),
    "zero_grad" => (r, o) -> Talus.zero_grad!(r[o]),
    "set_steps" => (r, o, p, n) -> Talus.set_steps!(r[o], int(p), int(n)),
    "step" => (r, o) -> Talus.step!(r[o]),
    "advance" => (r, o) -> Talus.advance!(r[o]),
    "schedule" => (r, s, kind) -> keep(r, s, Schedule(kind)),
    "schedule_set" => (r, s, name, x) -> Talus.set!(r[s], name, double(x)),
    "schedule_list" => schedule_list,
    "schedule_add" => (r, s, piece) -> push!(r[s], r[piece]),
    "schedule_function" => schedule_function,
    "attach" => attach,
    "observe" => (r, o, x) -> Talus.observe!(r[o], double(x)),
    "scaler" => (r, s) -> keep(r, s, Scaler()),
    "scaler_set" => (r, s, name, x) -> Talus.set!(r[s], name, double(x)),
    "attach_scaler" => (r, o, s) -> s == "-" ? Talus.detach!(r[o]) : Talus.attach!(r[o], r[s]),
    "update" => (r, s) -> Talus.update!(r[s]),
    "save" => (r, o, file) -> Talus.save(r[o], path(r, file)),
    "load" => (r, o, file) -> Talus.load!(r[o], path(r, file)),
    "truncate" => (r, file, n) -> open(io -> truncate(io, int(n)), path(r, file), "r+"),
    "same_file" => same_file,
    "destroy" => destroy)

# Calls that answer, as the script writes it.
const asks = Dict(
    "get" => (r, o, g, name) -> bits(get(r[o], name; group = int(g))),
    "get_setting" => (r, o, name) -> bits(Talus.setting(r[o], name)),
    "count" => (r, list) -> string(length(Talus.names(list))),
    "read" => (r, a) -> bits(r[a]),
    "find" => (r, o, name) -> string(something(Talus.find(r[o], name), -1)),
    "slot" => (r, o, p, name) -> bits(Talus.state(r[o], int(p), name)),
    "steps" => (r, o, p) -> string(Talus.steps(r[o], int(p))),
    "step_closure" => (r, o, x) -> bits(Talus.step!(() -> double(x), r[o])),
    "stat" => (r, o, field) -> string(Int(getfield(Talus.stats(r[o]; wait = true), Symbol(field)))),
    "schedule_value" => (r, s, base, t) -> bits(Talus.value(r[s], double(base), int(t))),
    "value_now" => (r, o, g, name) -> bits(Talus.value_now(r[o], name; group = int(g))),
    "scale" => (r, s) -> bits(Talus.scale(r[s])),
    "norm" => (r, o, g, x) -> bits(Talus.grad_norm(r[o]; type = double(x), group = int(g))),
    "clip" => (r, o, g, most, x) ->
        bits(Talus.clip_grad_norm!(r[o], double(most); type = double(x), group = int(g))),
    "export" => (r, o, p, view) -> bits(Talus.export_param(r[o], int(p); view = view)),
    "bytes" => bytes)

function answer(run, words)
    verb, arguments = words[1], String.(words[2:end])
    haskey(asks, verb) && return asks[verb](run, arguments...)
    haskey(acts, verb) || fault("unknown call", verb)
    acts[verb](run, arguments...)
    return ""
end

# ! STATUS WORD CALL
function must_fail(run, status, word, call...)
    try
        answer(run, collect(call))
    catch e
        e isa TalusError && e.name == status && occursin(word, e.message) && return
        fault("got", sprint(showerror, e) * ", expected", status, "with", word)
    end
    fault("got no failure, expected", status)
end

function run_line(run, line)
    call, expected = occursin(" =", line) ? split(line, " =") : (line, "")
    words = split(call)
    words[1] == "!" && return must_fail(run, words[2:end]...)
    got = answer(run, words)
    got == strip(expected) || fault("got", got * ", expected", strip(expected))
end

# Returns how many calls were made.
function run_script(file, run)
    calls = 0
    for (number, line) in enumerate(eachline(file))
        (isempty(line) || startswith(line, "#")) && continue
        try
            run_line(run, line)
        catch e
            println(stderr, "$file:$number: ", sprint(showerror, e))
            return nothing
        end
        calls += 1
    end
    return calls
end

function main()
    in_sources = normpath(@__DIR__, "..", "..", "..", "tests", "ffi", "conformance.txt")
    file = isempty(ARGS) ? get(ENV, "TALUS_CONFORMANCE", in_sources) : ARGS[1]
    isfile(file) || (println(stderr, "$file: no such file"); return 1)
    calls = mktempdir(folder -> run_script(file, Run(folder, Dict())))
    calls === nothing && return 1
    calls == 0 && (println(stderr, "$file: no calls"); return 1)
    println("$calls calls agree")
    return 0
end

exit(main())
