"""A profile of a language model from the shapes in its configuration, without tracing it: no torch, and in moments.

Layers run the kernels of the same units of a training configuration on one GPU (`unit_costs.py`), so they take the
same seconds: attention is one kernel that keeps its output and a number for each row, norms and activations are fused.
A traced model keeps more, because it runs operation by operation. Floating-point operations are those of the traced
model. The operations of a kernel are more where the sides of a product are short: as many as take as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from ..base.errors import InputError
from ..networks.profile.profile import Profile, ProfileNode, ProfileTensor
from ..networks.profile.work import Kernels, Work, merged, on_hardware
from ..physics.efficiencies import ATTENTION_BACKWARD, HALF, SINGLE
from ..physics.hardware import PRODUCTS, Hardware, KernelShare
from .build import problem_of
from .config_json import model_from_config
from .model import Attention, Model, UnitType
from .plan import NOTHING, Configuration, Degrees
from .problem import TrainingProblem
from .referee import stash_bytes
from .unit_costs import Attend, Keys, Module, Product, SecondsOfUnits, Traffic, count_of, norm_parameters

# What a layer keeps for its backward pass: as fused kernels leave it, or as PyTorch does, operation by operation.
FUSED, EAGER = ACTIVATIONS = ("fused", "eager")
SIZES = {"bfloat16": 2, "float16": 2, "float32": 4}

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
    if {"text_config", "vision_config"} & {*content}:
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
    if {"text_config", "vision_config"} & {*content}:
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


def _of_row(amount: Any) -> float:
    """The amount of the one choice of degrees; what is the same for all choices is a number by itself."""
    return float(amount if isinstance(amount, (int, float)) else amount[0])


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

    @property
    def _hidden_bytes(self) -> float:
        return float(self.rows * self.model.hidden * self.element)

    def profile(self, name: str, source: Mapping[str, Any]) -> Profile:
        embedding, layers, norm, head = self.names
        units = [unit for unit in self.model.units if unit in ("dense", "experts")]
        table = count_of(self.model, "embedding")
        last = norm_parameters(self.model, self.model.hidden) * self.model.final_norm
        nodes = [
            self._node(
                embedding, self._run_by("embedding"), self._kept_by("embedding"), {f"{embedding}.weight": table}
            ),
            *(self._layer(f"{layers}.{i}", unit) for i, unit in enumerate(units)),
            self._node(norm, self._run_by("head")[:-1], self._hidden_bytes, {f"{norm}.weight": last}),
            self._head(head),
        ]
        size = self._hidden_bytes
        logits = float(self.rows * self.model.vocabulary * self.element)
        tensors = [ProfileTensor(f"{a.id}.output", a.id, (b.id,), size) for a, b in pairwise(nodes)]
        tensors.append(ProfileTensor(f"{head}.output", head, (), logits, gradient=False))
        tied = ((f"{embedding}.weight", f"{head}.weight"),) if self.model.tied else ()
        return Profile(tuple(nodes), tuple(tensors), name, self.training, self.batch, source=source, tied=tied)

    # ---- nodes -------------------------------------------------------------------------------------------

    @cached_property
    def _alone(self) -> tuple[TrainingProblem, Configuration]:
        """The model on one GPU; what its units run and keep depends on no figure of the GPU."""
        problem = problem_of(self.model, "1xh100-80gb", batch=self.batch, sequence=self.sequence)
        layout = (len(problem.model.units),)
        return problem, Configuration(Degrees(), self.batch, 0, "1f1b", layout, (NOTHING,))

    def _run_by(self, unit: UnitType) -> list[Module]:
        keys = Keys.of([(1, 1, 1, 1, self.batch)])
        return SecondsOfUnits(self._alone[0], keys, SINGLE).modules(unit)

    def _kept_by(self, unit: UnitType) -> float:
        """Bytes that one micro-batch leaves in a unit."""
        return self._wide(stash_bytes(*self._alone, self.model.units.index(unit), NOTHING))

    def _node(
        self, id: str, modules: Iterable[Module], saved: float, parameters: Mapping[str, float], scores: float = 0.0
    ) -> ProfileNode:
        """A node that runs the modules, and with them attention of so many operations, as traced models count it."""
        items = [item for module in modules for item in module.items]
        forward = [kernel for item in items for kernel in self._forward(item)]
        backward = [kernel for item in items for kernel in self._backward(item)] if self.training else []
        products = float(round(sum(_of_row(item.operations()) for item in items if isinstance(item, Product))))
        return ProfileNode(
            id,
            0.0,
            saved_bytes=saved if self.training else 0.0,
            parameters={key: float(count * self.element) for key, count in parameters.items()},
            flops_forward=products + scores,
            flops_backward=2 * products + ATTENTION_BACKWARD * scores if self.training else None,
            work=Work(merged(forward), merged(backward)),
        )

    def _forward(self, item: Product | Attend | Traffic) -> Iterator[Kernels]:
        match item:
            case Product():
                yield self._product(item)
            case Attend():
                yield Kernels(_of_row(item.operations), 0.0, 1, self.element, "attention")
            case Traffic():
                yield Kernels(0.0, self._wide(_of_row(item.forward_bytes)), item.launches, self.element)

    def _backward(self, item: Product | Attend | Traffic) -> Iterator[Kernels]:
        match item:
            case Product():
                yield self._product(item)
                yield self._product(item, 2 * SINGLE)
            case Attend():
                yield Kernels(ATTENTION_BACKWARD * _of_row(item.operations), 0.0, 2, self.element, "attention")
            case Traffic():
                yield Kernels(0.0, self._wide(_of_row(item.backward_bytes)), item.launches, self.element)

    def _product(self, item: Product, weight_bytes: float = HALF) -> Kernels:
        half_side = self._alone[0].efficiencies.half_side
        moved = self._wide(_of_row(item.moved_bytes(weight_bytes)))
        share: KernelShare = "grouped_products" if item.grouped else PRODUCTS
        return Kernels(_of_row(item.operations(half_side)), moved, 1, self.element, share)

    def _wide(self, half_bytes: float) -> float:
        """Bytes of numbers as wide as the profile's, where they are so many with numbers of sixteen bits."""
        return half_bytes * self.element / HALF

    def _head(self, id: str) -> ProfileNode:
        model = self.model
        count = model.hidden * model.vocabulary + model.vocabulary * model.head_bias
        kept = self._kept_by("head") - self._hidden_bytes
        run = self._run_by("head")[-1]
        if not self.training:  # nobody asks for the loss
            run.items = [item for item in run.items if isinstance(item, Product)]
        return self._node(id, (run,), kept, {f"{id}.weight": count})

    def _layer(self, id: str, unit: UnitType) -> ProfileNode:
        attention = self.model.attention
        assert attention is not None, "a model of shapes has it"
        parameters = {f"{id}.weight": count_of(self.model, unit)}
        return self._node(id, self._run_by(unit), self._kept_by(unit), parameters, self._scores(attention))

    def _scores(self, own: Attention) -> float:
        """Operations of attention with scores of all tokens; layers with a window see those in it alone."""
        seen = float(self.sequence)
        if own.window is not None:
            seen = (1 - own.windowed_share) * seen + own.windowed_share * min(own.window, self.sequence)
        return 2.0 * self.rows * seen * own.heads * (own.head_size + own.rope_size + own.values)
