"""What the names in exported models mean: columns and blocks of rows in words, by the name of the model.

A number after `eq_` is that of the equation in the paper, or in the module's own list where the program is ours.
A plug-in's models may say the same in `doc=` of Pyomo's components.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_TRANSFERS = {
    "comm_in": "[u, i] does device (or piece) i receive the output of node u?",
    "comm_out": "[u, i] does device (or piece) i send the output of node u?",
    "receive": "(u, v, i) i receives what u made for v where v is on i and u is not",
    "send": "(u, v, i) i sends what u made for v where u is on i and v is not",
}
_CONTIGUITY = {
    "z": "[v, i] is v on i, or may a path still come to i from here?",
    "inside": "(v, i) z is 1 where x is",
    "reached": "(u, v, i) along an arc z never grows",
    "no_return": "(u, v, i) a path that has left i does not come back",
}
_GROUPS = {
    "x": "[g, j] is group g at position j? Non-contiguous: j is a device, accelerators first; contiguous: a stage",
    "T": "[q] the largest load of an accelerator or CPU; for gpipe T[0] forward and T[1] backward",
    "range": "the sum of T lies between the bound that is known and the largest value asked for",
    "assignment": "(g) each group is at one position",
    "cut": "[e, j] does position j pay for net e, that is, hold some of its pins and not all?",
    "all": "[e, j] does position j hold all pins of net e?",
    "all_pins": "(e, j, g) `all` is 0 where pin g is elsewhere",
    "net_cut": "(e, j, g) position j pays where it holds pin g and not all pins",
    "accelerator_load": "(q, j) work and transfers of an accelerator are at most T",
    "cpu_load": "(q, j) work of a CPU is at most T",
    "memory": "(j) what an accelerator holds fits its memory, in whole units",
    "conflict": "(g, h, j) two groups that no accelerator can hold together within the largest value",
}
_PIPER = {
    "T": "the largest load of a stage, in units: the objective has the unit's length as its coefficient",
    "y": "[n] does a batch take the n-th number of slots?",
    "P": "[n] the largest load if it does, else 0",
    "m": "the fewest copies of a stage, or fewer",
    "Z": "the time of a batch, in units",
    "eq_10_one_number": "a batch takes one number of slots",
    "eq_10_fewest": "(s) no stage has fewer copies than m",
    "eq_10_slots": "the slots beyond the micro-batches are the copies of all stages, less m",
    "eq_11": "(n) P is 0 for other numbers of slots",
    "eq_12_largest": "the sum of P is T",
    "eq_12_batch": "Z is the sum of the P, each times its number of slots",
    "cut_least": "(n) P is at least the bound that is known for T",
    "cut_devices": "implied: the time of all devices together is enough",
}
_BEAUMONT = {
    "Z": "[i, j] do layers i < j share a GPU? (tasks in the printed variant)",
    "f": "[i] is layer i the first of its GPU?",
    "w": "[t, u] do tasks t and u share a GPU, and does t come first? Forward tasks are 1..L, backward ones L+1..2L",
    "ended": "[t, z] has task t ended when task z, which takes no time, runs?",
    "far": "[t, z] is z, which takes no time, in another period of t?",
    "T": "the period",
    "tau": "[t] start of task t in the period",
    "tc": "[e] start of the transfer of edge e, from task e to task e + 1",
    "zc": "[e, f, opposite] do two transfers share a link?",
    "wc": "[e, f] do transfers e and f share a link, and does e come first?",
    "v": "[e] first shift by a period before the transfer of edge e",
    "v2": "[e] second shift before the transfer (the report's v-tilde)",
    "u": "[e] first shift by a period before task e + 1",
    "u2": "[e] second shift before task e + 1 (the report's u-tilde)",
    "sigma": "[i, l] kept copies of the input of layer l, as far as it is on the GPU of layer i",
    "o": "[t, e] does what edge e carries wait while task t runs?",
    "b": "[i, j] is exactly one of layers j and j + 1 on the GPU of layer i?",
    "eq_1": "sharing a GPU is transitive",
    "eq_2": "(i) a layer with no earlier one on its GPU is the first of it",
    "eq_3": "there are as many first layers as GPUs at most",
    "eq_4": "(i) forward and backward task of a layer share a GPU",
    "eq_5": "(t, u) t starts after u has ended where u comes first on their GPU",
    "eq_6": "(t, u) u starts after t has ended where t comes first",
    "eq_7": "(t, u) only tasks that share a GPU are ordered",
    "eq_8": "transfers between the same two GPUs share a link",
    "eq_9": "transfers between the same two GPUs, crosswise, share a link",
    "eq_14": "(e, f) as (5), for transfers on one link",
    "eq_15": "(e, f) as (6), for transfers on one link",
    "eq_16": "(e, f) as (7), for transfers on one link",
    "eq_17": "(t) each task ends within the period",
    "eq_18_start": "(e) no transfer ends before the period begins",
    "eq_18": "(e) each transfer ends within the period",
    "eq_19": "the first task starts at 0",
    "eq_20": "(t, u) tasks of one GPU lie within one period of each other",
    "eq_21": "(e, f) transfers of one link lie within one period of each other",
    "eq_22": "(t, e) what edge e carries waits while t runs, where the three come in this order around the period",
    "eq_23": "(e) no shift before the transfer where none is needed",
    "eq_24": "(e) a shift before the transfer where it would begin before its task has ended",
    "eq_25": "(e) no shift before the task where none is needed",
    "eq_26": "(e) a shift before task e + 1 where it would begin before the transfer has ended",
    "eq_27": "(e) a second shift before the transfer where one is not enough",
    "eq_28": "(e) no second shift before the transfer where one is enough",
    "eq_29": "(e) a second shift before task e + 1 where one is not enough",
    "eq_30": "(e) no second shift before the task where one is enough",
    "eq_31": "(i, l) no copies of layers on other GPUs",
    "eq_32": "(i, l) as many copies of layer l as its backward task lags behind",
    "eq_34": "(i, j) b is 1 where j is on the GPU of i and j + 1 is not",
    "eq_35": "(i, j) b is 1 where j + 1 is on the GPU of i and j is not",
    "eq_36": "(t) weights, slots, copies and what task t reads and writes fit the memory while t runs",
    "second_shift": "no second shift without the first one",
    "local_edges": "on one GPU the order alone says whether there is a shift",
    "exclusive_buffers": "slots at both ends of a transfer are free again after one period",
    "gpu_load": "(i) implied: the work of the GPU of layer i fits the period",
    "link_load": "(e) implied: the transfers of a link fit the period",
    "least_lag": "implied: a batch needs the times between forward and backward task of a layer",
    "area": "(i) implied: bytes times time of the layers of a GPU fit its room",
    "instant": "implied: each layer of a GPU has as many copies as its least life has periods",
    "timeless_order": "which of two tasks comes first, where one takes no time",
    "timeless_ends": "a task without time is before or after the end of another one",
    "timeless_transitive": "beginnings at one instant are in an order",
    "timeless_far": "which period a task without time belongs to",
}

# What each column and each block of rows means, by model; [...] are the indices of columns, (...) those of rows.
WORDS: Mapping[str, Mapping[str, str]] = {
    "ip-tarnawski, plain": {
        "x": "[v, i] is node v on device i? Accelerators first, then CPUs",
        "T": "[q] the largest load of a device; for gpipe T[0] forward and T[1] backward",
        "cutoff": "only plans up to a value are asked for",
        "assignment": "(v) each node is on one device",
        "support": "(v, i) nodes that no accelerator takes are on none",
        "colocation": "(u, v, i) nodes that must share a device do",
        "memory": "(i) what an accelerator holds fits its memory, in whole units",
        "accelerator_load": "(q, i) work and transfers of an accelerator are at most T",
        "cpu_load": "(q, i) work of a CPU is at most T",
        **_TRANSFERS,
        **_CONTIGUITY,
    },
    "ip-tarnawski, non-contiguous": _GROUPS,
    "ip-tarnawski, contiguous": {
        **_GROUPS,
        "y": "[g, j] is group g at stage j or a later one?",
        "w": "[j] is stage j a CPU?",
        "a": "[g, j] is group g at stage j, and is that an accelerator?",
        "c": "[g, j] is group g at stage j, and is that a CPU?",
        "stage": "(g, j) x is the step of y",
        "order": "(u, v, j) along an arc stages never go back",
        "support": "(g, j) groups that no accelerator takes are on none",
        "cpu_count": "as many stages are CPUs as there are CPUs",
        "kind": "(g, j) x is the sum of a and c",
        "accelerator_stage": "(g, j) a is 0 where the stage is a CPU",
        "cpu_stage": "(g, j) c is 0 where the stage is an accelerator",
    },
    "ip-tarnawski-latency, plain": {
        **_TRANSFERS,
        **_CONTIGUITY,
        "x": "[v, i] is node v in subgraph i? 0 is the pool of CPUs",
        "total": "the latency of one sample",
        "lat": "[v] when the result of node v is in host memory",
        "start": "[i] when subgraph i starts",
        "fin": "[i] when subgraph i ends",
        "place": "[v] place of node v in a common order",
        "slot_place": "[i] place of subgraph i in that order",
        "placement": "each node in one subgraph or on the CPUs; support, memory and colocation of accelerators",
        "results": "a result waits for what it is made of, and the sample for all results",
        "received": "a subgraph waits for what it receives",
        "clock": "a subgraph ends after its work and transfers, and starts after the one before it",
        "finished": "the result of a node waits for its subgraph",
        "order": "ours: subgraphs do not wait for each other in a circle",
    },
    "ip-tarnawski-latency, strong": {
        "x": "[a, p] is atom a in stage p?",
        "cpu": "[a] is atom a on the CPUs?",
        "total": "the latency of one sample",
        "start": "[p] when stage p starts",
        "finish": "[p] when stage p ends",
        "done": "[v] when the result of node v is in host memory",
        "f": "[v] second clock: no path with its transfers takes longer to node v",
        "y": "[v, p] is node v in stage p or behind it?",
        "d": "[p, i] does stage p run on accelerator i?",
        "h": "[a, i] is atom a on accelerator i?",
        "same": "[a, b, p] are atoms a and b both in stage p?",
        "reads": "[u, p] does stage p read the output of node u?",
        "sends": "[u, p] does stage p send the output of node u?",
        "path": "[n, u, p] does stage p read the output of u for the n-th critical path?",
        "placement": "(a) each atom is in one stage or on the CPUs",
        "stage_order": "y counts stages, x is its step, and along an arc places do not fall",
        "memory": "what an accelerator holds fits its memory, in whole units",
        "devices": "each stage has one accelerator, which runs one stage at a time; atoms are where their stages are",
        "transfers": "`same` is 0 unless both atoms are in the stage; what crosses its border is read or sent",
        "clock": "stages wait for what they read, and results for their stages; the sample waits for all",
        "second_clock": "implied: no result is there before the longest path to it, with its transfers",
        "cuts": "implied: atoms that every good plan joins are joined; a part with too much memory is divided",
        "whole_path": "implied: the sample takes as long as a critical path with its transfers",
    },
    "ilp-beaumont": _BEAUMONT,
    "mip-piper, columns": {
        **_PIPER,
        "x": "[a] has the plan the stage of column a?",
        "g": "[a] sum of the data-parallel degrees behind the stage of column a, else 0",
        "u": "[e] has the plan the stage e of a higher level?",
        "k": "[level, a] devices that stages behind it take inside of the same copy",
        "eq_1": "(set) the stages are a path from no layer to all of them",
        "eq_2": "(type) all stages together have as many devices as there are",
        "eq_3": "all data-parallel degrees together are at most (or exactly) the micro-batches",
        "eq_4": "(set) what is carried through a set is the sum of the degrees behind it",
        "eq_5": "(a) nothing is carried into stages that the plan does not have, and no more than their memory allows",
        "eq_6": "(layer) the load of the stage that holds it is at most T",
        "eq_13": "(level, set) on each level the stages are a path",
        "eq_14": "(level, set) the path of a level goes through sets of the path below it",
        "eq_15": "a layer's stage has as many copies above it as the stages of higher levels around it say",
        "eq_16": "(level, a) nothing is carried into stages that the plan does not have",
        "eq_17_carried": "(level, set) devices taken inside of one copy are carried on",
        "eq_17_highest": "the devices of the highest level are enough",
        "eq_18": "(level, layer) what the links of a level take is at most T",
        "cut_low": "(a) implied: a lower bound on what is carried into the stage",
        "cut_cover": "(layer) implied: one stage holds the layer",
    },
    "ilp-zero-bubble": {
        "s": "[r] start of run r in steps; run b m + n is block b of micro-batch n",
        "o": "[r, q] of two runs of one device, does r come first?",
        "r": "[r] place of a run without time among those at one instant",
        "T": "the makespan or span, in steps: the objective has the step's length as its coefficient",
        "carry": "carries of long amounts, which are added digit by digit",
        "eq_1": "edges, and each block runs its micro-batches in order",
        "eq_2": "runs of one device do not overlap, in one order or the other",
        "eq_3": "runs without time do not wait for each other in a circle",
        "eq_4": "what was taken and not given back fits the memory when a run starts",
        "eq_5": "T is at least the end of every run, or of each device's span",
    },
}

_PLACED = {"assignment": "T1", "support": "T2", "memory": "T4", "cpu_load": "T8"}
_STRONG = {
    **_PLACED,
    **{"range": "T9", "all_pins": "T10", "net_cut": "T11", "accelerator_load": "T12", "conflict": "T13"},
    **{"stage": "T16", "order": "T18", "cpu_count": "T19", "kind": "T20"},
    **{"accelerator_stage": "T21", "cpu_stage": "T22"},
}
# Equation numbers of rows whose names have none, by model and by name of the row block, as on the pages of
# the models on paper.
NUMBERS: Mapping[str, Mapping[str, str]] = {
    "ip-tarnawski, plain": {
        **_PLACED,
        **{"cutoff": "T9", "colocation": "T3", "receive": "T5", "send": "T6", "accelerator_load": "T7"},
    },
    "ip-tarnawski, non-contiguous": _STRONG,
    "ip-tarnawski, contiguous": _STRONG,
    "ip-tarnawski-latency, strong": {
        **{"placement": "1a", "stage_order": "L1 to L4", "memory": "1c", "devices": "L7 to L13"},
        **{"transfers": "L14, L16", "clock": "4a to 7, 9, L5, L6", "second_clock": "L18 to L21"},
        **{"cuts": "L22, L23", "whole_path": "L25, L26"},
    },
    "ilp-beaumont": {
        **{"second_shift": "E3a", "local_edges": "E4a", "exclusive_buffers": "E5a"},
        **{"timeless_order": "E4b", "timeless_ends": "E4c", "timeless_transitive": "E4d", "timeless_far": "E4e"},
        **{"gpu_load": "B1", "link_load": "B2", "least_lag": "B3", "area": "B4", "instant": "B5"},
    },
    "mip-piper, columns": {"cut_low": "5a", "cut_cover": "6a", "cut_devices": "6b", "cut_least": "12c"},
}

# What stands before the words in a name such as `eq_16_inside`, and a name with its numbers: `eq_3a`, `eq_1_2`.
_NUMBER = re.compile(r"eq_(\d+)_(?!\d)")
_NUMBERS = re.compile(r"eq_(\d+[a-z]?(?:_\d+)*)(?:_[a-z]\w*)?")


def name_of(model: Any) -> str:
    """The model's name without the quotes that Pyomo puts around a comma."""
    return str(model.name).strip("'")


def words_of(model: Any) -> dict[str, str]:
    """What each column and each block of rows of a Pyomo model means; empty where nobody has said it."""
    from pyomo.core.base import Constraint, Var

    ours = WORDS.get(name_of(model), {})
    return {
        part.name: part.doc or ours.get(part.name) or ours.get(_NUMBER.sub("", part.name)) or ""
        for part in model.component_objects((Var, Constraint))
    }


def number_of(model: Any, block: str) -> str:
    """The number of the equation that a block of rows states, or nothing."""
    found = _NUMBERS.fullmatch(block)
    return NUMBERS.get(name_of(model), {}).get(block, found[1].replace("_", ", ") if found else "")
