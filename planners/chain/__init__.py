"""Planning methods for chains: the exact decomposition, the baselines, and their parts."""
