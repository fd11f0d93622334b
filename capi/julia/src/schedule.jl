# Schedules: what a hyperparameter is over time.

"""
    Schedule(kind; milestones, pieces, parameters...)
    Schedule(f, kind = "lambda")

Creates a schedule of a kind in `names("schedules")`, with parameters of `hypers("schedule/KIND")`.
`f(t)` is the factor of `"lambda"` or `"multiplicative"`; it is pure, so it changes no schedule and
calls nothing of the optimizer, and an exception of it fails the step.

    warmup, decay = Schedule("linear"; total_iters = 500), Schedule("cosine"; T_max = 9500)
    Talus.attach!(opt, "lr", Schedule("sequential"; pieces = [warmup, decay], milestones = [500]))
"""
mutable struct Schedule <: Handle
    pointer::Ptr{Cvoid}
    depth::Int  # of calls under way, see Inside

    # Takes over a reference.
    Schedule(owned::Ptr{Cvoid}) = finalizer(release!, new(owned, 0))
end

function Schedule(kind::Union{AbstractString,Symbol}; milestones = nothing, pieces = (),
                  parameters...)
    check_keywords("schedule/$kind", parameters)
    out = Ref{Ptr{Cvoid}}(C_NULL)
    @check talus_schedule_create(String(kind)::Cstring, out::Ref{Ptr{Cvoid}})
    schedule = Schedule(out[])
    set!(schedule; parameters...)
    foreach(piece -> push!(schedule, piece), pieces)
    milestones === nothing || set_milestones!(schedule, milestones)
    return schedule
end
Schedule(f::Function, kind = "lambda") = set_function!(Schedule(kind), f)

destroy(::Schedule, pointer) = @lib talus_schedule_destroy(pointer::Ptr{Cvoid})::Cvoid

"Returns the kind of a schedule."
kind(schedule::Schedule) =
    unsafe_string(@lib talus_schedule_kind(Inside(schedule)::Ptr{Cvoid})::Cstring)

Base.show(io::IO, schedule::Schedule) =
    print(io, "Talus.Schedule, ", isopen(schedule) ? kind(schedule) : "closed")

function set!(schedule::Schedule, name, value::Real)
    @check talus_schedule_set(changing(schedule)::Ptr{Cvoid}, String(name)::Cstring, value::Float64)
    return schedule
end
function set!(schedule::Schedule; parameters...)
    for (name, value) in parameters
        set!(schedule, name, value)
    end
    return schedule
end

"Returns a parameter of a schedule; NaN for what is not set and has no default of its own."
function Base.get(schedule::Schedule, name::Union{AbstractString,Symbol})
    out = Ref(0.0)
    @check talus_schedule_get(schedule::Ptr{Cvoid}, String(name)::Cstring, out::Ref{Float64})
    return out[]
end

"Sets the milestones of a multistep or sequential schedule."
function set_milestones!(schedule::Schedule, values)
    list = collect(Int64, values)
    @check talus_schedule_set_list(changing(schedule)::Ptr{Cvoid}, "milestones"::Cstring,
                                   list::Ptr{Int64}, length(list)::Int64)
    return schedule
end

"Returns the milestones of a multistep or sequential schedule."
function milestones(schedule::Schedule)
    count = Ref{Int64}(0)
    @check talus_schedule_get_list(schedule::Ptr{Cvoid}, "milestones"::Cstring, C_NULL::Ptr{Int64},
                                   0::Int64, count::Ref{Int64})
    list = zeros(Int64, count[])
    @check talus_schedule_get_list(schedule::Ptr{Cvoid}, "milestones"::Cstring, list::Ptr{Int64},
                                   length(list)::Int64, count::Ref{Int64})
    return list
end

"Adds a piece to a sequential or chained schedule."
function Base.push!(schedule::Schedule, piece::Schedule)
    @check talus_schedule_add(changing(schedule)::Ptr{Cvoid}, piece::Ptr{Cvoid})
    return schedule
end

"Returns the pieces of a sequential or chained schedule."
function pieces(schedule::Schedule)
    count = @lib talus_schedule_piece_count(schedule::Ptr{Cvoid})::Int32
    return map(0:count-1) do i
        out = Ref{Ptr{Cvoid}}(C_NULL)
        @check talus_schedule_piece(schedule::Ptr{Cvoid}, i::Int32, out::Ref{Ptr{Cvoid}})
        Schedule(out[])
    end
end

"Returns the value at time t of a schedule, without an optimizer: for plans and plots."
function value(schedule::Schedule, base::Real, t::Integer)
    out = Ref(0.0)
    calling(schedule) do
        @check talus_schedule_value(Inside(schedule)::Ptr{Cvoid}, base::Float64, t::Int64,
                                    out::Ref{Float64})
    end
    return out[]
end

