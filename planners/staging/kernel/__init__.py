"""The loops of Piper's dynamic program, for compilation as one unit.

`arrays` is what they read. `program` finds the stages and fills the rows of those that may need a knapsack, `quick`
computes all others. `options`, `steps` and `knapsack` look into one stage. `decisions` is the dynamic program itself.
"""

from .arrays import TIME as TIME
from .arrays import TIME_REST as TIME_REST
from .arrays import WEIGHT as WEIGHT
from .arrays import WEIGHT_REST as WEIGHT_REST
from .arrays import Cluster as Cluster
from .arrays import Layers as Layers
from .arrays import Table as Table
from .decisions import EXACT as EXACT
from .decisions import GREEDY as GREEDY
from .decisions import RELAXED as RELAXED
from .decisions import decide as decide
from .decisions import decide_sums as decide_sums
from .decisions import fill_values as fill_values
from .knapsack import exact_knapsack as exact_knapsack
from .program import nested_pairs as nested_pairs
from .program import number_rows as number_rows
from .program import tabulate as tabulate
from .quick import stage_at as stage_at
