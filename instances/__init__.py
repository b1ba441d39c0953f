"""The world: what is planned, what a plan is, what it costs. Imports no solver and no modelling library."""
