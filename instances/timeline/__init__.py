"""Event simulation of pipeline schedules on a graph of stages: one simulator for the plans of every kind."""

# As the plan says (1F1B where it says nothing); one forward, one backward; all forward, then all backward.
SCHEDULES = ("planned", "1f1b", "gpipe")
