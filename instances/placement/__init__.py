"""Placements: nodes on accelerators and CPUs, for throughput or for the latency of one sample."""
