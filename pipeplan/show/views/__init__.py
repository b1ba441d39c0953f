"""The views of the plans of each kind: one module for each kind, which asks the referee once."""
