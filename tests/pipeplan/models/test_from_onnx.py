"""ONNX models as profiles: small models by hand, whose costs are counted by hand."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import Plan, done, refused

import pipeplan
from pipeplan.instances.networks.profile.profile import ProfileNode, profile_to_json
from pipeplan.instances.physics.hardware import DEVICES

onnx = pytest.importorskip("onnx")
h = onnx.helper
FLOAT, INT64, BOOL = 1, 7, 9
A100 = DEVICES["a100-80gb"]


def weights(name: str, *shape: int, kind: int = FLOAT) -> Any:
    return h.make_tensor(name, kind, shape, [1] * math.prod(shape))


def model(
    path: Path,
    nodes: Sequence[Any],
    inputs: dict[str, Sequence[Any]],
    outputs: Sequence[str],
    held: Sequence[Any] = (),
    opset: int = 20,
) -> Path:
    graph = h.make_graph(
        nodes, "small", [h.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()],
        [h.make_tensor_value_info(name, FLOAT, None) for name in outputs], held,
    )  # fmt: skip
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", opset), h.make_opsetid("other", 1)]), path)
    return path


def node(kind: str, reads: str, writes: str, name: str, **more: Any) -> Any:
    return h.make_node(kind, reads.split(), writes.split(), name=name, **more)


@pytest.fixture
def layers(tmp_path: Path) -> Path:
    """Two layers with a residual each, names as torch writes them, and a head that is the first layer's matrix."""
    nodes = []
    for i in range(2):
        x = "x" if not i else "y0"
        nodes += [
            node("MatMul", f"{x} w{i}", f"a{i}", f"/net/h.{i}/up/MatMul"),
            node("Relu", f"a{i}", f"b{i}", f"/net/h.{i}/act/Relu"),
            node("Add", f"{x} b{i}", f"y{i}", f"/net/h.{i}/Add"),
        ]
    nodes += [
        node("Shape", "y1", "s", "/net/Shape"),
        node("Reshape", "y1 s", "z", "/net/Reshape"),
        node("Transpose", "w0", "t", "/head/Transpose", perm=[1, 0]),
        node("MatMul", "z t", "logits", "/head/MatMul"),
    ]
    held = [weights("w0", 8, 8), weights("w1", 8, 8)]
    return model(tmp_path / "layers.onnx", nodes, {"x": (2, 4, 8)}, ["logits"], held)


def test_layers_become_a_row_of_nodes(layers: Path) -> None:
    profile = pipeplan.import_onnx(layers, hardware="a100-80gb")
    assert profile.ids == ("net.h.0", "net.h.1", "head")
    assert profile.is_row
    assert (profile.training, profile.micro_batch, profile.name) == (False, 2, "small")
    assert [n.flops_forward for n in profile.nodes] == [2 * 2 * 4 * 8 * 8] * 3
    assert [dict(n.parameters) for n in profile.nodes] == [{"w0": 256.0}, {"w1": 256.0}, {"w0@1": 256.0}]
    assert profile.tied == (("w0", "w0@1"),)
    assert [(t.id, t.producer, t.readers, t.bytes, t.shape, t.gradient) for t in profile.tensors] == [
        ("y0", "net.h.0", ("net.h.1",), 256.0, (2, 4, 8), False),
        ("z", "net.h.1", ("head",), 256.0, (2, 4, 8), False),
        ("logits", "head", (), 256.0, (2, 4, 8), False),
    ]


def test_times_are_those_of_the_roofline_rule(layers: Path) -> None:
    """A product reads an activation and a matrix and writes an activation; views of either are free."""
    first, _, head = pipeplan.import_onnx(layers, hardware="a100-80gb", efficiency=0.25).nodes
    byte, flop = 1 / A100.memory_bytes_per_s, 4 / A100.single_flops_per_s
    product = max(1024 * flop, 3 * 256 * byte) + A100.launch_s
    relu, add = 2 * 256 * byte + A100.launch_s, 3 * 256 * byte + A100.launch_s
    assert first.forward == pytest.approx(product + relu + add, rel=1e-12)
    assert head.forward == pytest.approx(product, rel=1e-12)


