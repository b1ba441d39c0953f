"""Ways to a placement that promise nothing about the optimum: what the exact methods start from."""
