"""What is done with planners: comparisons, curves of period against memory, sensitivity, export of models."""
