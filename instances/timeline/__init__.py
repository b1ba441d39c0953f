"""Event simulation of pipeline schedules on a graph of stages: one simulator for the plans of every kind."""
