"""Tarnawski et al., NeurIPS 2020: placement for throughput."""

from .formulation import FORMULATION

__all__ = ["FORMULATION"]
