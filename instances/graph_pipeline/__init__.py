"""Graph pipelines: stages that form a graph, with micro-batch schedules."""
