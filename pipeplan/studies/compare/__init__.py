"""Exact against heuristic: many runs over instances, methods, settings and seeds, and tables of what came out."""
