"""GraphPipe: stages that form a graph, found by a dynamic program over the series-parallel decomposition."""