# A function may outlive every Schedule that refers to it, on an optimizer or as a piece. So it is
# rooted here, until the library says that it is done with it. That may be within a finalizer, which
# must not take a lock: it only marks the root. Roots are swept whenever their number has doubled.
mutable struct Root
    f::Any
    dead::Threads.Atomic{Bool}
end
const roots = Root[]
const roots_lock = ReentrantLock()
const sweep_at = Ref(16)

function add_root!(root)
    lock(roots_lock) do
        push!(roots, root)
        length(roots) < sweep_at[] && return
        filter!(r -> !r.dead[], roots)
        sweep_at[] = max(16, 2 * length(roots))
    end
end

mark_schedule!(call::Call, on) = (call.in_schedule = on)
mark_schedule!(::Nothing, on) = nothing

# A schedule, for calls that change it: not while one is being evaluated, perhaps this.
function changing(schedule::Schedule)
    call = current_call()
    call === nothing || !call.in_schedule ||
        throw(TalusError(E_STATE, "a schedule is changed within the function of one"))
    return schedule
end

function call_schedule(user::Ptr{Cvoid}, t::Int64)::Float64
    call = current_call()
    try
        mark_schedule!(call, true)
        value = Float64((unsafe_pointer_to_objref(user)::Root).f(t))
        require_unmoved(call)
        return value
    catch e
        keep!(call, e)
        return NaN
    finally
        mark_schedule!(call, false)
    end
end

function let_go(user::Ptr{Cvoid})::Cvoid
    (unsafe_pointer_to_objref(user)::Root).dead[] = true
    return nothing
end

"""
Gives a lambda or multiplicative schedule its function, t -> factor; also after a load, which has
none.
"""
function set_function!(schedule::Schedule, f)
    root = Root(f, Threads.Atomic{Bool}(false))
    call = @cfunction(call_schedule, Float64, (Ptr{Cvoid}, Int64))
    done = @cfunction(let_go, Cvoid, (Ptr{Cvoid},))
    GC.@preserve root begin
        @check talus_schedule_set_function(changing(schedule)::Ptr{Cvoid}, call::Ptr{Cvoid},
                                           pointer_from_objref(root)::Ptr{Cvoid}, done::Ptr{Cvoid})
        add_root!(root)
    end
    return schedule
end

"""
    attach!(opt, hyperparameter, schedule; group = Talus.ALL, clock = :applied)

Attaches a schedule to a hyperparameter. Its time counts steps applied (`:applied`), steps called
(`:called`), or is set by `set_clock!` (`:manual`).
"""
function attach!(opt::Optimizer, hyper, schedule::Schedule; group = ALL, clock::Symbol = :applied)
    return attach_pointer!(opt, hyper, schedule, group, choose("clock", clocks, clock))
end

"Takes the schedule of a hyperparameter away; its base is used again."
detach!(opt::Optimizer, hyper; group = ALL) = attach_pointer!(opt, hyper, C_NULL, group, 0)

function attach_pointer!(opt, hyper, schedule, group, clock)
    @check talus_attach_schedule(opt::Ptr{Cvoid}, group::Int32, String(hyper)::Cstring,
                                 schedule::Ptr{Cvoid}, clock::Int32)
    return opt
end

"""
Returns the schedule of a hyperparameter and its clock, or `nothing`. A load brings schedules of its
own.
"""
function schedule(opt::Optimizer, hyper; group = 0)
    out, clock = Ref{Ptr{Cvoid}}(C_NULL), Ref{Int32}(0)
    @check talus_get_schedule(opt::Ptr{Cvoid}, group::Int32, String(hyper)::Cstring,
                              out::Ref{Ptr{Cvoid}}, clock::Ref{Int32})
    return out[] == C_NULL ? nothing : (schedule = Schedule(out[]), clock = keys(clocks)[clock[]+1])
end

"Returns what the next step will use, scheduled or not."
function value_now(opt::Optimizer, name; group = 0)
    out = Ref(0.0)
    calling(opt; arrays = nothing) do
        @check talus_value_now(Inside(opt)::Ptr{Cvoid}, group::Int32, String(name)::Cstring,
                               out::Ref{Float64})
    end
    return out[]
end

"Sets the manual clock, of epochs or tokens."
function set_clock!(opt::Optimizer, t::Integer)
    @check talus_set_clock(opt::Ptr{Cvoid}, t::Int64)
    return opt
end

"Returns what a clock says."
function clock(opt::Optimizer, which::Symbol = :manual)
    out = Ref{Int64}(0)
    @check talus_get_clock(opt::Ptr{Cvoid}, choose("clock", clocks, which)::Int32, out::Ref{Int64})
    return out[]
end

"Reports a metric to plateau schedules."
function observe!(opt::Optimizer, metric::Real)
    @check talus_observe(opt::Ptr{Cvoid}, metric::Float64)
    return opt
end
