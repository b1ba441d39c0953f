"""What one pass of one unit takes, derived from the model's shapes alone.

A unit is a few *modules*, and a module is a list of products of matrices, attention, traffic of memory and
collectives. Amounts are those of one rank for one micro-batch. With t, c, e, t_e the degrees tensor, context, expert
and expert tensor, b the micro-batch, s the sequence, h the hidden size, V the vocabulary, a heads, k key-value heads:

    S         s b / c, tokens of a rank between its collectives
    S1        S / t with sequence parallelism, else S: tokens of norms, residuals, routers and latents
    k_r       max(k / t, 1), key-value heads of a rank
    q_s, v_s  sizes of a head's queries (positions included) and of its values

**A product** of (M x K) with (K x N), G times, has its forward pass and two of the same size backwards, one for its
inputs and one for its weights. Each takes

    max(2 G M N K (1 + half_side (1/M + 1/N + 1/K)) / (share peak), bytes / (memory rate)) + launch_seconds

where bytes = 2 G (M N + N K + M K), and 2 G (M N + M K) + 2 g G N K in the pass for weights, which adds up gradients
of g bytes. The share is `products`, `grouped_products` for experts, `products_fp8` where the problem is in fp8 (the
peak is then that of fp8), and the smaller of the last two for experts in fp8. Routers and heads stay in 16 bits. In
fp8 each product has traffic for the conversion besides: 4 G M K bytes forward and 4 G M N in the pass for inputs.

**Attention** takes 2 S n (a / t) (q_s + v_s) operations forward. n is the mean number of keys that a token sees: s /
2, and w - w^2 / (2 s) in layers with a window of w < s tokens. It takes operations / (`attention` x peak in 16 bits)
+ launch_seconds; backward 2.5 times the operations and twice the launch. Without flash attention there are two
products, (M, N, K, G) = (s, s, q_s, a b / (t c)) and (s, v_s, s, a b / (t c)), both of whose backward passes are for
inputs, and traffic of 4 bytes forward and 6 backward for each of the a b s^2 / (t c) entries, 5 more each with
dropout.

**Traffic** of B bytes takes B / (memory rate) + launch_seconds. Forward and backward bytes:

    norm                    (4, 6) h S1 for each of the layer's norms; module "layernorm"
    residual                (6, 6) h S1, twice a layer; 1 more each with dropout
    positions of q and k    4 S (a / t + k_r) q_s in both; of latent attention 8 S (a / t) q_s in both
    norm of q and k         (4, 6) S (a / t + k_r) q_s where the model has it
    activation              (6, 10) S f / t gated, (4, 6) S f / t not gated, f the hidden size of the MLP
    moving tokens           12 topk h S1 in both, in four steps: four times launch_seconds
    embedding               (4, 10) h S
    loss                    (8, 4) S V / t

**Products**, as (M, N, K):

    queries, keys, values   (S, (a / t) q_s + k_r (q_s + v_s), h)
    output of attention     (S, h, a v_s / t)
    latent attention        (S1, q_rank, h), (S, (a / t) q_s, q_rank), or (S, (a / t) q_s, h) without q_rank;
                            (S1, kv_rank + rope, h), (S, (a / t) (head_size + v_s), kv_rank)
    MLP                     (S, 2 f / t, h) gated, else (S, f / t, h); (S, h, f / t)
    router                  (S1, experts, h)
    experts                 (M, 2 f_e / t_e, h), (M, h, f_e / t_e); G = experts / e, M = imbalance S1 topk t_e / G
    head                    (S, V / t, h)
    prediction              (S, h / t, 2 h), two norms, then a layer of the last type, then a head

**Collectives** over a group of n ranks, V bytes in all. A gather is an all-gather or a reduce-scatter and takes (n -
1) / n V / (links x bandwidth) + latency; an all-reduce twice that; an all-to-all, where each rank has V bytes, the
largest of V (1 - inside / n) / (links x bandwidth) over crossed levels, + latency. Each has collective_seconds
besides (not those of gradients and weights in `seconds`). A group is (stride, n). Its ranks `inside` one group of the
level below are 1 on the lowest level, else min(n, max(1, D // stride)) with D the GPUs of that group. A level is
crossed where the next one's inside (n above the highest) is larger. Rings use all links of a node: the bandwidth is
the least of inside x bandwidth over crossed levels. latency: sum of (inside of the next level / inside - 1) alpha
over crossed levels. Strides, innermost first: tensor 1, context t, expert tensor 1, expert t_e; data and pipeline in
`seconds`.

    tensor      with sequence parallelism gathers (forward, backward times): attention and MLP (shared experts, too)
                2 h S (2, 3), since what went in is gathered again for the weights; latent attention
                2 (q_rank or h + kv_rank + rope) S (1, 2) and 2 h S (1, 1); embedding 2 h S (1, 1); head 2 h S (1, 2);
                prediction 4 h S (1, 2), beside its layer and head. Without it all-reduces: attention and MLP 2 h S
                (1, 1), embedding 2 h S (1, 0), head 2 h S (0, 1), prediction 4 h S (0, 1)
    context     gather of all keys and values, 2 S c k_r (q_s + v_s) bytes, for latent attention a / t in place of k_r
                (1, 2): they travel in a ring, and their gradients come back with them
    expert      all-to-all of 2 imbalance S1 topk h bytes (2, 2); with t_e > 1 gathers of t_e times as many over the
                expert tensor ranks besides (2, 2)

Backward collectives belong to the pass for inputs. Norms, biases, and the sum of tied embeddings that lie on two
stages cost nothing.

**Hidden**: of a pass's communication x of one class x - min(hidden x, y) is left; y is the time of the products of
the same unit's pass for tensor and expert, of its attention for context.

**Recomputation** adds a forward pass of what is computed again: whole layers with everything; `core_attn` is
attention with its context collective, `mla_up_proj` the products from latents and the positions, `moe_act` the
activation of experts, `moe` router, moving, experts and shared experts; `layernorm`, `mlp` and `shared_experts` are
what they say, each with its collectives. `layernorm` computes the norms that stand alone, before latent attention
and before experts; others are one kernel with the product behind them. What is hidden of these is counted for what is
computed again alone.

Layers with measured times take those of their tensor degree and the nearest micro-batch (the smaller one of two), in
proportion to the micro-batch; half of their backward pass is for weights, and whatever recomputation is asked for
runs all forward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Literal

from ...base.errors import InputError
from ...physics.kernels import ATTENTION_BACKWARD, HALF
from ..model import INSIDE, Attention, MeasuredTime, Mlp, OwnLayer, UnitType
from ..plan import FULL, Configuration
from ..problem import TrainingProblem

Over = Literal["tensor", "context", "expert", "expert_tensor"]


# ---- what is done --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Product:
    """`count` products of a (rows x inner) matrix with an (inner x columns) matrix."""

    rows: float
    columns: float
    inner: float
    count: float = 1
    grouped: bool = False
    half: bool = False
    """Does it stay in sixteen bits where others are in fp8?"""
    weights: bool = True
    """Is one side a weight? Else both backward passes are for inputs."""

    def operations(self, half_side: float = 0.0) -> float:
        """Operations of a pass; with `half_side` as many as take as long on sides without end."""
        m, n, k = self.rows, self.columns, self.inner
        return 2 * self.count * m * n * k * (1 + half_side * (1 / m + 1 / n + 1 / k))

    def moved_bytes(self, gradient_bytes: float | None = None) -> float:
        """Bytes of a pass; in that for weights gradients are added up, of so many bytes each."""
        weight = HALF if gradient_bytes is None else 2 * gradient_bytes
        m, n, k = self.rows, self.columns, self.inner
        return self.count * (HALF * (m * n + m * k) + weight * n * k)


@dataclass(frozen=True, slots=True)
class Attend:
    """Attention without its matrix: operations of a forward pass."""

    operations: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """What norms, activations and the like read and write."""

    forward_bytes: float
    backward_bytes: float
    launches: int = 1


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective over a group of ranks, which the passes run `forward` and `backward` times."""

    kind: Literal["gather", "all-reduce", "all-to-all"]
    over: Over
    size_bytes: float
    forward: int
    backward: int


