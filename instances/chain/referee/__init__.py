"""Recomputes what a plan costs and says in words what is wrong with it. Believes nothing stored."""
