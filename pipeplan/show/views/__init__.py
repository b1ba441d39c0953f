"""What is shown of the plans of each kind: one module a kind, which asks the referee once."""
