"""Event simulation of pipeline schedules on a graph of stages: one simulator for the plans of every kind."""

# Orders of passes: "planned" is the plan's own (1F1B where it has none), "1f1b" alternates forward and backward passes,
# "gpipe" has all forward passes first.
SCHEDULES = ("planned", "1f1b", "gpipe")
