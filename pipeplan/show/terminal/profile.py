"""A profile as text and as data: what its nodes cost, and what passes between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...instances.base.amounts import exact_sum
from ...instances.networks.profile.profile import Profile
from ..console import draw_table, new_table, out, styled
from ..words import Times, amount, percent, several, size

# The most nodes that the table shows.
SHOWN_NODES = 200


def profile_report(profile: Profile) -> dict[str, Any]:
    """Sums, and one row for each node; times of one micro-batch in the profile's unit."""
    rows = [_row(profile, i) for i in range(len(profile.nodes))]
    total = sum(row["forward"] + row["backward"] for row in rows)
    for row in rows:
        row["share"] = (row["forward"] + row["backward"]) / total if total else None
    return {
        "profile": {
            "name": profile.name,
            "hash": profile.hash,
            "training": profile.training,
            "micro_batch": profile.micro_batch,
            "time_unit": profile.time_unit,
            "nodes": len(rows),
            "tensors": len(profile.tensors),
            "row": profile.is_row,
            "forward": sum(row["forward"] for row in rows),
            "backward": sum(row["backward"] for row in rows),
            "parameter_bytes": float(exact_sum(row["parameter_bytes"] for row in rows)) - profile.tied_bytes,
            "tied_bytes": profile.tied_bytes,
            "saved_bytes": float(exact_sum(row["saved_bytes"] for row in rows)),
            "source": dict(profile.source),
        },
        "nodes": rows,
    }


def _row(profile: Profile, i: int) -> dict[str, Any]:
    node = profile.nodes[i]
    return {
        "id": node.id,
        "forward": profile.time(node.forward),
        "backward": profile.time(node.backward),
        "flops_forward": node.flops_forward,
        "flops_backward": node.flops_backward,
        "parameter_bytes": node.parameter_bytes,
        "buffer_bytes": node.buffer_bytes,
        "saved_bytes": node.saved_bytes,
        "output_bytes": float(exact_sum(tensor.bytes for tensor in profile.made[i] if tensor.readers)),
        "readers": list(dict.fromkeys(reader for tensor in profile.made[i] for reader in tensor.readers)),
    }


def draw_profile(profile: Profile) -> None:
    """Print the sums in sentences, and a line for each node."""
    report, console = profile_report(profile), out()
    for sentence in _sentences(profile, report["profile"]):
        console.print(styled(sentence))
    table = new_table(padding=1)
    times = Times.of((row[side] for row in report["nodes"] for side in ("forward", "backward")), profile.time_unit)
    passes = ("forward", "backward") if profile.training else ("forward",)
    kept = ("saved",) if profile.training else ()
    console.print(styled(f"times{times.inside}"))
    for i, heading in enumerate(("node", *passes, "share", "parameters", *kept)):
        table.add_column(heading, overflow="fold", justify="right" if i else "left", min_width=0 if i else 20)
    for row in report["nodes"][:SHOWN_NODES]:
        costs = (times.text(row[side], digits=4) for side in passes)
        share = "-" if row["share"] is None else percent(row["share"])
        sizes = (size(row[f"{what}_bytes"]) for what in ("parameter", *kept))
        table.add_row(*map(styled, (row["id"], *costs, share, *sizes)))
    draw_table(table)
    if len(report["nodes"]) > SHOWN_NODES:
        left = several(len(report["nodes"]) - SHOWN_NODES, "more node")
        console.print(styled(f"... and {left}; --json has all of them"))


def _sentences(profile: Profile, facts: Mapping[str, Any]) -> list[str]:
    unit, shape = profile.time_unit, "in a row" if facts["row"] else "that form a graph"
    twice = f", {size(profile.tied_bytes)} of them in a second node as well" if profile.tied else ""
    passes = f"forward {amount(facts['forward'], unit, 4)}"
    if profile.training:
        passes += f", backward {amount(facts['backward'], unit, 4)}"
    kept = f"; {size(facts['saved_bytes'])} saved between them" if profile.training else ""
    entries = {key: value for key, value in profile.source.items() if not key.endswith("sha256")}
    source = "; ".join(f"{key} {value}" for key, value in entries.items() if isinstance(value, (str, int)))
    return [
        f"{profile.name}: a profile of {several(facts['nodes'], 'node')} {shape}, without a cluster",
        f"a micro-batch of {several(profile.micro_batch, 'sample')}: {passes}{kept}",
        f"parameters {size(facts['parameter_bytes'])}{twice}",
        *([f"source: {source}"] if source else []),
    ]