def test_granularities(layers: Path) -> None:
    """The second residual comes from two modules, so it is a node of its own, called as its module."""

    def ids(granularity: str) -> tuple[str, ...]:
        return pipeplan.import_onnx(layers, hardware="a100-80gb", granularity=granularity).ids

    assert ids("module") == ("net.h.0.up", "net.h.0.act", "net.h.1.up", "net.h.1.act", "net.h.1", "head")
    assert len(ids("op")) == 8


def test_scopes_of_torchs_newer_exporter_are_read(tmp_path: Path) -> None:
    """They stand in the metadata; what the exporter made itself has none and goes with its producer."""
    nodes = [node("MatMul", "x w", "a", "node_0"), node("Split", "a", "b c", "node_1", num_outputs=2),
             node("MatMul", "b v", "y", "node_2")]  # fmt: skip
    for made, scope in ((nodes[0], "h.0"), (nodes[2], "h.1")):
        entry = made.metadata_props.add()
        entry.key, entry.value = "pkg.torch.onnx.name_scopes", str(["", scope, f"{scope}.fc", "linear"])
    path = model(tmp_path / "m.onnx", nodes, {"x": (4, 8)}, ["y"], [weights("w", 8, 8), weights("v", 8, 2)])
    profile = pipeplan.import_onnx(path, hardware="a100-80gb", granularity="block")
    assert profile.ids == ("h.0", "h.1")
    assert [t.id for t in profile.tensors] == ["b", "y"]


def test_a_module_that_is_called_twice_is_two_nodes_and_circles_are_one(tmp_path: Path) -> None:
    nodes = [node("MatMul", "x w", "a", "/fc/MatMul"), node("Relu", "a", "b", "/act/Relu"),
             node("MatMul", "b w", "c", "/fc/MatMul_1"), node("Relu", "c", "y", "/act/Relu_1")]  # fmt: skip
    profile = pipeplan.import_onnx(
        model(tmp_path / "m.onnx", nodes, {"x": (4, 8)}, ["y"], [weights("w", 8, 8)]), hardware="a100-80gb"
    )
    assert profile.ids == ("fc", "act", "fc@1", "act@1")
    assert profile.tied == (("w", "w@1"),)
    nodes += [node("Add", "b y", "z", "/act/Add")]  # joins both calls of the second module, around the first one
    profile = pipeplan.import_onnx(
        model(tmp_path / "n.onnx", nodes, {"x": (4, 8)}, ["z"], [weights("w", 8, 8)]), hardware="a100-80gb"
    )
    assert profile.ids == ("fc", "act")
    assert profile.nodes[1].modules == ("act", "fc")


def test_what_depends_on_no_parameter_is_no_node(tmp_path: Path) -> None:
    """A mask: its readers compute it again."""
    nodes = [
        node("Abs", "m", "mask", "/mask/Abs"),
        *(node("MatMul", f"{x} w{x}", f"p{x}", f"/h.{i}/MatMul") for i, x in enumerate(["x", "y"])),
        *(node("Mul", f"p{x} mask", z, f"/h.{i}/Mul") for i, (x, z) in enumerate([("x", "y"), ("y", "z")])),
    ]
    order = [nodes[0], nodes[1], nodes[3], nodes[2], nodes[4]]
    path = model(
        tmp_path / "m.onnx", order, {"x": (4, 8), "m": (4, 8)}, ["z"], [weights("wx", 8, 8), weights("wy", 8, 8)]
    )
    profile = pipeplan.import_onnx(path, hardware="a100-80gb")
    assert profile.ids == ("h.0", "h.1")
    assert [t.id for t in profile.tensors] == ["y", "z"]


def imported(path: Path, *how: Any) -> tuple[ProfileNode, ...]:
    """The nodes of a model that has these operators, and so on."""
    return pipeplan.import_onnx(model(path, *how), hardware="a100-80gb").nodes


