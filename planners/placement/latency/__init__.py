"""Heuristics and baselines for the latency of one sample.

They share no code with formulations, except `cell_places` in `lns`, which makes a plan of what a bound has chosen.
"""
