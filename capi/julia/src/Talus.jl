"""
Talus: optimizers of the talus runtime for arrays of Julia.

    opt = Talus.setup("adamw", model; lr = 3e-4, weight_decay = 0.1)
    Talus.update!(opt, gradients)        # writes the arrays of model

`Optimizer`, `add!` and `step!` are the same without a model. What a function of talus.h says holds
for the one here that wraps it. Unless a docstring says otherwise:

- a failure throws `TalusError` and has changed nothing;
- arrays are `DenseArray`s, used in place and kept alive until they are bound anew or the
  optimizer is closed; one that has been resized is refused, one that has only moved is followed;
- groups and parameters are the library's indices, from 0, as its messages name them; wherever a
  parameter is asked for, its name will do;
- one optimizer takes one call at a time, from any task; different ones may be used at once.
"""
module Talus

import Libdl
import Serialization

export Optimizer, Scaler, Schedule, TalusError

include("library.jl")
include("structs.jl")
include("names.jl")
include("handles.jl")
include("optimizer.jl")
include("tensors.jl")
include("gradients.jl")
include("state.jl")
include("schedule.jl")
include("precision.jl")
include("step.jl")
include("checkpoint.jl")
include("model.jl")

end