def test_weights_that_are_looked_up_not_trained_or_filled_in(tmp_path: Path) -> None:
    """A table moves what is looked up; means and masks are buffers; a matrix may be a shape and one number."""
    path = tmp_path / "m.onnx"
    nodes = [node("Cast", "x", "i", "cast", to=INT64), node("Gather", "table i", "y", "look")]
    (look,) = imported(path, nodes, {"x": (3,)}, ["y"], [weights("table", 1000, 16)])
    assert look.forward == pytest.approx(3 * 16 * 4 / A100.memory_bytes_per_s + A100.launch_s)
    assert (look.flops_forward, dict(look.parameters)) == (0, {"table": 64000.0})
    nodes = [node("BatchNormalization", "x s b mean var", "y", "norm"), node("Where", "causal y y", "z", "mask")]
    held = [*(weights(name, 3) for name in ("s", "b", "mean", "var")), weights("causal", 3, 4, kind=BOOL)]
    norm, mask = imported(path, nodes, {"x": (2, 3, 4)}, ["z"], held)
    assert (dict(norm.parameters), norm.buffer_bytes) == ({"b": 12.0, "s": 12.0}, 24)
    assert (dict(mask.parameters), mask.buffer_bytes) == ({}, 12)
    nodes = [node("ConstantOfShape", "size", "w", "fill"), node("MatMul", "x w", "y", "fc")]
    (only,) = imported(path, nodes, {"x": (2, 8)}, ["y"], [h.make_tensor("size", INT64, (2,), [8, 4])])
    assert (dict(only.parameters), only.flops_forward) == ({"w": 128.0}, 2 * 2 * 8 * 4)


FLOPS = {
    "Gemm": (("Gemm", "x w", {"transB": 1}), (4, 8), {"w": (5, 8)}, 2 * 4 * 5 * 8),
    "Conv": (("Conv", "x w", {"group": 2}), (2, 4, 9, 9), {"w": (6, 2, 3, 3)}, 2 * (2 * 6 * 7 * 7) * 2 * 9),
    "ConvTranspose": (("ConvTranspose", "x w", {}), (2, 4, 5, 5), {"w": (4, 3, 2, 2)}, 2 * (2 * 4 * 5 * 5) * 3 * 4),
    "Einsum": (("Einsum", "x w", {"equation": "...ij,jk->...ik"}), (2, 3, 4), {"w": (4, 5)}, 2 * 2 * 3 * 4 * 5),
    "Einsum without a sum": (("Einsum", "x w", {"equation": "ij,ij->ij"}), (3, 4), {"w": (3, 4)}, 0),
    "LSTM": (("LSTM", "x w r", {"hidden_size": 5}), (7, 2, 3), {"w": (1, 20, 3), "r": (1, 20, 5)}, 2 * 14 * 20 * 8),
    "GRU": (
        ("GRU", "x w r", {"hidden_size": 5, "direction": "bidirectional"}),
        (7, 2, 3),
        {"w": (2, 15, 3), "r": (2, 15, 5)},
        2 * 14 * 2 * 15 * 8,
    ),
    "MatMul of stacks": (("MatMul", "x w", {}), (2, 3, 4, 5), {"w": (5, 6)}, 2 * 2 * 3 * 4 * 5 * 6),
}  # fmt: skip


@pytest.mark.parametrize("name", FLOPS)
def test_flops(name: str, tmp_path: Path) -> None:
    (kind, reads, attributes), shape, held, expected = FLOPS[name]
    path = model(
        tmp_path / "m.onnx", [node(kind, reads, "y", "only", **attributes)], {"x": shape}, ["y"],
        [weights(key, *size) for key, size in held.items()],
    )  # fmt: skip
    assert pipeplan.import_onnx(path, hardware="a100-80gb").nodes[0].flops_forward == expected


