"""Heuristics of placements: their plans promise nothing about the optimum, and exact methods start from them."""
