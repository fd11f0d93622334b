"""Rules of talus and the classes of PyTorch and apex whose state they can take: names and defaults.

The rules must equal lib/rules/*.inl; tests/checkpoint/check_convert_ours.py asks the library.
"""
from typing import NamedTuple


class Slot(NamedTuple):
    name: str
    scalar: bool = False      # one f64 for the parameter
    needs: str = ""           # the fixed hyperparameter that must not be 0
    initial: object = 0.0     # a number, or the hyperparameter whose value it is


class Rule(NamedTuple):
    hypers: dict              # all names and their defaults
    slots: tuple

    def slots_of(self, hyper):
        """Those that a parameter with steps has."""
        return [slot for slot in self.slots if not slot.needs or hyper[slot.needs] != 0]


MOMENTS = (Slot("exp_avg"), Slot("exp_avg_sq"))
BUFFER = Slot("momentum_buffer", needs="momentum")
ADAM = Rule(dict(lr=1e-3, beta1=.9, beta2=.999, eps=1e-8, weight_decay=0, amsgrad=0,
                 bias_correction=1, decoupled_weight_decay=0, cautious=0, cautious_weight_decay=0,
                 stable=0, maximize=0), MOMENTS + (Slot("max_exp_avg_sq", needs="amsgrad"),))
LARS = Rule(dict(lr=1e-3, momentum=.9, dampening=0, nesterov=0, weight_decay=0,
                 trust_coefficient=1e-3, trust_clip=0, eps=1e-8, maximize=0), (BUFFER,))

RULES = {
    "sgd": Rule(dict(lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=0,
                     wd_after_momentum=0, materialize_master_grads=1, maximize=0), (BUFFER,)),
    "adam": ADAM,
    "adamw": ADAM._replace(hypers={**ADAM.hypers, "weight_decay": .01,
                                   "decoupled_weight_decay": 1}),
    "adagrad": Rule(dict(lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0,
                         eps=1e-10, adagrad_w_mode=0, maximize=0),
                    (Slot("sum", initial="initial_accumulator_value"),)),
    "rmsprop": Rule(dict(lr=1e-2, alpha=.99, eps=1e-8, weight_decay=0, momentum=0, centered=0,
                         maximize=0),
                    (Slot("square_avg"), Slot("grad_avg", needs="centered"), BUFFER)),
    "adadelta": Rule(dict(lr=1, rho=.9, eps=1e-6, weight_decay=0, maximize=0),
                     (Slot("square_avg"), Slot("acc_delta"))),
    "adamax": Rule(dict(lr=2e-3, beta1=.9, beta2=.999, eps=1e-8, weight_decay=0, maximize=0),
                   (Slot("exp_avg"), Slot("exp_inf"))),
    "nadam": Rule(dict(lr=2e-3, beta1=.9, beta2=.999, eps=1e-8, weight_decay=0, momentum_decay=4e-3,
                       decoupled_weight_decay=0, maximize=0),
                  MOMENTS + (Slot("mu_product", scalar=True, initial=1.0),)),
    "radam": Rule(dict(lr=1e-3, beta1=.9, beta2=.999, eps=1e-8, weight_decay=0,
                       decoupled_weight_decay=0, maximize=0), MOMENTS),
    "asgd": Rule(dict(lr=1e-2, lambd=1e-4, alpha=.75, t0=1e6, weight_decay=0, maximize=0),
                 (Slot("ax"),)),
    "rprop": Rule(dict(lr=1e-2, etaminus=.5, etaplus=1.2, step_size_min=1e-6, step_size_max=50,
                       maximize=0), (Slot("prev"), Slot("step_size", initial="lr"))),
    "lion": Rule(dict(lr=1e-4, beta1=.9, beta2=.99, weight_decay=0, cautious=0,
                      cautious_weight_decay=0, maximize=0), (Slot("exp_avg"),)),
    "lamb": Rule(dict(lr=1e-3, bias_correction=1, beta1=.9, beta2=.999, eps=1e-6, weight_decay=.01,
                      amsgrad=0, adam_w_mode=1, grad_averaging=1, max_grad_norm=1, use_nvlamb=0,
                      maximize=0), MOMENTS),
    "novograd": Rule(dict(lr=1e-3, bias_correction=1, beta1=.9, beta2=.999, eps=1e-8,
                          weight_decay=0, amsgrad=0, reg_inside_moment=0, grad_averaging=1,
                          norm_type=2, init_zero=0, maximize=0),
                     (Slot("exp_avg"), Slot("exp_avg_sq", scalar=True))),
    "lars": LARS,
    "larc": LARS._replace(hypers={**LARS.hypers, "trust_coefficient": .02, "trust_clip": 1}),
    "sparse_adam": Rule(dict(lr=1e-3, beta1=.9, beta2=.999, eps=1e-8, maximize=0), MOMENTS),
}
FLAGS = {"maximize", "amsgrad", "nesterov", "centered", "decoupled_weight_decay", "bias_correction",
         "grad_averaging", "init_zero"}
