"""Heuristics and baselines. They share no code with formulations, so that a comparison means something."""
