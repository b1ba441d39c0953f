"""Heuristics and baselines for the latency of one sample.

They share no code with formulations, except `cells`: the plan that a bound has in mind.
"""
