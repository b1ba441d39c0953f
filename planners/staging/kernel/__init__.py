"""The loops of Piper's dynamic program, for compilation as one unit: `stages` looks into stages, `decisions` is the
dynamic program itself. Code that is not to be compiled has no place here."""

from .decisions import EXACT as EXACT
from .decisions import GREEDY as GREEDY
from .decisions import RELAXED as RELAXED
from .decisions import decide as decide
from .decisions import exact_knapsack as exact_knapsack
from .decisions import fill_values as fill_values
from .stages import TIME as TIME
from .stages import TIME_REST as TIME_REST
from .stages import WEIGHT as WEIGHT
from .stages import WEIGHT_REST as WEIGHT_REST
from .stages import Cluster as Cluster
from .stages import Layers as Layers
from .stages import Table as Table
from .stages import nested_pairs as nested_pairs
from .stages import number_rows as number_rows
from .stages import stage_at as stage_at
from .stages import tabulate as tabulate
