"""Heuristics and baselines for the latency of one sample.

They share no code with formulations, except `cell_places` in `lns`: the plan that a bound has in mind.
"""
