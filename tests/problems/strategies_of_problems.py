"""Hypothesis strategies for placement problems of every kind that the door lets in."""

from __future__ import annotations

from hypothesis import strategies as st

from pipeplan.instances.base.checks import MAX_WHOLE_ID
from pipeplan.instances.placement.problem import Node, PlacementProblem

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
"""Everything but half characters: control characters, right-to-left marks and emoji included."""

ids = st.integers(-MAX_WHOLE_ID, MAX_WHOLE_ID) | st.integers(0, 9) | st.sampled_from("0123456789") | texts
amounts = st.floats(0, 1e100, allow_subnormal=True) | st.integers(0, 10**12)


@st.composite
def placement_problems(draw: st.DrawFn, max_nodes: int = 8) -> PlacementProblem:
    """Any valid problem: ids of both types, colours, backward nodes, doubled edges, CPUs or none."""
    cpus = draw(st.integers(0, 3))
    accelerators = draw(st.integers(0 if cpus else 1, 4))
    node_ids = draw(st.lists(ids, min_size=1, max_size=max_nodes, unique_by=lambda i: (type(i), i)))
    first_backward = draw(st.integers(0, len(node_ids)))
    pairs = [(u, v) for u in range(len(node_ids)) for v in range(u + 1, len(node_ids))]
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=12)) if pairs else []
    read = {u for u, _ in chosen}
    nodes = [
        Node(
            id=node_id,
            accelerator_time=draw(amounts),
            cpu_time=draw(amounts),
            size_bytes=draw(amounts),
            transfer_time=draw(amounts) if i in read else 0,
            supported=draw(st.booleans()) if cpus else True,
            backward=i >= first_backward,
            color=draw(st.none() | ids),
            name=draw(st.none() | texts),
        )
        for i, node_id in enumerate(node_ids)
    ]
    return PlacementProblem(
        nodes=tuple(nodes),
        edges=tuple((node_ids[u], node_ids[v]) for u, v in chosen),
        accelerators=accelerators,
        cpus=cpus,
        memory_bytes=draw(st.none() | amounts) if cpus else None,
        name=draw(texts),
        time_unit=draw(st.sampled_from(["s", "ms", None])),
    )
