"""A formulation through one or several solvers, by cut-offs."""
