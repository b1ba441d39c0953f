"""A profile of a language model from the shapes in its configuration, without tracing it: no torch, and in moments.

The products of every layer are counted one by one, so floating-point operations are those of the traced model. What
stands between them runs and is kept as training frameworks do it: attention is one kernel that keeps its output and a
number for each row, norms and activations are fused. A traced model keeps more, because it runs operation by operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from ..base.errors import InputError
from ..networks.profile.profile import Profile, ProfileNode, ProfileTensor
from ..networks.profile.work import Kernels, Work, merged, on_hardware
from ..physics.hardware import Hardware
from ..physics.kernels import ATTENTION_BACKWARD, SINGLE
from .config_json import model_from_config
from .model import Attention, Model, UnitType
from .unit_bytes import count_of

# What a layer keeps for its backward pass: as fused kernels leave it, or as PyTorch does, operation by operation.
FUSED, EAGER = ACTIVATIONS = ("fused", "eager")
SIZES = {"bfloat16": 2, "float16": 2, "float32": 4}
# Bytes of a token's number in the vocabulary.
INDEX_BYTES = 8

# What transformers calls the embedding, the layers, the last norm and the head, by `model_type`.
_USUAL_NAMES = ("model.embed_tokens", "model.layers", "model.norm", "lm_head")
_NAMES: Mapping[str, tuple[str, str, str, str]] = {
    "gpt2": ("transformer.wte", "transformer.h", "transformer.ln_f", "lm_head"),
    "gpt_neox": ("gpt_neox.embed_in", "gpt_neox.layers", "gpt_neox.final_layer_norm", "embed_out"),
    "opt": ("model.decoder.embed_tokens", "model.decoder.layers", "model.decoder.final_layer_norm", "lm_head"),
    "phi": ("model.embed_tokens", "model.layers", "model.final_layernorm", "lm_head"),
}


def has_known_shapes(content: Mapping[str, Any]) -> bool:
    """Is this the configuration of a language model whose shapes can be read?"""
    if "text_config" in content:
        return False
    try:
        model_from_config(content)
    except InputError:
        return False
    return True


def profile_of_shapes(
    content: Mapping[str, Any],
    device: Hardware,
    *,
    batch: int,
    sequence: int | None,
    dtype: str,
    training: bool,
    name: str | None,
) -> Profile:
    """The profile of a model by its `config.json`."""
    if "text_config" in content:
        raise InputError("text_config", "stands beside another model", "give --trace, which reads all of them")
    model = model_from_config(content, name or "model")
    architecture = next(iter(content.get("architectures") or [content.get("model_type")]))
    source = {"architecture": architecture}
    return profile_of_model(
        model, device, source, batch=batch, sequence=sequence, dtype=dtype, training=training,
        names=_NAMES.get(str(content.get("model_type")), _USUAL_NAMES),
    )  # fmt: skip


def profile_of_model(
    model: Model,
    device: Hardware,
    source: Mapping[str, Any],
    *,
    batch: int,
    sequence: int | None,
    dtype: str,
    training: bool = True,
    names: tuple[str, str, str, str] = _USUAL_NAMES,
) -> Profile:
    """The profile of a model by its shapes; `source` is put before what is said of the setting."""
    if sequence is None:
        raise InputError("--sequence", "is missing: the model reads text", "give the tokens of a sample")
    if model.positions and sequence > model.positions:
        most = model.positions
        raise InputError(
            "--sequence", f"is {sequence}, more than the model's {most} positions", f"give at most {most}"
        )
    made = _Shapes(model, batch, sequence, SIZES[dtype], training, names)
    said: dict[str, Any] = {
        "how": "shapes of a configuration; attention, norms and activations fused",
        **source,
        "activations": FUSED,
        "batch": batch,
        "sequence": sequence,
        "dtype": dtype,
    }
    if model.prediction_layers:
        said["warnings"] = ["layers for multi-token prediction are left out, as transformers leaves them out"]
    return on_hardware(made.profile(model.name, said), device)


def with_fused_activations(traced: Profile, shaped: Profile) -> Profile:
    """A traced profile where every layer keeps what fused kernels keep; nodes of other names stay as they are."""
    kept = {node.id: node.saved_bytes for node in shaped.nodes}
    nodes = tuple(replace(node, saved_bytes=kept.get(node.id, node.saved_bytes)) for node in traced.nodes)
    return traced.replace(nodes=nodes, source={**traced.source, "activations": FUSED})


@dataclass(frozen=True, slots=True)
class _Product:
    """A matrix that rows of numbers are multiplied with; experts are several matrices, of which a row meets one."""

    inside: int
    outside: int
    rows: float
    matrices: int = 1

    def kernel(self, element: int) -> Kernels:
        moved = self.rows * (self.inside + self.outside) + self.matrices * self.inside * self.outside
        return Kernels(2.0 * self.rows * self.inside * self.outside, float(moved * element), 1, element)


@dataclass(frozen=True)
class _Shapes:
    """The nodes of one micro-batch."""

    model: Model
    batch: int
    sequence: int
    element: int
    training: bool
    names: tuple[str, str, str, str]

    @property
    def rows(self) -> int:
        return self.batch * self.sequence

    def profile(self, name: str, source: Mapping[str, Any]) -> Profile:
        embedding, layers, norm, head = self.names
        units = [unit for unit in self.model.units if unit in ("dense", "experts")]
        nodes = [
            self._embedding(embedding),
            *(self._layer(f"{layers}.{i}", unit) for i, unit in enumerate(units)),
            self._norm(norm),
            self._head(head),
        ]
        size = float(self.rows * self.model.hidden * self.element)
        logits = float(self.rows * self.model.vocabulary * self.element)
        tensors = [ProfileTensor(f"{a.id}.output", a.id, (b.id,), size) for a, b in pairwise(nodes)]
        tensors.append(ProfileTensor(f"{head}.output", head, (), logits, gradient=False))
        tied = ((f"{embedding}.weight", f"{head}.weight"),) if self.model.tied else ()
        return Profile(tuple(nodes), tuple(tensors), name, self.training, self.batch, source=source, tied=tied)

    # ---- nodes -------------------------------------------------------------------------------------------

    def _node(
        self,
        id: str,
        forward: Sequence[Kernels],
        backward: Sequence[Kernels],
        saved: float,
        parameters: Mapping[str, float],
    ) -> ProfileNode:
        work = Work(merged(forward), merged(backward) if self.training else ())
        return ProfileNode(
            id,
            0.0,
            saved_bytes=saved if self.training else 0.0,
            parameters={key: float(count * self.element) for key, count in parameters.items()},
            flops_forward=work.flops("forward"),
            flops_backward=work.flops("backward") if self.training else None,
            work=work,
        )

    def _moves(self, numbers: float, count: int = 1) -> Kernels:
        """Kernels that read and write so many numbers of each row, and calculate next to nothing."""
        return Kernels(0.0, float(self.rows * numbers * self.element), count, self.element)

    def _embedding(self, id: str) -> ProfileNode:
        count = count_of(self.model, "embedding").total
        written = Kernels(0.0, float(count * self.element), 1, self.element)
        forward = [self._moves(2 * self.model.hidden)]
        return self._node(id, forward, [*forward, written], self.rows * INDEX_BYTES, {f"{id}.weight": count})

    def _norm(self, id: str) -> ProfileNode:
        hidden = self.model.hidden
        count = hidden * (1 if self.model.norm == "rms" else 2) * self.model.final_norm
        saved = self.rows * hidden * self.element
        return self._node(id, [self._moves(2 * hidden)], [self._moves(4 * hidden)], saved, {f"{id}.weight": count})

    def _head(self, id: str) -> ProfileNode:
        model = self.model
        product = _Product(model.hidden, model.vocabulary, self.rows)
        count = model.hidden * model.vocabulary + model.vocabulary * model.head_bias
        loss = Kernels(0.0, 2.0 * self.rows * model.vocabulary * SINGLE, 1, SINGLE)
        saved = self.rows * (model.hidden * self.element + model.vocabulary * SINGLE)
        forward = product.kernel(self.element)
        return self._node(
            id,
            [forward, loss] if self.training else [forward],
            [*_twice(forward), loss],
            saved,
            {f"{id}.weight": count},
        )

    def _layer(self, id: str, unit: UnitType) -> ProfileNode:
        attention = self.model.attention
        assert attention is not None, "a model of shapes has it"
        products = [*self._attention_products(attention), *self._later_products(unit)]
        kernels = [product.kernel(self.element) for product in products]
        scores = self._scores(attention)
        between = self._moves(self._between(unit), 6)
        backward = [*(half for kernel in kernels for half in _twice(kernel)), _times(scores, ATTENTION_BACKWARD)]
        return self._node(
            id,
            [*kernels, scores, between],
            [*backward, _times(between, 2)],
            self._kept(attention, unit),
            {f"{id}.weight": count_of(self.model, unit).total},
        )

    # ---- attention ---------------------------------------------------------------------------------------

    def _attention_products(self, own: Attention) -> Iterator[_Product]:
        hidden, rows = self.model.hidden, self.rows
        if own.key_value_rank is None:
            for heads, size in ((own.heads, own.head_size), (own.key_value_heads, own.head_size)):
                yield _Product(hidden, heads * size, rows)
            yield _Product(hidden, own.key_value_heads * own.values, rows)
        else:
            query = own.heads * (own.head_size + own.rope_size)
            if own.query_rank is not None:
                yield _Product(hidden, own.query_rank, rows)
            yield _Product(own.query_rank or hidden, query, rows)
            yield _Product(hidden, own.key_value_rank + own.rope_size, rows)
            yield _Product(own.key_value_rank, own.heads * (own.head_size + own.values), rows)
        yield _Product(own.heads * own.values, hidden, rows)

    def _scores(self, own: Attention) -> Kernels:
        """The kernel of attention, counted with scores of all tokens; layers with a window see those in it alone."""
        seen = float(self.sequence)
        if own.window is not None:
            seen = (1 - own.windowed_share) * seen + own.windowed_share * min(own.window, self.sequence)
        size = own.head_size + own.rope_size
        flops = 2.0 * self.rows * seen * own.heads * (size + own.values)
        return Kernels(flops, float(self.rows * self._read_by_scores(own) * self.element), 1, self.element)

    def _read_by_scores(self, own: Attention) -> int:
        """Queries, keys, values and outputs of a row; latent attention gives each head keys and values of its own."""
        size, groups = own.head_size + own.rope_size, own.heads if own.latent else own.key_value_heads
        return own.heads * (size + own.values) + groups * (size + own.values)

    # ---- what follows attention --------------------------------------------------------------------------

    def _later_products(self, unit: UnitType) -> Iterator[_Product]:
        model, rows = self.model, float(self.rows)
        if unit == "dense":
            assert model.mlp is not None, "a dense layer has it"
            yield from _both_ways(model.hidden, model.mlp.hidden, model.mlp.gated, rows)
            return
        own = model.experts
        assert own is not None, "a layer with experts has them"
        yield _Product(model.hidden, own.count, rows)
        yield from _both_ways(model.hidden, own.hidden, own.gated, rows * own.per_token, own.count)
        if own.shared_hidden:
            yield from _both_ways(model.hidden, own.shared_hidden, own.gated, rows)

    def _inner(self, unit: UnitType) -> int:
        """Numbers of a row on both sides of the activation, those of the gate included where there is one."""
        if unit == "dense":
            assert self.model.mlp is not None, "a dense layer has it"
            return self.model.mlp.hidden * (3 if self.model.mlp.gated else 2)
        own = self.model.experts
        assert own is not None, "a layer with experts has them"
        return (own.per_token * own.hidden + own.shared_hidden) * (3 if own.gated else 2)

    def _between(self, unit: UnitType) -> float:
        """Numbers of a row that norms, residuals, activations and the way to the experts read and write."""
        own = self.model.experts if unit == "experts" else None
        sent = 4 * self.model.hidden * own.per_token if own is not None else 0
        return 10 * self.model.hidden + self._inner(unit) + sent

    def _kept(self, own: Attention, unit: UnitType) -> float:
        """Inputs and outputs of the norms, what attention read and made, and both sides of the activation."""
        experts = self.model.experts if unit == "experts" else None
        sent = self.model.hidden * experts.per_token if experts is not None else 0
        ranks = (own.query_rank or 0) + (own.key_value_rank or 0)
        numbers = 4 * self.model.hidden + self._read_by_scores(own) + ranks + self._inner(unit) + sent
        rows = own.heads + (experts.count if experts is not None else 0)
        return float(self.rows * (numbers * self.element + rows * SINGLE))


def _both_ways(hidden: int, inner: int, gated: bool, rows: float, matrices: int = 1) -> Iterator[_Product]:
    """The products of an MLP: to the inner size, twice where it is gated, and back."""
    for _ in range(2 if gated else 1):
        yield _Product(hidden, inner, rows, matrices)
    yield _Product(inner, hidden, rows, matrices)


def _twice(kernel: Kernels) -> tuple[Kernels, Kernels]:
    """The backward pass of a product: one for its inputs and one for its weights."""
    return kernel, kernel


def _times(kernel: Kernels, factor: float) -> Kernels:
    return Kernels(kernel.flops * factor, kernel.moved_bytes * factor, kernel.count, kernel.element_bytes)
