"""Profiles for tests: a small graph with everything that a profile can say, and random ones."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from pipeplan import Profile, ProfileNode, ProfileTensor, TimeCurve
from pipeplan.instances.networks.profile.work import Kernels, Work

WORK = Work((Kernels(10.0, 24.0, 2, 2), Kernels(0.0, 8.0)), (Kernels(20.5, 48.0),))

DIAMOND = Profile(
    nodes=(
        ProfileNode(
            "stem", 1.0, 2.0, 30.0, 1.0, {"stem.weight": 4.0, "stem.bias": 1.0}, 10.0, 20.0, ("net.stem",), WORK
        ),
        ProfileNode("left", 3.0, 6.0, 8.0, parameters={"left.weight": 10.0}),
        ProfileNode("right", TimeCurve((1, 2, 4), (1.0, 1.5, 2.5)), TimeCurve((2,), (4.0,)), 6.0),
        ProfileNode("head", 2.0, 4.0, 5.0, parameters={"head.weight": 4.0}),
    ),
    tensors=(ProfileTensor("x", "stem", ("left", "right"), 12.0, shape=(2, 3), dtype="float32"),
        ProfileTensor("mask", "stem", ("right",), 4.0, gradient=False), ProfileTensor("l", "left", ("head",), 7.0),
        ProfileTensor("r", "right", ("head",), 9.0), ProfileTensor("loss", "head", (), 1.0)),
    name="diamond",
    micro_batch=2,
    time_unit="ms",
    source={"how": "by hand"},
    tied=(("stem.weight", "head.weight"),),
)  # fmt: skip

ROW = Profile(
    nodes=tuple(ProfileNode(name, 1.0, 2.0, 10.0, parameters={name: 4.0}) for name in "abcd"),
    tensors=(
        *(ProfileTensor(name, name, (after,), 6.0) for name, after in zip("abc", "bcd", strict=True)),
        ProfileTensor("d", "d", (), 3.0),
    ),
    time_unit="ms",
)

_amounts = st.integers(0, 1000).map(lambda n: n / 8)


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    """Graphs of one to six nodes, each with one tensor, as tables make them."""
    count = draw(st.integers(1, 6))
    names = [f"layer {i}" for i in range(count)]
    nodes = [
        ProfileNode(
            name, draw(_amounts), draw(_amounts), draw(_amounts), parameters=_parameters(name, draw(_amounts))
        )
        for name in names
    ]
    tensors = [
        ProfileTensor(name, name, tuple(reader for reader in names[i + 1 :] if draw(st.booleans())), draw(_amounts))
        for i, name in enumerate(names)
    ]
    return Profile(tuple(nodes), tuple(tensors), time_unit=draw(st.sampled_from(["s", "ms", "us"])))


def _parameters(name: str, size: float) -> dict[str, float]:
    return {name: size} if size else {}


def table_of(profile: Profile, byte_unit: str = "B") -> str:
    """The table that says the same, with as many decimals as it takes."""
    factor = {"B": 1, "kB": 1000, "KiB": 1024}[byte_unit]
    unit = profile.time_unit
    head = (
        f"layer,forward [{unit}],backward [{unit}],parameters [{byte_unit}],"
        f"activation [{byte_unit}],output [{byte_unit}],depends_on"
    )
    reads: dict[str, list[str]] = {node.id: [] for node in profile.nodes}
    for tensor in profile.tensors:
        for reader in tensor.readers:
            reads[reader].append(tensor.producer)
    rows: list[list[Any]] = [
        [
            node.id,
            node.forward,
            node.backward,
            *(f"{amount / factor:.20f}" for amount in (node.parameter_bytes, node.saved_bytes, tensor.bytes)),
            ";".join(reads[node.id]),
        ]
        for node, tensor in zip(profile.nodes, profile.tensors, strict=True)
    ]
    return "\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n"
