"""Ways to a placement: dynamic programs, sets of devices, latency, and heuristics, which import no formulation."""
