"""Tarnawski et al., NeurIPS 2020: placement for throughput."""
