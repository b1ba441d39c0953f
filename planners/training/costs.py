"""How long a micro-batch keeps a rank busy with each type of unit, in closed form, for many degrees at once.

Written from the definitions in the documentation and not from the referee, which works out one configuration piece by
piece. A *sheet* is the time of one direction: a product takes the larger of its operations and its bytes, and what is
sent counts as far as nothing hides it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ...instances.physics.kernels import ATTENTION_BACKWARD
from ...instances.training.model import UnitType
from ...instances.training.plan import FULL
from ...instances.training.problem import TrainingProblem
from .keys import Keys
from .links import Cluster, Groups

# Parts of a sheet: each way of sending hides behind another part.
PARTS = ("products", "attention", "memory", "tensor", "context", "expert")
# Modules whose work is computed again along with a module.
ALONG = {"moe": ("moe", "moe_act", "shared_experts")}

# Columns of seconds by part.
Sheet = dict[str, Any]


@dataclass
class _Module:
    """Seconds of a module of a unit; `inputs` is the backward pass without the gradients of weights."""

    forward: Sheet = field(default_factory=dict)
    inputs: Sheet = field(default_factory=dict)
    weights: Any = 0.0


@dataclass(frozen=True)
class UnitSeconds:
    """Seconds of one type of unit for one micro-batch, in columns."""

    forward: Any
    inputs: Any
    """Seconds of the backward pass without the gradients of weights."""
    weights: Any
    again: Mapping[tuple[str, ...], Any]
    """Seconds to compute again, by the modules that are."""

    @property
    def backward(self) -> Any:
        return self.inputs + self.weights


def exposed(seconds: Any, share: float, behind: Any) -> Any:
    """What is left of communication, a share of which is hidden as far as there is anything to hide it behind."""
    import numpy as np

    return seconds - np.minimum(share * seconds, behind)


class Seconds:
    """Costs of the units of a problem."""

    def __init__(self, problem: TrainingProblem, keys: Keys, words: Iterable[tuple[str, ...]] = ()) -> None:
        self.problem, self.model, self.keys = problem, problem.model, keys
        self.words = tuple(words)
        self.rates = problem.efficiencies
        self.memory_rate = self.rates.memory * problem.gpu.memory_rate
        self.short_peak = problem.gpu.flops["fp16" if problem.precision == "fp16" else "bf16"]
        self.tokens = keys.tokens(problem)
        self.between = keys.tokens_between(problem)
        self.divides = problem.sequence_parallel

    @cached_property
    def _cluster(self) -> Cluster:
        return Cluster(self.problem.levels, self.rates.links)

    @cached_property
    def _tensor(self) -> Groups:
        return self._cluster.groups(1, self.keys.tensor)

    def unit(self, name: UnitType, gradient_bytes: float) -> UnitSeconds:
        """Seconds of a type of unit that has shapes; the gradients of weights are added up in `gradient_bytes`
        bytes."""
        self.gradient_bytes = gradient_bytes
        modules = self._modules(name)
        again_of: dict[tuple[str, ...], Any] = {}
        sums: dict[tuple[int, ...], Any] = {}
        for word in self.words:
            inner = {one for name_ in word for one in ALONG.get(name_, (name_,))}
            again = tuple(
                at
                for at, (key, _) in enumerate(modules)
                if name in ("dense", "experts", "own") and (FULL in word or key in inner)
            )
            if again not in sums:
                sums[again] = self._seen(modules[at][1].forward for at in again)
            again_of[word] = sums[again]
        forward = self._seen(module.forward for _, module in modules)
        inputs = self._seen(module.inputs for _, module in modules)
        return UnitSeconds(forward, inputs, sum(module.weights for _, module in modules) + self._zero(), again_of)

    def _zero(self) -> Any:
        import numpy as np

        return np.zeros(len(self.keys.tensor))

    def _seen(self, sheets: Iterable[Sheet]) -> Any:
        """The sum of sheets, without what is hidden."""
        total: Sheet = dict.fromkeys(PARTS, self._zero())
        for sheet in sheets:
            for part, seconds in sheet.items():
                total[part] = total[part] + seconds
        rates = self.rates
        alone = total["products"] + total["attention"] + total["memory"]
        sent = exposed(total["tensor"], rates.tensor_hidden, total["products"])
        sent = sent + exposed(total["context"], rates.context_hidden, total["attention"])
        return alone + sent + exposed(total["expert"], rates.expert_hidden, total["products"])

    # ---- the modules of a unit ------------------------------------------------------------------------------

    def _modules(self, name: UnitType) -> list[tuple[str, _Module]]:
        h = self.model.hidden
        if name == "embedding":
            module = _Module()
            self._traffic(module, 4 * h * self.tokens, 10 * h * self.tokens)
            self._among_tensor(module, 2 * h * self.tokens, (1, 1), (1, 0))
            return [("embedding", module)]
        if name == "head":
            return self._head()
        if name != "prediction":
            return self._layer(name == "experts")
        first = _Module()
        self._product(first, self.tokens, h / self.keys.tensor, 2 * h)
        self._among_tensor(first, 4 * h * self.tokens, (1, 2), (0, 1))
        return [("projection", first), *self._norms(2), *self._layer(self.model.experts is not None), *self._head()]

    def _norms(self, count: int, name: str = "norm") -> list[tuple[str, _Module]]:
        module = _Module()
        for _ in range(count):
            self._traffic(module, 4 * self.model.hidden * self.between, 6 * self.model.hidden * self.between)
        return [(name, module)]

    def _head(self) -> list[tuple[str, _Module]]:
        module, words = _Module(), self.model.vocabulary / self.keys.tensor
        self._product(module, self.tokens, words, self.model.hidden, short=True)
        self._traffic(module, 8 * self.tokens * words, 4 * self.tokens * words)
        self._among_tensor(module, 2 * self.model.hidden * self.tokens, (1, 2), (0, 1))
        return [*self._norms(int(self.model.final_norm)), ("head", module)]

    def _layer(self, with_experts: bool) -> list[tuple[str, _Module]]:
        sums = _Module()
        for _ in range(2):
            size = (6 + self.problem.dropout) * self.model.hidden * self.between
            self._traffic(sums, size, size)
        after = self._with_experts() if with_experts else [("mlp", self._dense_mlp())]
        latent = self.model.attention is not None and self.model.attention.latent
        apart = int(latent) + int(with_experts and self.model.norms > 1)
        norms = [*self._norms(apart, "layernorm"), *self._norms(self.model.norms - apart)]
        return [*norms, ("residual", sums), *self._attention(), *after]

    # ---- attention ------------------------------------------------------------------------------------------

    def _attention(self) -> list[tuple[str, _Module]]:
        attention = self.model.attention
        assert attention is not None, "a model of shapes has attention"
        heads, h = attention.heads / self.keys.tensor, self.model.hidden
        pairs = heads if attention.latent else self.keys.key_value_heads(self.problem)
        size = attention.head_size + attention.rope_size
        output = _Module()
        self._product(output, self.tokens, h, heads * attention.values)
        before = self._from_latents(heads, size) if attention.latent else self._from_hidden(heads, pairs)
        return [*before, ("core_attn", self._core(heads, pairs, size)), ("output", output)]

    def _from_hidden(self, heads: Any, pairs: Any) -> list[tuple[str, _Module]]:
        attention, module = self.model.attention, _Module()
        assert attention is not None, "a model of shapes has attention"
        turned = self.tokens * (heads + pairs) * attention.head_size
        columns = (heads + pairs) * attention.head_size + pairs * attention.values
        self._product(module, self.tokens, columns, self.model.hidden)
        self._traffic(module, 4 * turned, 4 * turned)
        if attention.query_key_norm:
            self._traffic(module, 4 * turned, 6 * turned)
        self._among_tensor(module, 2 * self.model.hidden * self.tokens, (2, 3), (1, 1))
        return [("queries", module)]

    def _from_latents(self, heads: Any, size: int) -> list[tuple[str, _Module]]:
        attention, down, up = self.model.attention, _Module(), _Module()
        assert attention is not None, "a model of shapes has attention"
        h, rank, keys = self.model.hidden, attention.query_rank, attention.key_value_rank or 0
        self._product(down, self.between, keys + attention.rope_size, h)
        if rank:
            self._product(down, self.between, rank, h)
        self._product(up, self.tokens, heads * size, rank or h)
        self._product(up, self.tokens, heads * (attention.head_size + attention.values), keys)
        self._traffic(up, 8 * self.tokens * heads * size, 8 * self.tokens * heads * size)
        self._among_tensor(down, 2 * ((rank or h) + keys + attention.rope_size) * self.tokens, (1, 2), (0, 0))
        self._among_tensor(down, 2 * h * self.tokens, (1, 1), (1, 1))
        return [("latents", down), ("mla_up_proj", up)]

    def _core(self, heads: Any, pairs: Any, size: int) -> _Module:
        attention, module, s = self.model.attention, _Module(), self.problem.sequence
        assert attention is not None, "a model of shapes has attention"
        both = size + attention.values
        if not self.problem.flash_attention:
            count = heads * self.keys.micro_batch / self.keys.context
            self._product(module, s, s, size, count, short=True, weights=False)
            self._product(module, s, attention.values, s, count, short=True, weights=False)
            extra = 5 * self.problem.dropout
            self._traffic(module, (4 + extra) * count * s * s, (6 + extra) * count * s * s)
            return module
        keys, window = s / 2, attention.window
        if window is not None and window < s:
            share = attention.windowed_share
            keys = (1 - share) * keys + share * (window - window * window / (2 * s))
        seconds = 2 * self.tokens * keys * heads * both / (self.rates.attention * self.short_peak)
        launch = self.rates.launch_seconds
        _add(module.forward, "attention", seconds + launch)
        _add(module.inputs, "attention", ATTENTION_BACKWARD * seconds + 2 * launch)
        ring = self._cluster.groups(self.keys.tensor, self.keys.context)
        once = 2 * self.tokens * self.keys.context * pairs * both * ring.ring + ring.latency
        once = once + self._begun(self.keys.context)
        _add(module.forward, "context", once)
        _add(module.inputs, "context", 2 * once)
        return module

    # ---- what follows it ------------------------------------------------------------------------------------

    def _dense_mlp(self, hidden: int | None = None, gated: bool | None = None) -> _Module:
        module, mlp, h = _Module(), self.model.mlp, self.model.hidden
        if hidden is None or gated is None:
            assert mlp is not None, "a layer without experts has an MLP"
            hidden, gated = mlp.hidden, mlp.gated
        inner = hidden / self.keys.tensor
        self._product(module, self.tokens, (1 + gated) * inner, h)
        self._product(module, self.tokens, h, inner)
        self._activation(module, self.tokens * inner, gated)
        self._among_tensor(module, 2 * h * self.tokens, (2, 3), (1, 1))
        return module

    def _activation(self, module: _Module, numbers: Any, gated: bool) -> None:
        forward, backward = (6, 10) if gated else (4, 6)
        self._traffic(module, forward * numbers, backward * numbers)

    def _with_experts(self) -> list[tuple[str, _Module]]:
        experts, keys, h = self.model.experts, self.keys, self.model.hidden
        assert experts is not None, "a layer with experts has them"
        module, activation = _Module(), _Module()
        count = experts.count / keys.expert
        copies = self.rates.expert_imbalance * self.between * experts.per_token
        rows, inner = copies * keys.expert_tensor / count, experts.hidden / keys.expert_tensor
        self._product(module, self.between, experts.count, h, short=True)
        moved = 12 * experts.per_token * h * self.between
        self._traffic(module, moved, moved, launches=4)
        self._product(module, rows, (1 + experts.gated) * inner, h, count, grouped=True)
        self._product(module, rows, h, inner, count, grouped=True)
        self._activation(activation, rows * inner * count, experts.gated)
        group = self._cluster.groups(keys.expert_tensor, keys.expert)
        sent = 2 * (2 * copies * h * group.exchange + group.latency + self._begun(keys.expert))
        inside = self._cluster.groups(1, keys.expert_tensor)
        within = 2 * copies * h * keys.expert_tensor * inside.ring + inside.latency
        sent = sent + 2 * (within + self._begun(keys.expert_tensor))
        _add(module.forward, "expert", sent)
        _add(module.inputs, "expert", sent)
        modules = [("moe", module), ("moe_act", activation)]
        if experts.shared_hidden:
            modules.append(("shared_experts", self._dense_mlp(experts.shared_hidden, experts.gated)))
        return modules

    # ---- seconds --------------------------------------------------------------------------------------------

    def _product(
        self,
        module: _Module,
        rows: Any,
        columns: Any,
        inner: Any,
        count: Any = 1,
        *,
        grouped: bool = False,
        short: bool = False,
        weights: bool = True,
    ) -> None:
        """Forward, and the two products of the way back; `short`: in sixteen bits where others are in eight."""
        import numpy as np

        rates, eight = self.rates, self.problem.precision == "fp8" and not short
        share = rates.grouped_products if grouped else rates.products
        if eight:
            share = min(rates.grouped_products, rates.products_fp8) if grouped else rates.products_fp8
        peak = self.problem.peak if eight else self.short_peak
        work = (
            2
            * count
            * (rows * columns * inner + rates.half_side * (columns * inner + rows * inner + rows * columns))
        )
        busy, launch = work / (share * peak), rates.launch_seconds

        def seconds(weight_bytes: float) -> Any:
            size = count * (2 * rows * (columns + inner) + weight_bytes * columns * inner)
            return np.maximum(busy, size / self.memory_rate) + launch

        _add(module.forward, "products", seconds(2))
        _add(module.inputs, "products", seconds(2))
        if eight:
            _add(module.forward, "memory", 4 * count * rows * inner / self.memory_rate + launch)
            _add(module.inputs, "memory", 4 * count * rows * columns / self.memory_rate + launch)
        if weights:
            module.weights = module.weights + seconds(2 * self.gradient_bytes)
        else:
            _add(module.inputs, "products", seconds(2))

    def _traffic(self, module: _Module, forward: Any, backward: Any, launches: int = 1) -> None:
        launch = launches * self.rates.launch_seconds
        _add(module.forward, "memory", forward / self.memory_rate + launch)
        _add(module.inputs, "memory", backward / self.memory_rate + launch)

    def _begun(self, ranks: Any) -> Any:
        """Seconds of one collective beside its bytes and latencies; a rank alone has none."""
        return self.rates.collective_seconds * (ranks > 1)

    def _among_tensor(self, module: _Module, size: Any, divided: tuple[int, int], whole: tuple[int, int]) -> None:
        """Gathers where tokens are divided between products, else sums over all tensor ranks."""
        once = size * self._tensor.ring + self._tensor.latency
        if not self.divides:
            once = 2 * once
        once = once + self._begun(self.keys.tensor)
        forward, backward = divided if self.divides else whole
        _add(module.forward, "tensor", forward * once)
        _add(module.inputs, "tensor", backward * once)


def _add(sheet: Sheet, part: str, seconds: Any) -> None:
    sheet[part] = sheet[part] + seconds if part in sheet else seconds
