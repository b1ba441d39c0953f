"""Studies that use planners: comparisons, curves of a value against a limit, configurations, exports."""
