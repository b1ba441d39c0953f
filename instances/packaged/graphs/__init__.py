"""Packaged graph pipelines; read them through `pipeplan.instances.graph_pipeline.catalogue`."""
