"""Networks as users have them: known ones by their shapes, profiles and tables. All of them become problems.

A known network becomes a graph pipeline through its profile. Placements, chains and stagings of known networks have
rules of their own (`from_workload`), since a profile would give other values: placements have nodes for the network's
inputs and divide memory otherwise, chains join light layers to blocks and keep what a block reads, and stagings know
how tensor parallelism splits each layer and what it communicates.
"""
