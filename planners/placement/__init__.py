"""Heuristics and baselines. They import no formulation, so that a comparison means something."""
