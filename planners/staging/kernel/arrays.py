"""What the loops read: layers, options and edges of a model, and the table of its stages.

Times of a stage are multiplied by its number of replicas d, so that one table serves all d: d times the load is

    base + extra(y) + sync(d) weights,      y = micro-batches in flight,

where base is the time of the fastest options with all transfers, and extra(y) what the knapsack adds so that y
micro-batches in flight fit the memory. extra never falls with y. Beyond `last` nothing fits.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Layers(NamedTuple):
    """Layers, their options one behind the other, and their edges."""

    bits: Any
    """uint64[downsets, words]: the layers of each downset, as bits"""
    option_start: Any
    """int64[degrees, layers + 1]: where the options of a layer begin; an option costs `time` + transfers"""
    time: Any
    weight: Any
    per_batch: Any
    """in whole units of memory, as floats: their sums are exact"""
    fixed: Any
    gather_start: Any
    """where the bytes of an option's edges begin, in the order of its layer's edges"""
    gather: Any
    edge_start: Any
    """int64[layers + 1]: where the edges of each layer begin"""
    edge_layer: Any
    """the layer at the other end"""
    edge_time: Any
    memory: Any
    """float[degrees]: what layers may take of a device, in whole units"""
    sync: Any
    """float[degrees]: time per byte of weights that is part of an option's cost; 0 where all options weigh the same"""
    only: Any
    """int64[degrees]: the one number of replicas (by its place) that a row of options is for; negative: for all"""
    most: int
    """no more micro-batches in flight than this"""
    simple: Any
    """bool[degrees]: all options of a layer gather the same, so its fastest one is the same in all stages"""
    prefix: Any
    """float[degrees, 9, downsets], for `simple` ones: see `TIME` and the next"""
    fine: bool
    """Are sums of times and weights kept in two parts?"""
    enter: Any
    """float[degrees, downsets]: time of the edges that a downset cuts, as the stage behind them pays it"""
    leave: Any
    """the same as the stage before them pays it"""
    octets: Any
    """uint8[downsets, ..]: `bits` by bytes"""
    from_layer: Any
    to_layer: Any
    """the two ends of each edge"""
    passing: Any
    """float[degrees, edges]: what both its stages pay for an edge"""


# Sums over downsets: what the fastest options take, the least memory with one micro-batch in flight, how many layers
# have no option or several, and the rest of times and weights where one number is not enough for their sum.
#
# Memory is counted in whole units, so that its sums are exact.
TIME, WEIGHT, PER_BATCH, FIXED, LEAST, MISSING, SEVERAL, TIME_REST, WEIGHT_REST = range(9)


class Cluster(NamedTuple):
    """What a plan may use, and which degrees its stages may have."""

    devices: int
    batches: int
    """the data-parallel degrees of all stages sum to no more"""
    replicas: Any
    """int64: data-parallel degrees, ascending"""
    sync: Any
    """float[replicas]: time per byte of weights, times the replicas"""
    degree: Any
    """int64[degrees]: the tensor-parallel degrees"""


class Table(NamedTuple):
    """Stages by pair of downsets and degree; pairs are sorted by the larger downset."""

    pair_start: Any
    """int64[downsets + 1]: the pairs that end in a downset"""
    pair_source: Any
    """int32[pairs]: the smaller downset"""
    row: Any
    """int32[pairs]: where a pair stands in the arrays below, negative: it is quick; empty where all are"""
    base: Any
    """float[rows, degrees]; infinite where there is no such stage"""
    weight: Any
    fastest: Any
    """int32[rows, degrees]: up to so many in flight the fastest options fit"""
    last: Any
    extra_start: Any
    """int64[rows, degrees]: the place of extra(fastest + 1)"""
    upper: Any
    """extra(y) of the best choice so far"""
    lower: Any
    """no choice has a smaller extra(y)"""
