"""Studies that use planners: comparisons, curves of a value against a limit, sensitivity, configurations, exports."""
