"""GraphPipe's choice of stages as an exact model."""
