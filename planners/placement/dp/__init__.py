"""The exact dynamic program over ideals: contiguous plans with a proof, without any solver.

The way through it: `model` (the contracted problem) -> `lattice` (its ideals) -> `dense` (all pairs at once, for
small lattices) or `search` with `kernel` (compiled, pruned, for large ones) -> `planner` (plan, bound, report).
"""