Item = Product | Attend | Traffic | Collective


@dataclass(frozen=True, slots=True)
class Module:
    """Work that belongs together, and can be computed again together."""

    name: str
    items: tuple[Item, ...]


# ---- seconds by part -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parts:
    """Seconds by what they are for; of communication, what is exposed."""

    products: float = 0.0
    attention: float = 0.0
    memory: float = 0.0
    tensor: float = 0.0
    context: float = 0.0
    expert: float = 0.0
    data: float = 0.0
    measured: float = 0.0
    """Seconds of layers whose times were measured."""

    def __add__(self, other: Parts) -> Parts:
        return Parts(
            self.products + other.products,
            self.attention + other.attention,
            self.memory + other.memory,
            self.tensor + other.tensor,
            self.context + other.context,
            self.expert + other.expert,
            self.data + other.data,
            self.measured + other.measured,
        )

    @property
    def total(self) -> float:
        communication = self.tensor + self.context + self.expert + self.data
        return self.products + self.attention + self.memory + communication + self.measured


PART_NAMES = tuple(entry.name for entry in fields(Parts))
NOTHING = Parts()


def sum_of(parts: Iterable[Parts]) -> Parts:
    total = NOTHING
    for part in parts:
        total += part
    return total


@dataclass(frozen=True, slots=True)
class PassTimes:
    """Times of one micro-batch through one unit or chunk."""

    forward: Parts = NOTHING
    inputs: Parts = NOTHING
    """The backward pass for inputs."""
    weights: Parts = NOTHING
    again: Parts = NOTHING
    """Recomputation, before the backward pass."""

    def __add__(self, other: PassTimes) -> PassTimes:
        return PassTimes(
            self.forward + other.forward,
            self.inputs + other.inputs,
            self.weights + other.weights,
            self.again + other.again,
        )

    @property
    def backward_seconds(self) -> float:
        return self.inputs.total + self.weights.total + self.again.total


