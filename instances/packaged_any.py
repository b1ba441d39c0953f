"""Packaged instances of every kind by name: what the command line looks up."""

from __future__ import annotations

from .catalogue import load_packaged, load_packaged_staging, packaged_names
from .chain.catalogue import load_packaged_chain, packaged_chain_names
from .errors import UsageError
from .graph_pipeline.catalogue import load_packaged_graph, packaged_graph_names
from .kinds import Problem


def all_packaged_names() -> tuple[str, ...]:
    """Placements, stagings, chains and graph pipelines."""
    return (*packaged_names(), *packaged_names("staging"), *packaged_chain_names(), *packaged_graph_names())


def load_any_packaged(name: str) -> Problem:
    """The packaged problem of that name, of whatever kind."""
    if name in packaged_names():
        return load_packaged(name)
    if name in packaged_names("staging"):
        return load_packaged_staging(name)
    if name in packaged_chain_names():
        return load_packaged_chain(name)
    if name in packaged_graph_names():
        return load_packaged_graph(name)
    raise UsageError(f"There is no packaged instance {name!r}; choose one of {', '.join(all_packaged_names())}.")
