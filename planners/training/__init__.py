"""Planners of the kind training: which configuration of a framework is fastest, by a search with bounds."""
