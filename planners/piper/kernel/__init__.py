"""The loops of Piper's dynamic program, for compilation as one unit.

`arrays` is what they read. `pairs` finds the stages, `table` fills the rows of those that may need a knapsack, `quick`
computes all others. `options` and `knapsack` look into one stage. `decisions` and `values` are the program itself.
"""

from .arrays import TIME, TIME_REST, WEIGHT, WEIGHT_REST, Cluster, Layers, Table
from .decisions import EXACT, GREEDY, RELAXED, decide, decide_sums
from .knapsack import exact_knapsack
from .pairs import nested_pairs, number_rows
from .quick import stage_at
from .table import tabulate
from .values import fill_values

__all__ = [
    "EXACT",
    "GREEDY",
    "RELAXED",
    "TIME",
    "TIME_REST",
    "WEIGHT",
    "WEIGHT_REST",
    "Cluster",
    "Layers",
    "Table",
    "decide",
    "decide_sums",
    "exact_knapsack",
    "fill_values",
    "nested_pairs",
    "number_rows",
    "stage_at",
    "tabulate",
]
