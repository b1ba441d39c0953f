"""Piper's dynamic program: stages with data- and tensor-parallel degrees and a configuration for each layer.

The way through it: `model` (layers, options and edges as arrays) -> `stages` (every stage between two downsets: its
least time by micro-batches in flight, a knapsack) -> `decisions` (is there a plan within T?) -> `planner`.
"""