# ---- groups of ranks -----------------------------------------------------------------------------------


class Links:
    """Collectives on the levels of a cluster."""

    def __init__(self, problem: TrainingProblem) -> None:
        self.levels, self.share = problem.levels, problem.efficiencies.links
        self.sizes = [1]
        for level in self.levels:
            self.sizes.append(self.sizes[-1] * level.count)

    def inside(self, stride: int, count: int, level: int) -> int:
        """Ranks of the group in one group of the level below."""
        return 1 if level == 0 else min(count, max(1, self.sizes[level] // stride))

    def crossed(self, stride: int, count: int) -> list[int]:
        """The levels whose links the group uses."""
        inside = [self.inside(stride, count, i) for i in range(len(self.levels))]
        return [i for i in range(len(self.levels)) if inside[i] < (inside[i + 1] if i + 1 < len(inside) else count)]

    def latency(self, stride: int, count: int) -> float:
        seconds = 0.0
        for i in self.crossed(stride, count):
            above = self.inside(stride, count, i + 1) if i + 1 < len(self.levels) else count
            seconds += (above / self.inside(stride, count, i) - 1) * self.levels[i].latency_seconds
        return seconds

    def gather(self, size_bytes: float, stride: int, count: int) -> float:
        """Seconds of an all-gather or a reduce-scatter of so many bytes in all."""
        if count <= 1:
            return 0.0
        rate = min(self.inside(stride, count, i) * self.levels[i].bandwidth for i in self.crossed(stride, count))
        return (count - 1) / count * size_bytes / (self.share * rate) + self.latency(stride, count)

    def exchange(self, size_bytes: float, stride: int, count: int) -> float:
        """Seconds of an all-to-all in which each rank has so many bytes."""
        if count <= 1:
            return 0.0
        slowest = max(
            size_bytes * (1 - self.inside(stride, count, i) / count) / (self.share * self.levels[i].bandwidth)
            for i in self.crossed(stride, count)
        )
        return slowest + self.latency(stride, count)

    def send(self, size_bytes: float, source: int, target: int) -> float:
        """Seconds of a message from one rank to another."""
        if source == target:
            return 0.0
        i = next(i for i, size in enumerate(self.sizes[1:]) if source // size == target // size)
        return size_bytes / (self.share * self.levels[i].bandwidth) + self.levels[i].latency_seconds


# ---- a unit as modules ---------------------------------------------------------------------------------


class Shapes:
    """The modules of each type of unit, for one micro-batch on one rank."""

    def __init__(self, problem: TrainingProblem, plan: Configuration) -> None:
        self.problem, self.model, self.degrees = problem, problem.model, plan.degrees
        self.micro_batch = plan.micro_batch
        self.t, self.c = self.degrees.tensor, self.degrees.context
        self.tokens = problem.sequence * plan.micro_batch / self.c
        self.divided = problem.sequence_parallel and self.t > 1
        self.own_tokens = self.tokens / self.t if self.divided else self.tokens

    def of(self, unit: UnitType) -> tuple[Module, ...]:
        h = self.model.hidden
        if unit == "embedding":
            gather = self._collective("tensor", HALF * h * self.tokens, (1, 1), (1, 0))
            return (Module("embedding", (Traffic(4 * h * self.tokens, 10 * h * self.tokens), *gather)),)
        if unit == "head":
            return self._head()
        if unit == "prediction":
            return self._prediction()
        return self._layer(unit)

    def _layer(self, unit: UnitType) -> tuple[Module, ...]:
        residual = 6 + self.problem.dropout
        rest = tuple(Traffic(residual * self._wide, residual * self._wide) for _ in range(2))
        after = self._experts() if unit == "experts" else self._dense()
        latent = self.model.attention is not None and self.model.attention.latent
        apart = latent + (unit == "experts" and self.model.norms > 1)
        norms = (*self._norms(apart, "layernorm"), *self._norms(self.model.norms - apart))
        return (*norms, Module("residual", rest), *self._attention(), *after)

    @property
    def _wide(self) -> float:
        """Numbers of a hidden state that norms see."""
        return self.model.hidden * self.own_tokens

    def _norms(self, count: int, name: str = "norm") -> tuple[Module, ...]:
        return tuple(Module(name, (Traffic(4 * self._wide, 6 * self._wide),)) for _ in range(count))

    def _collective(
        self, over: Over, size_bytes: float, divided: tuple[int, int], whole: tuple[int, int]
    ) -> tuple[Collective, ...]:
        """Collectives over tensor ranks: gathers with sequence parallelism, all-reduces without."""
        if self.t == 1:
            return ()
        if self.divided:
            return (Collective("gather", over, size_bytes, *divided),)
        return (Collective("all-reduce", over, size_bytes, *whole),) if any(whole) else ()

    # ---- attention

    def _attention(self) -> tuple[Module, ...]:
        own = self.model.attention
        assert own is not None, "a model of shapes has attention"
        before = self._latent(own) if own.latent else self._grouped_query(own)
        output = Product(self.tokens, self.model.hidden, own.heads * own.values / self.t)
        return (*before, Module("core_attn", self._core(own)), Module("output", (output,)))

    def _grouped_query(self, own: Attention) -> tuple[Module, ...]:
        h, heads, size = self.model.hidden, own.heads / self.t, own.head_size
        pairs = max(own.key_value_heads / self.t, 1)
        rotated = self.tokens * (heads + pairs) * size
        items: list[Item] = [
            Product(self.tokens, heads * size + pairs * (size + own.values), h),
            Traffic(4 * rotated, 4 * rotated),
        ]
        if own.query_key_norm:
            items.append(Traffic(4 * rotated, 6 * rotated))
        items += self._collective("tensor", HALF * h * self.tokens, (2, 3), (1, 1))
        return (Module("queries", tuple(items)),)

    def _latent(self, own: Attention) -> tuple[Module, ...]:
        h, heads, rank, keys = self.model.hidden, own.heads / self.t, own.query_rank, own.key_value_rank
        assert keys is not None, "latent attention has a rank"
        size = own.head_size + own.rope_size
        down = [Product(self.own_tokens, keys + own.rope_size, h)]
        if rank:
            down.append(Product(self.own_tokens, rank, h))
        rotated = 8 * self.tokens * heads * size
        up = (
            Product(self.tokens, heads * size, rank or h),
            Product(self.tokens, heads * (own.head_size + own.values), keys),
            Traffic(rotated, rotated),
        )
        latent = HALF * ((rank or h) + keys + own.rope_size) * self.tokens
        sent = (
            *self._collective("tensor", latent, (1, 2), (0, 0)),
            *self._collective("tensor", HALF * h * self.tokens, (1, 1), (1, 1)),
        )
        return (Module("latents", (*down, *sent)), Module("mla_up_proj", up))

    def _core(self, own: Attention) -> tuple[Item, ...]:
        heads, size = own.heads / self.t, own.head_size + own.rope_size
        if not self.problem.flash_attention:
            return self._plain_core(heads, size, own.values)
        work = 2 * self.tokens * self._keys(own) * heads * (size + own.values)
        if self.c == 1:
            return (Attend(work),)
        pairs = heads if own.latent else max(own.key_value_heads / self.t, 1)
        ring = HALF * self.tokens * self.c * pairs * (size + own.values)
        return (Attend(work), Collective("gather", "context", ring, 1, 2))

    def _plain_core(self, heads: float, size: int, values: int) -> tuple[Item, ...]:
        s = self.problem.sequence
        count, extra = heads * self.micro_batch / self.c, 5 * self.problem.dropout
        entries = count * s * s
        return (
            Product(s, s, size, count, half=True, weights=False),
            Product(s, values, s, count, half=True, weights=False),
            Traffic((4 + extra) * entries, (6 + extra) * entries),
        )

    def _keys(self, own: Attention) -> float:
        """Number of keys that a token sees on average."""
        s, w = self.problem.sequence, own.window
        if w is None or w >= s:
            return s / 2
        return (1 - own.windowed_share) * s / 2 + own.windowed_share * (w - w * w / (2 * s))

    # ---- what follows it

    def _feed_forward(
        self, gated: bool, rows: float, columns: float, count: float = 1, grouped: bool = False
    ) -> tuple[Product, Traffic, Product]:
        """Two products with the activation between them."""
        h = self.model.hidden
        numbers = rows * columns * count
        forward, backward = (6, 10) if gated else (4, 6)
        return (
            Product(rows, (2 if gated else 1) * columns, h, count, grouped),
            Traffic(forward * numbers, backward * numbers),
            Product(rows, h, columns, count, grouped),
        )

    def _mlp(self, hidden: float, gated: bool) -> tuple[Item, ...]:
        h = self.model.hidden
        items = self._feed_forward(gated, self.tokens, hidden / self.t)
        return (*items, *self._collective("tensor", HALF * h * self.tokens, (2, 3), (1, 1)))

    def _dense(self) -> tuple[Module, ...]:
        mlp = self.model.mlp
        assert isinstance(mlp, Mlp), "a layer without experts has an MLP"
        return (Module("mlp", self._mlp(mlp.hidden, mlp.gated)),)

    def _experts(self) -> tuple[Module, ...]:
        experts, h = self.model.experts, self.model.hidden
        assert experts is not None, "a layer with experts has them"
        e, t_e = self.degrees.expert, self.degrees.expert_tensor
        copies = self.problem.efficiencies.expert_imbalance * self.own_tokens * experts.per_token
        count = experts.count / e
        first, activation, second = self._feed_forward(
            experts.gated, copies * t_e / count, experts.hidden / t_e, count, grouped=True
        )
        moved = 12 * experts.per_token * self._wide
        moving: list[Item] = [
            Product(self.own_tokens, experts.count, h, half=True),
            Traffic(moved, moved, launches=4),
        ]
        if e > 1:
            moving.append(Collective("all-to-all", "expert", HALF * copies * h, 2, 2))
        if t_e > 1:
            moving.append(Collective("gather", "expert_tensor", HALF * copies * h * t_e, 2, 2))
        modules = [Module("moe", (*moving, first, second)), Module("moe_act", (activation,))]
        if experts.shared_hidden:
            modules.append(Module("shared_experts", self._mlp(experts.shared_hidden, experts.gated)))
        return tuple(modules)

    # ---- the ends

    def _head(self) -> tuple[Module, ...]:
        h, v = self.model.hidden, self.model.vocabulary / self.t
        logits = self.tokens * v
        items: tuple[Item, ...] = (
            Product(self.tokens, v, h, half=True),
            Traffic(8 * logits, 4 * logits),
            *self._collective("tensor", HALF * h * self.tokens, (1, 2), (0, 1)),
        )
        return (*self._norms(int(self.model.final_norm)), Module("head", items))

    def _prediction(self) -> tuple[Module, ...]:
        h = self.model.hidden
        last: UnitType = "dense" if self.model.experts is None else "experts"
        items: tuple[Item, ...] = (
            Product(self.tokens, h / self.t, 2 * h),
            *self._collective("tensor", 2 * HALF * h * self.tokens, (1, 2), (0, 1)),
        )
        return (Module("projection", items), *self._norms(2), *self._layer(last), *self._head())


def computed_again(modules: tuple[Module, ...], names: tuple[str, ...]) -> tuple[Module, ...]:
    """The modules whose forward pass runs again."""
    if FULL in names:
        return modules
    wanted = {*names, *(inner for name in names for inner in INSIDE.get(name, ()))}
    return tuple(module for module in modules if module.name in wanted)


# ---- seconds -------------------------------------------------------------------------------------------


class Clock:
    """Seconds of passes: of modules, of measured layers, and of what is sent."""

    def __init__(self, problem: TrainingProblem, plan: Configuration) -> None:
        self.problem, self.plan, self.degrees = problem, plan, plan.degrees
        self.efficiencies, self.links = problem.efficiencies, Links(problem)
        self.shapes = Shapes(problem, plan)
        self.half_peak = problem.gpu.flops["fp16" if problem.precision == "fp16" else "bf16"]
        self.memory_rate = self.efficiencies.memory * problem.gpu.memory_rate
        gradients = problem.states[plan.zero].gradients
        self.gradient_bytes = gradients.whole + gradients.shared
        d = self.degrees
        self.groups = {
            "tensor": (1, d.tensor),
            "context": (d.tensor, d.context),
            "expert": (d.expert_tensor, d.expert),
            "expert_tensor": (1, d.expert_tensor),
        }

    def unit(self, unit: UnitType, position: int, again: tuple[str, ...]) -> PassTimes:
        """Times of one unit; `position` is its place in the model's row, `again` what it computes again."""
        if unit == "own":
            return self._measured(self.problem.model.own[position], again)
        modules = self.shapes.of(unit)
        layer = unit not in ("embedding", "head")
        repeated = computed_again(modules, again) if layer else ()
        return PassTimes(
            self._exposed(self._sum(modules, self._forward)),
            self._exposed(self._sum(modules, self._inputs)),
            self._sum(modules, self._weights),
            self._exposed(self._sum(repeated, self._forward)),
        )

    def _measured(self, layer: OwnLayer, again: tuple[str, ...]) -> PassTimes:
        """Backward passes are divided in the middle; recomputation is of whole layers."""
        entry, scale = measured_time(layer, self.degrees.tensor, self.plan.micro_batch)
        forward, backward = Parts(measured=scale * entry.forward_seconds), scale * entry.backward_seconds / 2
        half = Parts(measured=backward)
        return PassTimes(forward, half, half, forward if again else NOTHING)

    @staticmethod
    def _sum(modules: Iterable[Module], of: Callable[[Item], Parts]) -> Parts:
        return sum_of(of(item) for module in modules for item in module.items)

    def _forward(self, item: Item) -> Parts:
        match item:
            case Product():
                return self._product(item, 4 * item.rows * item.inner)
            case Attend():
                return Parts(attention=self._attention(item.operations, 1))
            case Traffic():
                return self._traffic(item.forward_bytes, item.launches)
            case Collective():
                return self._collective(item, item.forward)

    def _inputs(self, item: Item) -> Parts:
        match item:
            case Product():
                parts = self._product(item, 4 * item.rows * item.columns)
                return parts if item.weights else parts + self._product(item, 0)
            case Attend():
                return Parts(attention=self._attention(ATTENTION_BACKWARD * item.operations, 2))
            case Traffic():
                return self._traffic(item.backward_bytes, item.launches)
            case Collective():
                return self._collective(item, item.backward)

    def _weights(self, item: Item) -> Parts:
        if not isinstance(item, Product) or not item.weights:
            return NOTHING
        return self._product(item, 0, self.gradient_bytes)

    def _product(self, item: Product, converted_bytes: float, gradient_bytes: float | None = None) -> Parts:
        efficiencies, fp8 = self.efficiencies, self.problem.precision == "fp8" and not item.half
        shares = [efficiencies.grouped_products] if item.grouped else [] if fp8 else [efficiencies.products]
        share = min([*shares, efficiencies.products_fp8] if fp8 else shares)
        peak = self.problem.peak if fp8 else self.half_peak
        arithmetic = item.operations(efficiencies.half_side) / (share * peak)
        seconds = max(arithmetic, item.moved_bytes(gradient_bytes) / self.memory_rate) + efficiencies.launch_seconds
        if not (fp8 and converted_bytes):
            return Parts(products=seconds)
        return Parts(products=seconds, memory=self._traffic(item.count * converted_bytes, 1).memory)

    def _attention(self, operations: float, launches: int) -> float:
        efficiencies = self.efficiencies
        return operations / (efficiencies.attention * self.half_peak) + launches * efficiencies.launch_seconds

    def _traffic(self, size_bytes: float, launches: int) -> Parts:
        return Parts(memory=size_bytes / self.memory_rate + launches * self.efficiencies.launch_seconds)

    def _collective(self, item: Collective, times: int) -> Parts:
        stride, count = self.groups[item.over]
        if item.kind == "all-to-all":
            seconds = self.links.exchange(item.size_bytes, stride, count)
        else:
            seconds = self.links.gather(item.size_bytes, stride, count) * (2 if item.kind == "all-reduce" else 1)
        seconds += self.efficiencies.collective_seconds if count > 1 else 0.0
        part = "expert" if item.over == "expert_tensor" else item.over
        return Parts(**{part: times * seconds})

    def _exposed(self, raw: Parts) -> Parts:
        efficiencies = self.efficiencies
        return Parts(
            raw.products,
            raw.attention,
            raw.memory,
            exposed(raw.tensor, efficiencies.tensor_hidden, raw.products),
            exposed(raw.context, efficiencies.context_hidden, raw.attention),
            exposed(raw.expert, efficiencies.expert_hidden, raw.products),
        )


def exposed(seconds: float, hidden: float, behind: float) -> float:
    """What is left of communication when a share of it is hidden, no more than there is to hide it behind."""
    return seconds - min(hidden * seconds, behind)


def measured_time(layer: OwnLayer, tensor: int, micro_batch: int) -> tuple[MeasuredTime, float]:
    """The entry with that tensor degree and the nearest micro-batch, and by how much to multiply it."""
    entries = [entry for entry in layer.times if entry.tensor == tensor]
    if not entries:
        have = ", ".join(str(x) for x in sorted({entry.tensor for entry in layer.times}))
        raise InputError(
            "degrees.tensor", f"is {tensor}, for which {layer.name} was not measured", f"give one of {have}"
        )
    entry = min(entries, key=lambda entry: (abs(entry.micro_batch - micro_batch), entry.micro_batch))
    return entry, micro_batch / entry.micro_batch
