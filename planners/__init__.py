"""The doers: exact planner, heuristics, backends."""
