"""Packaged graph pipelines; read them through `pipeplan.instances.graph_models.catalogue`."""