def test_attention_has_scores_and_a_mixture(tmp_path: Path) -> None:
    """Two heads, one of keys and values: 2 batch x 2 heads x 6 rows x 6 columns x (4 + 4) multiply-adds."""
    nodes = [
        *(node("MatMul", f"x {w}", w.upper(), f"/attn/{w}/MatMul") for w in "qkv"),
        node("Attention", "Q K V", "y", "/attn/Attention", q_num_heads=2, kv_num_heads=1),
    ]
    held = [weights("q", 8, 8), weights("k", 8, 4), weights("v", 8, 4)]
    path = model(tmp_path / "m.onnx", nodes, {"x": (2, 6, 8)}, ["y"], held, opset=23)
    profile = pipeplan.import_onnx(path, hardware="a100-80gb", granularity="op")
    assert profile.nodes[-1].flops_forward == 2 * 2 * 2 * 6 * 6 * (4 + 4)


# ---- sizes that the file leaves open -------------------------------------------------------------------


@pytest.fixture
def open_sizes(tmp_path: Path) -> Path:
    nodes = [node("MatMul", "x w", "a", "first"), node("Add", "a z", "y", "second")]
    return model(tmp_path / "m.onnx", nodes, {"x": ("n", 8), "z": ("n", 4)}, ["y"], [weights("w", 8, 4)])


def test_sizes_are_given_by_name_and_hold_for_all_of_that_name(open_sizes: Path) -> None:
    profile = pipeplan.import_onnx(open_sizes, hardware="a100-80gb", shapes={"x": (3, 8)})
    assert [t.shape for t in profile.tensors] == [(3, 4), (3, 4)]


def test_on_the_command_line(plan: Plan, open_sizes: Path, tmp_path: Path) -> None:
    """From a model to a plan in two commands."""
    out = tmp_path / "my.json"
    said = done(plan("import", "onnx", open_sizes, "--hardware", "h100-80gb", "--shape", "x=3,8", "-o", out))
    assert " ".join(said.out.split()).startswith(
        "a profile of 2 nodes with 128 B of parameters, inference, analytic: h100"
    )
    profile = pipeplan.load_profile(out)
    assert profile_to_json(profile) == json.loads(out.read_text())
    assert profile.source["how"] == "onnx"
    assert profile.source["times"] == "analytic: h100-80gb, efficiency 0.7, 4 us a kernel"
    solved = plan("solve", out, "--devices", 2, "--memory", "1GB", "--bandwidth", "1GB/s", "--json").json
    assert solved["found"] == "optimal"


# ---- what cannot be read -------------------------------------------------------------------------------


def one(
    kind: str, reads: str, shape: Sequence[Any] = (4, 8), domain: str = "", **attributes: Any
) -> Callable[[Path], Path]:
    """A model of one operator with one matrix."""
    made = node(kind, reads, "y", "only", domain=domain, **attributes)
    return lambda path: model(path, [made], {"x": shape}, ["y"], [weights("w", 8, 8)])


def text(path: Path) -> Path:
    path.write_text("no model")
    return path


def branch(path: Path) -> Path:
    inner = h.make_graph([node("Relu", "x", "r", "r")], "b", [], [h.make_tensor_value_info("r", FLOAT, None)])
    made = [
        node("Cast", "x", "c", "cast", to=BOOL),
        node("If", "c", "y", "choose", then_branch=inner, else_branch=inner),
    ]
    return model(path, made, {"x": (1,)}, ["y"])


def data_size(path: Path) -> Path:
    made = [node("MatMul", "x w", "a", "a"), node("NonZero", "a", "i", "where"), node("Cast", "i", "y", "y", to=1)]
    return model(path, made, {"x": (4, 8)}, ["y"], [weights("w", 8, 8)])


def work_without_parameters(path: Path) -> Path:
    made = [node("MatMul", "x x", "a", "square"), node("Add", "a w", "y", "add")]
    return model(path, made, {"x": (8, 8)}, ["y"], [weights("w", 8, 8)])


