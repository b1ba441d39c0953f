"""Training configurations: degrees, micro-batch, sharding, layout and recomputation, and what every rank holds."""
