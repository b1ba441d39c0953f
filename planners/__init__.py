"""The planners: exact ones and heuristics, the backends that talk to solvers, and the referee's part in every run."""
