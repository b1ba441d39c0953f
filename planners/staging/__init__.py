"""Piper's dynamic program: stages with data- and tensor-parallel degrees and a configuration for each layer.

The way through it: `costs` (what a stage costs and holds) -> `model` (layers, options and edges as arrays, and every
stage between two downsets: its least time by micro-batches in flight, a knapsack) -> `search` (is there a plan within
T, and which stages has it?) -> `planner`. The loops of all this are in `kernel`. `levels` is the program beyond the
paper, for devices within devices or of several types and for flushes; `equal` makes even splits.
"""