INTEGERS = {"norm_type"}
PAIRS = {"betas": ("beta1", "beta2"), "etas": ("etaminus", "etaplus"),
         "step_sizes": ("step_size_min", "step_size_max")}

# Of a group, without meaning for the state: how PyTorch computes, and what its schedulers note.
EXECUTION = {"foreach", "fused", "capturable", "differentiable"}
SCHEDULER_NOTES = {"max_lr", "min_lr", "initial_momentum", "base_momentum", "max_momentum"}


class Upstream(NamedTuple):
    """A class of PyTorch or apex, as its state_dict shows it."""
    name: str            # of the class
    algorithm: str       # here
    keys: str            # of a group, in every version
    later: dict          # keys that newer versions added, and what older ones did
    library: str = "torch"
    outside: dict = {}   # hyperparameters here that the object there keeps beside its groups
    steps: str = "state"  # where they are counted: in each state, in each group, or nowhere
    dropped: frozenset = frozenset()  # follows from other state

    def hypers(self):
        """Names here of what its groups hold."""
        keys = self.keys.split() + list(self.later)
        return [name for key in keys for name in PAIRS.get(key, (key,))]


UP, DECOUPLED = {"maximize": 0}, {"maximize": 0, "decoupled_weight_decay": 0}
ADAM_KEYS = "lr betas eps weight_decay"
LAMB_KEYS = "lr bias_correction betas eps weight_decay grad_averaging max_grad_norm"
SGD_KEYS = "lr momentum dampening weight_decay nesterov"
OUTSIDE_LAMB = {"adam_w_mode": 1, "use_nvlamb": 0}

CLASSES = {
    "sgd": Upstream("SGD", "sgd", SGD_KEYS, UP, steps="nowhere"),
    "adam": Upstream("Adam", "adam", ADAM_KEYS + " amsgrad", DECOUPLED),
    "adamw": Upstream("AdamW", "adamw", ADAM_KEYS + " amsgrad",
                      {"maximize": 0, "decoupled_weight_decay": 1}),
    "adagrad": Upstream("Adagrad", "adagrad",
                        "lr lr_decay eps weight_decay initial_accumulator_value", UP),
    "rmsprop": Upstream("RMSprop", "rmsprop", "lr momentum alpha eps centered weight_decay", UP),
    "adadelta": Upstream("Adadelta", "adadelta", "lr rho eps weight_decay", UP),
    "adamax": Upstream("Adamax", "adamax", ADAM_KEYS, UP),
    "nadam": Upstream("NAdam", "nadam", ADAM_KEYS + " momentum_decay", DECOUPLED),
    "radam": Upstream("RAdam", "radam", ADAM_KEYS, DECOUPLED),
    "asgd": Upstream("ASGD", "asgd", "lr lambd alpha t0 weight_decay", UP,
                     dropped=frozenset({"eta", "mu"})),
    "rprop": Upstream("Rprop", "rprop", "lr etas step_sizes", UP),
    "sparse_adam": Upstream("SparseAdam", "sparse_adam", "lr betas eps", UP),
    "fused_adam": Upstream("FusedAdam", "adam", "lr bias_correction betas eps weight_decay", {},
                           "apex", {"decoupled_weight_decay": 1}, "group"),
    "fused_sgd": Upstream("FusedSGD", "sgd", SGD_KEYS, {}, "apex",
                          {"wd_after_momentum": 0, "materialize_master_grads": 1}, "nowhere"),
    "fused_adagrad": Upstream("FusedAdagrad", "adagrad", "lr eps weight_decay", {}, "apex",
                              {"adagrad_w_mode": 0}, "nowhere"),
    "fused_lamb": Upstream("FusedLAMB", "lamb", LAMB_KEYS, {}, "apex", OUTSIDE_LAMB, "group"),
    "fused_mixed_precision_lamb": Upstream("FusedMixedPrecisionLamb", "lamb", LAMB_KEYS, {}, "apex",
                                           OUTSIDE_LAMB, "group"),
    "fused_novograd": Upstream("FusedNovoGrad", "novograd", "lr bias_correction betas eps "
                               "weight_decay grad_averaging norm_type init_zero", {}, "apex",
                               {"reg_inside_moment": 0}, "group"),
    "larc": Upstream("LARC", "larc", SGD_KEYS, UP, "apex",
                     {"trust_coefficient": .02, "trust_clip": 1, "eps": 1e-8}, "nowhere"),
}
# Which of them a rule of ours becomes where the caller does not say.
DEFAULT_CLASS = {"lamb": "fused_lamb", "novograd": "fused_novograd",
                 **{name: name for name, of in CLASSES.items() if of.algorithm == name}}


def find_class(name):
    """By our name or theirs, whatever its case; None: not known."""
    wanted = name.lower().replace("_", "")
    for key, upstream in CLASSES.items():
        if wanted in (key.replace("_", ""), upstream.name.lower()):
            return key
    return None