PLAIN, OPEN = one("MatMul", "x w"), one("MatMul", "x w", ("n", 8))
Broken = tuple[Callable[[Path], Path], tuple[str, ...], str]
BROKEN: dict[str, Broken] = {
    "no model": (text, (), "is no ONNX model with operators; give a file that was exported as .onnx"),
    "no file": (lambda path: path, (), "file does not exist"),
    "unknown size": (OPEN, (), "input 'x' has the unknown dimension 'n'; fix it with --shape x=...,8"),
    "no shape": (one("MatMul", "x w", None), (), "'x' has an unknown shape; fix it with --shape x=1,3,224,224"),
    "a size by data": (data_size, (),
     "operator 'where' (NonZero) has the tensor 'i', which has the unknown dimension"),
    "unknown input": (PLAIN, ("--shape", "q=1,2"), "--shape names 'q', which is no input; give one of 'x'"),
    "too few sizes": (PLAIN, ("--shape", "x=4"), "gives 'x' 1 dimensions; give 2, as the file says"),
    "another size": (PLAIN, ("--shape", "x=5,8"), "gives 5 for dimension 0 of 'x', which is 4 in the file"),
    "no sizes": (PLAIN, ("--shape", "x=a,8"), "name an input and its sizes"),
    "size 0": (OPEN, ("--shape", "x=0,8"), "gives 'x' a size that is no whole number >= 1"),
    "another domain": (one("Magic", "x w", domain="other"), (),
     "(Magic) has the tensor 'y', which has an unknown shape"),
    "a branch": (branch, (), "operator 'choose' is a branch or a loop (If), whose cost depends on data"),
    "shapes that contradict": (one("MatMul", "x w", (4, 7)), (), "has no shapes that agree"),
    "no parameter": (one("Relu", "x"), (), "has no operator that depends on a parameter"),
    "work without parameters": (work_without_parameters, (), "that depend on no parameter, more than 1 % of all"),
    "unknown device": (PLAIN, ("--hardware", "a100"), "There is no hardware named 'a100' (did you mean"),
    "no such share": (PLAIN, ("--efficiency", "0"), "--efficiency is 0; give a share"),
    "no such granularity": (PLAIN, ("--granularity", "layer"), "give one of block, module, op"),
    "nowhere to write": (PLAIN, ("-o", "/nowhere/out.json"), "lies in a folder that does not exist"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_models_are_refused_in_one_sentence(name: str, plan: Plan, tmp_path: Path) -> None:
    make, options, expected = BROKEN[name]
    path, hardware = make(tmp_path / "m.onnx"), () if "--hardware" in options else ("--hardware", "a100-80gb")
    output = () if "-o" in options else ("-o", tmp_path / "out.json")
    refused(plan("import", "onnx", path, *hardware, *options, *output), expected)
    assert not (tmp_path / "out.json").exists()


def test_uncounted_operators_may_be_allowed(tmp_path: Path) -> None:
    """Of another domain, with a shape in the file."""
    path = model(
        tmp_path / "m.onnx", [node("Magic", "x w", "y", "only", domain="other")], {"x": (4, 8)}, ["y"],
        [weights("w", 8, 8)],
    )  # fmt: skip
    made = onnx.load(path)
    made.graph.output[0].CopyFrom(h.make_tensor_value_info("y", FLOAT, (4, 8)))
    onnx.save(made, path)
    with pytest.raises(pipeplan.InputError, match=r"'only' \(Magic\) reads the parameter 'w' and has no formula"):
        pipeplan.import_onnx(path, hardware="a100-80gb")
    assert pipeplan.import_onnx(path, hardware="a100-80gb", allow_uncounted=True).nodes[0].flops_forward == 0


def test_without_onnx_it_says_what_to_install(layers: Path) -> None:
    code = (
        "import sys; sys.modules['onnx'] = None\n"
        "from pipeplan.cli import main\n"
        f"sys.exit(main(['import', 'onnx', {str(layers)!r}, '--hardware', 'a100-80gb', '--json']))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert said.returncode == 2
    assert "pip install 'pipeplan[onnx]'" in said.stderr
    assert said.stderr.count("\n") == 1
