"""Period against memory: one chain, many memory limits, many methods."""
