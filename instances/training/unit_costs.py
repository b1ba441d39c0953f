"""What one type of unit costs a rank: seconds of a micro-batch, parameters, bytes that are kept; computed here alone.

Everything is in columns, with a row for each choice of degrees: the search asks for thousands of rows at once, and the
referee for one. `tests/oracles/training_costs.py` computes the same from this text, one unit at a time and in plain
Python, and a test holds both together. To change what a unit costs, change the text, this file and that one.

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
of g bytes; a framework that adds gradients up in kernels of their own moves `added_bytes` G N K besides. The share is
`products`, `grouped_products` for experts, `products_fp8` where the problem is in fp8 (the peak is then that of fp8),
and the smaller of the last two for experts in fp8. Routers and heads stay in 16 bits. In
fp8 each product has traffic for the conversion besides: 4 G M K bytes forward and 4 G M N in the pass for inputs.

**Attention** takes 2 S n (a / t) (q_s + v_s) operations forward. n is the mean number of keys that a token sees: s /
2, and w - w^2 / (2 s) in layers with a window of w < s tokens. Where documents are packed into sequences, it is the
mean of that over all tokens, with the length of a token's document in place of s. Attention takes operations /
(`attention` x peak in 16 bits) + launch_seconds; backward 2.5 times the operations and twice the launch. Without flash
attention there are two products, (M, N, K, G) = (s, s, q_s, a b / (t c)) and (s, v_s, s, a b / (t c)), both of whose
backward passes are for
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

Norms move `norm_traffic` times as many; residuals, positions and activations `elementwise_traffic` times; the matrix
of attention, where it is kept, `softmax_traffic` times; the loss `loss_traffic` times.

**The host** starts kernels while the GPU runs earlier ones. A unit's forward pass takes at least `host_seconds` times
its kernels: products, attention, traffic (moving tokens four) and collectives among more than one rank, each once. Its
backward pass, with the one for weights, takes at least as long; where the two are apart, the one for inputs alone does.
So does the recomputation of modules for theirs. What is missing to that is the part `host`, in the pass for inputs.
In a framework with `in_step` whose pipeline spans nodes, passes that are not computed again take t host_seconds more
for each of their collectives among t > 1 tensor ranks (the times below, forward and backward).

**Products**, as (M, N, K):

    queries, keys, values   (S, (a / t) q_s + k_r (q_s + v_s), h)
    output of attention     (S, h, a v_s / t)
    latent attention        (S1, q_rank, h), (S, (a / t) q_s, q_rank), or (S, (a / t) q_s, h) without q_rank;
                            (S1, kv_rank + rope, h), (S, (a / t) (head_size + v_s), kv_rank)
    MLP                     (S, 2 f / t, h) gated, else (S, f / t, h); (S, h, f / t)
    router                  (S1, experts, h)
    patches                 (S', h', patch), without a pass for inputs
    projector               (I, w / t, in), (I, h, w / t); with one product (I, h / t, in)
    experts                 (M, 2 f_e / t_e, h), (M, h, f_e / t_e); G = experts / e, M = imbalance S1 topk t_e / G
    head                    (S, V / t, h)
    prediction              (S, h / t, 2 h), two norms, then a layer of the last type, then a head

**An encoder** stands before the embedding. Its letters have a mark, and its layers cost what dense layers do: h' its
hidden size, a' heads, as many key-value heads, f' for f, S' = patches b, where patches are those of all images of a
sequence, and n the patches of one image, or w in layers with windows of w patches. Its bytes are counted so, too. The
unit of patches has traffic of (4, 10) h' S' besides its product. The projector is part of the embedding's unit: it
reads I = S' / merged tokens of in = merged h' numbers each (h' where their mean is read), and between its two products
of width w it has an activation that is not gated. It has no products for adapters, and its products stay in 16 bits.
Where the encoder is frozen, or where adapters alone are trained, its units and patches have no backward pass at all: no
collective, no recomputation, nothing on the host. With adapters neither has the projector.

**Collectives** over a group of n ranks, V bytes in all. A level's bandwidth counts by the share `links`, above the
lowest level by links x network. A gather is an all-gather or a reduce-scatter and takes (n - 1) / n V / bandwidth +
latency; an all-reduce twice that; an all-to-all, where each rank has V bytes, the largest of V (1 - inside / n) /
bandwidth over crossed levels, + latency. Each has collective_seconds besides (not those of gradients and weights in
`iteration.py`). A group is (stride, n). Its ranks `inside` one
group of the level below are 1 on the lowest level, else min(n, max(1, D // stride)) with D the GPUs of that group. A
level is crossed where the next one's inside (n above the highest) is larger. Rings use all links of a node: the
bandwidth is the least of inside x bandwidth over crossed levels. latency: sum of (inside of the next level / inside -
1) alpha over crossed levels. Strides, innermost first: tensor 1, context t, expert tensor 1, expert t_e.

    tensor      with sequence parallelism gathers (forward, backward times): attention and MLP (shared experts, too)
                2 h S (2, 3), since what went in is gathered again for the weights; latent attention
                2 (q_rank or h + kv_rank + rope) S (1, 2) and 2 h S (1, 1); embedding 2 h S (1, 1); head 2 h S (1, 2);
                prediction 4 h S (1, 2), beside its layer and head. Without it all-reduces: attention and MLP 2 h S
                (1, 1), embedding 2 h S (1, 0), head 2 h S (0, 1), prediction 4 h S (0, 1);
                projector gathers of 2 in I (2, 3) or all-reduces of 2 in I (1, 1), forward alone with adapters
    context     gather of all keys and values, 2 S c k_r (q_s + v_s) bytes, for latent attention a / t in place of k_r
                (1, 2): they travel in a ring, and their gradients come back with them
    expert      all-to-all of 2 imbalance S1 topk h bytes (2, 2); with t_e > 1 gathers of t_e times as many over the
                expert tensor ranks besides (2, 2)

**Adapters** of rank r (LoRA): products of attention, MLP and shared experts in layers, (M, N, K) each, have two more in
16 bits, (M, r, K) and (M, N, r). Only these have a pass for weights; all other weights are frozen, and the embedding
has no backward pass.

Backward collectives belong to the pass for inputs. Norms, biases, and the sum of tied embeddings that lie on two
stages cost nothing.

**Hidden**: of a pass's communication x of one class x - min(hidden x, y) is left; y is the time of the products of
the same unit's pass for tensor, of its attention for context, and for expert what tensor leaves of the products. So no
pass gets shorter where anything in it gets longer, and what is hidden lies in the same pass.

**Recomputation** adds a forward pass of what is computed again: whole layers with everything; `core_attn` is
attention with its context collective, `mla_up_proj` the products from latents and the positions, `moe_act` the
activation of experts, `moe` router, moving, experts and shared experts; `layernorm`, `mlp` and `shared_experts` are
what they say, each with its collectives. `layernorm` computes the norms that stand alone, before latent attention
and before experts; others are one kernel with the product behind them. What is hidden of these is counted for what is
computed again alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ..physics.efficiencies import ATTENTION_BACKWARD, HALF, Efficiencies
from .lengths import mean_over_tokens
from .model import INSIDE, Attention, Experts, Mlp, Model, UnitType
from .plan import FULL
from .problem import Level, TrainingProblem

if TYPE_CHECKING:
    import numpy as np

    Column = np.ndarray[Any, np.dtype[Any]]


# What the seconds of a pass are for, in the order of rows; of communication it is what nothing hides.
PARTS = ("products", "attention", "memory", "tensor", "context", "expert", "host")
# Types of units whose modules can be computed again.
LAYERS = ("encoder", "dense", "experts", "own")


@dataclass(frozen=True)
class Keys:
    """Degrees in columns: what one micro-batch costs a rank depends on nothing else of a choice."""

    tensor: Column
    context: Column
    expert: Column
    expert_tensor: Column
    micro_batch: Column

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, int, int, int]]) -> Keys:
        """From rows of (tensor, context, expert, expert tensor, micro-batch)."""
        import numpy as np

        table = np.array(list(rows), np.int64).reshape(-1, 5)
        return cls(*(table[:, i].copy() for i in range(5)))

    def tokens(self, problem: TrainingProblem) -> Any:
        """Tokens of one micro-batch on one context rank."""
        return problem.sequence * self.micro_batch / self.context

    def tokens_between(self, problem: TrainingProblem) -> Any:
        """The same on one tensor rank between products."""
        tokens = self.tokens(problem)
        return tokens / self.tensor if problem.sequence_parallel else tokens

    def key_value_heads(self, heads: int) -> Any:
        """Those of one rank; where tensor ranks outnumber them, each rank has a copy of one."""
        import numpy as np

        return np.maximum(1.0, heads / self.tensor)


# ---- links -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Groups:
    """What collectives of each group of ranks cost: seconds per byte, and seconds once."""

    passed: Column
    """Share of what is gathered, or added up and scattered, that each rank passes on in a ring."""
    rate: Column
    """Bytes a second in a ring."""
    exchange: Column
    """Seconds for each byte that every rank has for all the others and for itself."""
    latency: Column
    """Seconds once, however few bytes are sent."""

    @property
    def ring(self) -> Any:
        """Seconds for each byte that is gathered, or added up and scattered, in a ring."""
        return self.passed / self.rate

    def gather(self, size: Any) -> Any:
        """Seconds to gather so many bytes in all, or to add them up and scatter them."""
        return self.passed * size / self.rate + self.latency


class Cluster:
    """The levels of links among ranks, with the bandwidths that collectives reach."""

    def __init__(self, levels: Sequence[Level], rates: Efficiencies) -> None:
        shares = [rates.links, *(rates.links * rates.network for _ in levels[1:])]
        self.levels = tuple(
            replace(level, bandwidth=share * level.bandwidth) for level, share in zip(levels, shares, strict=True)
        )
        self.sizes = [1]
        for level in self.levels:
            self.sizes.append(self.sizes[-1] * level.count)

    def groups(self, stride: Any, count: Any) -> Groups:
        """Costs of the collectives of groups of every `stride`-th rank, `count` of them; a rank alone sends nothing."""
        import numpy as np

        stride, count = np.broadcast_arrays(np.asarray(stride), np.asarray(count))
        inside = [np.ones_like(count)]
        inside += [np.minimum(count, np.maximum(1, size // stride)) for size in self.sizes[1:-1]]
        inside.append(count)
        rate = np.full(count.shape, np.inf)
        slowest, latency = np.zeros(count.shape), np.zeros(count.shape)
        for i, level in enumerate(self.levels):
            below, above = inside[i], inside[i + 1]
            crosses = below < above
            rate = np.where(crosses, np.minimum(rate, below * level.bandwidth), rate)
            sent = (1 - below / count) / level.bandwidth
            slowest = np.where(crosses, np.maximum(slowest, sent), slowest)
            latency = latency + np.where(crosses, (above / below - 1) * level.latency_seconds, 0)
        return Groups((count - 1) / count, rate, slowest, latency)

    def message(self, source: int, target: int) -> tuple[float, float]:
        """Seconds per byte and seconds once of a message from one rank to another."""
        if source == target:
            return 0.0, 0.0
        i = next(i for i, size in enumerate(self.sizes[1:]) if source // size == target // size)
        return 1 / self.levels[i].bandwidth, self.levels[i].latency_seconds


def exposed(seconds: Any, share: float, behind: Any) -> Any:
    """What is left of communication, a share of which is hidden as far as there is anything to hide it behind."""
    import numpy as np

    return seconds - np.minimum(share * seconds, behind)


# ---- units -----------------------------------------------------------------------------------------------


class Product(NamedTuple):
    """Products of matrices of (rows x inner) with (inner x columns), `count` of them."""

    rows: Any
    columns: Any
    inner: Any
    count: Any
    grouped: bool

    def operations(self, half_side: float = 0.0) -> Any:
        """Operations of a pass; with `half_side` as many as take as long on sides without end."""
        m, n, k = self.rows, self.columns, self.inner
        return 2 * self.count * m * n * k * (1 + half_side * (1 / m + 1 / n + 1 / k))

    def moved_bytes(self, weight_bytes: float = HALF) -> Any:
        """Bytes of a pass; each number of the weights, or of their gradients, moves so many."""
        return self.count * (
            HALF * (self.rows * (self.columns + self.inner)) + weight_bytes * self.columns * self.inner
        )


class Attend(NamedTuple):
    """Attention in one kernel, of so many operations forward."""

    operations: Any


class Traffic(NamedTuple):
    """Bytes between a GPU and its memory."""

    forward_bytes: Any
    backward_bytes: Any
    launches: int


class Module:
    """Seconds by part of what can be computed again together; `inputs` is the backward pass without the gradients of
    weights, which is `weights`. `items` are the kernels, from which profiles are made."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.items: list[Product | Attend | Traffic] = []
        self.forward: list[tuple[str, Any]] = []
        self.inputs: list[tuple[str, Any]] = []
        self.weights: list[Any] = []
        self.sums = (0, 0)
        """Collectives among tensor ranks, forward and backward."""

    def add(self, part: str, forward: Any, inputs: Any) -> None:
        self.forward.append((part, forward))
        self.inputs.append((part, inputs))


@dataclass(frozen=True)
class UnitSeconds:
    """Seconds of one type of unit for one micro-batch, in columns."""

    forward: Any
    """[part, row]."""
    inputs: Any
    """[part, row]: the backward pass without the gradients of weights."""
    weights: Any
    """[row]: products alone."""
    again: Mapping[tuple[str, ...], Any]
    """[row]: seconds to compute again, by the modules that are."""
    host: Any
    """[way, row]: seconds of the host for each pass, of which `forward` and `inputs` have what is missing to it."""
    late: Any
    """[way, row]: how much longer hosts of tensor ranks that wait for each other take, forward and backward."""

    @property
    def only_forward(self) -> UnitSeconds:
        """The same without a backward pass."""
        import numpy as np

        again = {word: 0.0 * seconds for word, seconds in self.again.items()}
        ways = np.array([[1.0], [0.0]])
        return replace(
            self,
            inputs=0.0 * self.inputs,
            weights=0.0 * self.weights,
            again=again,
            host=ways * self.host,
            late=ways * self.late,
        )


class SecondsOfUnits:
    """Seconds of the units of a model with shapes; gradients of weights are added up in `gradient_bytes` bytes."""

    def __init__(
        self, problem: TrainingProblem, keys: Keys, gradient_bytes: float, words: Iterable[tuple[str, ...]] = ()
    ) -> None:
        assert problem.model.attention is not None, "a model of shapes has attention"
        self.problem, self.model, self.attention, self.keys = problem, problem.model, problem.model.attention, keys
        self.gradient_bytes, self.words, self.rates = gradient_bytes, tuple(words), problem.efficiencies
        self.memory_rate = self.rates.memory * problem.gpu.memory_rate
        self.short_peak = problem.gpu.flops["fp16" if problem.precision == "fp16" else "bf16"]
        self.tokens, self.between = keys.tokens(problem), keys.tokens_between(problem)
        self.cluster = Cluster(problem.levels, self.rates)

    def unit(self, name: UnitType) -> UnitSeconds:
        """Seconds of a type of unit."""
        own = self._of_encoder.all_passes("dense") if name == "encoder" else self.all_passes(name)
        return own.only_forward if self.problem.only_forward(name) else own

    @cached_property
    def _of_encoder(self) -> SecondsOfUnits:
        return SecondsOfUnits(self.problem.of_encoder, self.keys, self.gradient_bytes, self.words)

    def all_passes(self, name: UnitType) -> UnitSeconds:
        """The same where it is trained."""
        import numpy as np

        modules = self.modules(name)
        by_modules: dict[tuple[int, ...], Any] = {}
        host = [self.rates.host_seconds * self._kernels(own) for own in modules]
        again = {}
        for word in self.words:
            held = {*word, *(inner for module in word for inner in INSIDE.get(module, ()))}
            which = tuple(
                i for i, own in enumerate(modules) if name in LAYERS and (FULL in word or own.name in held)
            )
            if which not in by_modules:
                seconds = self._seen(modules[i].forward for i in which).sum(axis=0)
                by_modules[which] = np.maximum(seconds, sum(host[i] for i in which))
            again[word] = by_modules[which]
        forward, inputs = (self._seen(getattr(own, way) for own in modules) for way in ("forward", "inputs"))
        weights = np.zeros(len(self.tokens)) + sum(seconds for own in modules for seconds in own.weights)
        forward[-1] = np.maximum(0, sum(host) - forward.sum(axis=0))
        inputs[-1] = np.maximum(0, sum(host) - inputs.sum(axis=0) - weights)
        ranks = self.rates.host_seconds * self.keys.tensor * (self.keys.tensor > 1)
        late = np.stack([ranks * sum(own.sums[way] for own in modules) for way in (0, 1)])
        return UnitSeconds(forward, inputs, weights, again, np.zeros((2, len(self.tokens))) + sum(host), late)

    def _kernels(self, module: Module) -> Any:
        """Kernels of a forward pass, collectives among them, in columns; backward passes have as many on the host."""
        groups = {"tensor": self.keys.tensor, "context": self.keys.context}
        groups["expert"] = self.keys.expert * self.keys.expert_tensor
        launches = sum(item.launches if isinstance(item, Traffic) else 1 for item in module.items)
        return launches + sum(groups[part] > 1 for part, _ in module.forward if part in groups)

    def _seen(self, works: Iterable[Iterable[tuple[str, Any]]]) -> Any:
        """[part, row]: the sum of what modules do, without what is hidden."""
        import numpy as np

        total = np.zeros((len(PARTS), len(self.tokens)))
        for work in works:
            for part, seconds in work:
                total[PARTS.index(part)] += seconds
        products, attention, _, tensor, context, expert, _ = total
        hidden = np.minimum(self.rates.tensor_hidden * tensor, products)
        total[3] = tensor - hidden
        total[4] = exposed(context, self.rates.context_hidden, attention)
        total[5] = exposed(expert, self.rates.expert_hidden, products - hidden)
        return total

    # ---- the modules of a unit ------------------------------------------------------------------------------

    def modules(self, name: UnitType) -> list[Module]:
        """What a unit consists of, in the order in which it runs."""
        h = self.model.hidden
        if name == "embedding":
            embedding, is_trained = Module("embedding"), self.problem.adapter_rank is None
            self._traffic(embedding, 4 * h * self.tokens, is_trained * 10 * h * self.tokens)
            self._among_tensor(embedding, HALF * h * self.tokens, (1, is_trained), (1, 0))
            return [embedding, *self._projector()]
        if name == "patches":
            return self._patches()
        if name == "head":
            return self._head()
        if name != "prediction":
            return self._layer(name == "experts")
        projection = Module("projection")
        self._product(projection, self.tokens, h / self.keys.tensor, 2 * h, adapted=False)
        self._among_tensor(projection, 2 * HALF * h * self.tokens, (1, 2), (0, 1))
        return [projection, self._norms(2), *self._layer(self.model.experts is not None), *self._head()]

    def _patches(self) -> list[Module]:
        own, patches = self.model.encoder, Module("patches")
        assert own is not None, "patches are those of an encoder"
        tokens = own.patches * self.keys.micro_batch
        self._product(patches, tokens, own.hidden, own.patch, short=True, adapted=False)
        patches.inputs.clear()
        self._traffic(patches, 4 * own.hidden * tokens, 10 * own.hidden * tokens)
        return [patches]

    def _projector(self) -> list[Module]:
        """From the encoder's output to tokens of the text."""
        own, h, t = self.model.encoder, self.model.hidden, self.keys.tensor
        if own is None:
            return []
        projector, tokens = Module("projector"), own.text_tokens * self.keys.micro_batch
        is_trained, inner = self.problem.adapter_rank is None, own.inner(h)
        self._product(projector, tokens, (inner or h) / t, own.joined, short=True, adapted=False)
        if inner:
            self._activation(projector, tokens * inner / t, gated=False)
            self._product(projector, tokens, h, inner / t, short=True, adapted=False)
        self._among_tensor(projector, HALF * own.joined * tokens, (2, 3 * is_trained), (1, is_trained))
        if not is_trained:
            projector.inputs.clear()
        return [projector]

    def _norms(self, count: int, name: str = "norm") -> Module:
        norms = Module(name)
        for _ in range(count):
            size = self.model.hidden * self.between
            self._traffic(norms, 4 * size, 6 * size, factor=self.rates.norm_traffic)
        return norms

    def _head(self) -> list[Module]:
        head, words = Module("head"), self.model.vocabulary / self.keys.tensor
        self._product(head, self.tokens, words, self.model.hidden, short=True, adapted=False)
        self._traffic(head, 8 * self.tokens * words, 4 * self.tokens * words, factor=self.rates.loss_traffic)
        self._among_tensor(head, HALF * self.model.hidden * self.tokens, (1, 2), (0, 1))
        return [self._norms(int(self.model.final_norm)), head]

    def _layer(self, with_experts: bool) -> list[Module]:
        residuals = Module("residual")
        size = (6 + self.problem.dropout) * self.model.hidden * self.between
        for _ in range(2):
            self._traffic(residuals, size, size, factor=self.rates.elementwise_traffic)
        if with_experts:
            after = self._experts()
        else:
            assert self.model.mlp is not None, "a layer without experts has an MLP"
            after = [self._mlp("mlp", self.model.mlp.hidden, self.model.mlp.gated)]
        apart = self.attention.latent + (with_experts and self.model.norms > 1)
        norms = [self._norms(apart, "layernorm"), self._norms(self.model.norms - apart)]
        return [*norms, residuals, *self._attention(), *after]

    # ---- attention ------------------------------------------------------------------------------------------

    def _attention(self) -> list[Module]:
        own, output = self.attention, Module("output")
        heads, size = own.heads / self.keys.tensor, own.head_size + own.rope_size
        pairs = heads if own.latent else self.keys.key_value_heads(own.key_value_heads)
        self._product(output, self.tokens, self.model.hidden, heads * own.values)
        before = self._from_latents(heads, size) if own.latent else [self._from_hidden(heads, pairs)]
        return [*before, self._core(heads, pairs, size), output]

    def _from_hidden(self, heads: Any, pairs: Any) -> Module:
        own, queries, h = self.attention, Module("queries"), self.model.hidden
        turned = self.tokens * (heads + pairs) * own.head_size
        self._product(queries, self.tokens, heads * own.head_size + pairs * (own.head_size + own.values), h)
        self._traffic(queries, 4 * turned, 4 * turned, factor=self.rates.elementwise_traffic)
        if own.query_key_norm:
            self._traffic(queries, 4 * turned, 6 * turned, factor=self.rates.norm_traffic)
        self._among_tensor(queries, HALF * h * self.tokens, (2, 3), (1, 1))
        return queries

    def _from_latents(self, heads: Any, size: int) -> list[Module]:
        own, down, up, h = self.attention, Module("latents"), Module("mla_up_proj"), self.model.hidden
        rank, keys = own.query_rank, own.key_value_rank or 0
        self._product(down, self.between, keys + own.rope_size, h)
        if rank:
            self._product(down, self.between, rank, h)
        self._product(up, self.tokens, heads * size, rank or h)
        self._product(up, self.tokens, heads * (own.head_size + own.values), keys)
        turned = 8 * self.tokens * heads * size
        self._traffic(up, turned, turned, factor=self.rates.elementwise_traffic)
        self._among_tensor(down, HALF * ((rank or h) + keys + own.rope_size) * self.tokens, (1, 2), (0, 0))
        self._among_tensor(down, HALF * h * self.tokens, (1, 1), (1, 1))
        return [down, up]

    def _core(self, heads: Any, pairs: Any, size: int) -> Module:
        own, core, s = self.attention, Module("core_attn"), self.problem.sequence
        if not self.problem.flash_attention:
            count, extra = heads * self.keys.micro_batch / self.keys.context, 5 * self.problem.dropout
            self._product(core, s, s, size, count, short=True, weights=False)
            self._product(core, s, own.values, s, count, short=True, weights=False)
            entries = count * s * s
            self._traffic(core, (4 + extra) * entries, (6 + extra) * entries, factor=self.rates.softmax_traffic)
            return core
        keys = mean_over_tokens(self.problem.lengths, s, own.keys_seen)
        work = 2 * self.tokens * keys * heads * (size + own.values)
        core.items.append(Attend(work))
        seconds, launch = work / (self.rates.attention * self.short_peak), self.rates.launch_seconds
        core.add("attention", seconds + launch, ATTENTION_BACKWARD * seconds + 2 * launch)
        ring = self.cluster.groups(self.keys.tensor, self.keys.context)
        gathered = HALF * self.tokens * self.keys.context * pairs * (size + own.values)
        once = ring.gather(gathered) + self._begun(self.keys.context)
        core.add("context", once, 2 * once)
        return core

    # ---- what follows it ------------------------------------------------------------------------------------

    def _mlp(self, name: str, hidden: int, gated: bool) -> Module:
        mlp, h, inner = Module(name), self.model.hidden, hidden / self.keys.tensor
        self._product(mlp, self.tokens, (1 + gated) * inner, h)
        self._activation(mlp, self.tokens * inner, gated)
        self._product(mlp, self.tokens, h, inner)
        self._among_tensor(mlp, HALF * h * self.tokens, (2, 3), (1, 1))
        return mlp

    def _activation(self, module: Module, numbers: Any, gated: bool) -> None:
        forward, backward = (6, 10) if gated else (4, 6)
        self._traffic(module, forward * numbers, backward * numbers, factor=self.rates.elementwise_traffic)

    def _experts(self) -> list[Module]:
        experts, keys, h = self.model.experts, self.keys, self.model.hidden
        assert isinstance(experts, Experts), "a layer with experts has them"
        moe, activation = Module("moe"), Module("moe_act")
        count = experts.count / keys.expert
        copies = self.rates.expert_imbalance * self.between * experts.per_token
        rows, inner = copies * keys.expert_tensor / count, experts.hidden / keys.expert_tensor
        moved = 12 * experts.per_token * h * self.between
        self._product(moe, self.between, experts.count, h, short=True, adapted=False)
        self._traffic(moe, moved, moved, launches=4)
        self._product(moe, rows, (1 + experts.gated) * inner, h, count, grouped=True, adapted=False)
        self._product(moe, rows, h, inner, count, grouped=True, adapted=False)
        self._activation(activation, rows * inner * count, experts.gated)
        group = self.cluster.groups(keys.expert_tensor, keys.expert)
        exchanged = HALF * copies * h * group.exchange + group.latency + self._begun(keys.expert)
        shards = self.cluster.groups(1, keys.expert_tensor)
        gathered = shards.gather(HALF * copies * h * keys.expert_tensor) + self._begun(keys.expert_tensor)
        sent = 2 * exchanged + 2 * gathered
        moe.add("expert", sent, sent)
        if not experts.shared_hidden:
            return [moe, activation]
        return [moe, activation, self._mlp("shared_experts", experts.shared_hidden, experts.gated)]

    # ---- seconds --------------------------------------------------------------------------------------------

    def _product(
        self,
        module: Module,
        rows: Any,
        columns: Any,
        inner: Any,
        count: Any = 1,
        *,
        grouped: bool = False,
        short: bool = False,
        weights: bool = True,
        adapted: bool = True,
        is_adapter: bool = False,
    ) -> None:
        """Forward, and the two products of the way back; `short`: in sixteen bits where others are in eight. With
        adapters, this product has them if it is `adapted`, and only they have a pass for weights."""
        import numpy as np

        rates, eight = self.rates, self.problem.precision == "fp8" and not short
        share = rates.grouped_products if grouped else rates.products
        if eight:
            share = min(rates.grouped_products, rates.products_fp8) if grouped else rates.products_fp8
        product = Product(rows, columns, inner, count, grouped)
        module.items.append(product)
        busy = product.operations(rates.half_side) / (share * (self.problem.peak if eight else self.short_peak))

        def seconds(weight_bytes: float) -> Any:
            return np.maximum(busy, product.moved_bytes(weight_bytes) / self.memory_rate) + rates.launch_seconds

        module.add("products", seconds(HALF), seconds(HALF))
        if eight:
            self._traffic(module, 4 * count * rows * inner, 4 * count * rows * columns)
        rank = self.problem.adapter_rank
        if not weights:
            module.add("products", 0.0, seconds(HALF))
        elif rank is None or is_adapter:
            added = product.count * product.inner * product.columns * self.problem.rules.added_bytes
            module.weights.append(seconds(2 * self.gradient_bytes) + added / self.memory_rate)
        elif adapted:
            self._product(module, rows, rank, inner, short=True, is_adapter=True)
            self._product(module, rows, columns, rank, short=True, is_adapter=True)

    def _traffic(self, module: Module, forward: Any, backward: Any, launches: int = 1, factor: float = 1.0) -> None:
        forward, backward = factor * forward, factor * backward
        module.items.append(Traffic(forward, backward, launches))
        launch = launches * self.rates.launch_seconds
        module.add("memory", forward / self.memory_rate + launch, backward / self.memory_rate + launch)

    def _begun(self, ranks: Any) -> Any:
        """Seconds of one collective beside its bytes and latencies; a rank alone has none."""
        return self.rates.collective_seconds * (ranks > 1)

    @cached_property
    def _tensor(self) -> Groups:
        return self.cluster.groups(1, self.keys.tensor)

    def _among_tensor(self, module: Module, size: Any, divided: tuple[int, int], whole: tuple[int, int]) -> None:
        """Gathers where tokens are divided between products, else sums over all tensor ranks."""
        divides = self.problem.sequence_parallel
        once = self._tensor.gather(size) * (1 if divides else 2)
        once = once + self._begun(self.keys.tensor)
        forward, backward = divided if divides else whole
        module.add("tensor", forward * once, backward * once)
        module.sums = (module.sums[0] + forward, module.sums[1] + backward)


# ---- parameters ----------------------------------------------------------------------------------------
#
# What a rank has of each type of unit: its parameters, and the bytes that passes keep, both in columns. The oracle
# counts the same from `docs/training-memory.md`. To change what a unit keeps, change that page as well.
#
# Numbers are those of one rank. `S` is the tokens of a micro-batch on one context rank, t the tensor degree. Where
# sequence parallelism divides the tokens between products, tensors there have `S / t` tokens, else `S`.

# Units whose passes run attention and what follows it.
WITH_ATTENTION = ("dense", "experts", "prediction")


@dataclass(frozen=True)
class UnitParameters:
    """Parameters of one type of unit on a rank, in columns."""

    shapes: tuple[tuple[Any, Any], ...]
    """Rows and columns of the weights that are multiplied with activations, those of experts apart."""
    expert_shapes: tuple[tuple[Any, Any], ...]
    """The same of one expert."""
    others: Any
    """Parameters of vectors and tables and of the router."""
    expert_others: Any
    """Parameters of one expert that are in none of its shapes."""
    local: Any
    """Experts of the rank."""
    shared: Any
    """Parameters that data-parallel ranks send each other: of products and tables, without norms and biases."""
    adapters: Any = None
    """Parameters of adapters, which alone are trained then; None: all parameters are trained."""

    @property
    def usual(self) -> Any:
        """All parameters but those of experts."""
        return self.others + _numbers(self.shapes)

    @property
    def experts(self) -> Any:
        return self.local * (_numbers(self.expert_shapes) + self.expert_others)

    @property
    def shared_experts(self) -> Any:
        return self.local * _numbers(self.expert_shapes)

    # What is trained and what is not, and what of both data-parallel ranks send each other; those of experts apart.

    @property
    def trained(self) -> Any:
        return self.usual if self.adapters is None else self.adapters

    @property
    def trained_experts(self) -> Any:
        return self.experts if self.adapters is None else 0.0

    @property
    def frozen(self) -> Any:
        return 0.0 if self.adapters is None else self.usual

    @property
    def frozen_experts(self) -> Any:
        return 0.0 if self.adapters is None else self.experts

    @property
    def sent(self) -> Any:
        return self.shared if self.adapters is None else self.adapters

    @property
    def sent_experts(self) -> Any:
        return self.shared_experts if self.adapters is None else 0.0

    @property
    def gathered(self) -> Any:
        return self.shared if self.adapters is None else self.shared + self.adapters


def _numbers(shapes: Iterable[tuple[Any, Any]]) -> Any:
    return sum(rows * columns for rows, columns in shapes)


def unit_parameters(
    model: Model, keys: Keys, name: UnitType, adapter_rank: int | None = None, *, frozen: bool = False
) -> UnitParameters:
    """Parameters of a type of unit, with adapters beside all shapes of a layer but those of experts and of the
    projection before a prediction; the head of a tied model has no table of words of its own. A `frozen` unit has
    none that are trained."""
    own = _all_parameters(model, keys, name)
    if frozen:
        return replace(own, adapters=0.0 * keys.tensor)
    if adapter_rank is None:
        return own
    adapted = own.shapes[: 0 if name in ("embedding", "head") else None]
    sizes = sum(rows + columns for rows, columns in adapted)
    if name == "prediction":
        sizes = sizes - (model.hidden / keys.tensor + 2 * model.hidden)
    return replace(own, adapters=adapter_rank * sizes + 0.0 * keys.tensor)


def _all_parameters(model: Model, keys: Keys, name: UnitType) -> UnitParameters:
    t, h, width = keys.tensor, model.hidden, model.embedding_size or model.hidden
    if name in ("patches", "encoder"):
        return _parameters_of_encoder(model, keys, name)
    projection = [(width, h)] if width != h else []
    table = table_parameters(model, t)
    if name == "embedding":
        (shapes, biases), tables = _projector(model, t), table + model.positions * h
        return UnitParameters((*projection, *shapes), (), tables + biases, 0.0, 0.0, tables + _numbers(shapes))
    if name == "head":
        head = [] if model.tied else [(model.vocabulary / t, width)]
        others = norm_parameters(model, h) * model.final_norm + model.head_bias * model.vocabulary / t
        return UnitParameters((*projection, *head), (), others, 0.0, 0.0, model.vocabulary / t * h)
    assert model.attention is not None, "a model of shapes has attention"
    shapes, others = _attention(model, model.attention, keys)
    others = others + model.norms * norm_parameters(model, h)
    if name == "prediction":
        shapes.append((h / t, 2 * h))
        others = others + 3 * norm_parameters(model, h)
    if not has_experts(model, name):
        assert model.mlp is not None, "a dense layer has an MLP"
        more, biases = _mlp(h, model.mlp, t)
        shapes += more
        return UnitParameters(tuple(shapes), (), others + biases, 0.0, 0.0, _numbers(shapes))
    own = experts_of(model)
    expert_shapes, biases = _mlp(h, Mlp(own.hidden, own.gated, own.bias), keys.expert_tensor)
    router = own.count * h
    others = others + router + own.count * own.router_bias + h * own.shared_gate
    if own.shared_hidden:
        shapes += _mlp(h, Mlp(own.shared_hidden, own.gated), t)[0]
    sent = router + _numbers(shapes)
    return UnitParameters(tuple(shapes), tuple(expert_shapes), others, biases, own.count / keys.expert, sent)


def table_parameters(model: Model, tensor: Any) -> Any:
    """Parameters of the table of words on one tensor rank."""
    return model.vocabulary / tensor * (model.embedding_size or model.hidden)


def _parameters_of_encoder(model: Model, keys: Keys, name: UnitType) -> UnitParameters:
    """What makes vectors of patches, whole on every tensor rank, or a layer."""
    own = model.encoder
    assert own is not None, "only an encoder has these units"
    if name == "patches":
        size = own.hidden * own.patch
        return UnitParameters(((own.hidden, own.patch),), (), own.vectors * own.hidden, 0.0, 0.0, size)
    layer = _all_parameters(own.model, keys, "dense")
    return replace(layer, others=layer.others + own.layer_vectors * own.hidden)


def _projector(model: Model, shards: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """Shapes and biases of the projector; one product alone has no bias."""
    own, h = model.encoder, model.hidden
    if own is None:
        return [], 0.0
    inner = own.inner(h)
    if not inner:
        return [(h / shards, own.joined)], 0.0
    return [(inner / shards, own.joined), (h, inner / shards)], inner / shards + h


def has_experts(model: Model, name: UnitType) -> bool:
    return name == "experts" or (name == "prediction" and model.experts is not None)


def experts_of(model: Model) -> Experts:
    assert model.experts is not None, "a layer with experts has them"
    return model.experts


def norm_parameters(model: Model, size: int) -> int:
    """A norm has a factor for each number; a norm that centres also has a shift for each."""
    return size if model.norm == "rms" else 2 * size


def _attention(model: Model, own: Attention, keys: Keys) -> tuple[list[tuple[Any, Any]], Any]:
    """Shapes, and parameters that are in none. Latent attention: products that lead down to a rank are whole on every
    tensor rank, those that lead up are divided by heads."""
    h, heads = model.hidden, own.heads / keys.tensor
    output, bias = (h, heads * own.values), h * own.output_bias
    if own.key_value_rank is None:
        pairs = keys.key_value_heads(own.key_value_heads)
        rows = (heads + pairs) * own.head_size + pairs * own.values
        norms = 2 * norm_parameters(model, own.head_size) * own.query_key_norm
        return [(rows, h), output], rows * own.bias + bias + norms + heads * own.sinks
    queries, width = heads * (own.head_size + own.rope_size), own.key_value_rank + own.rope_size
    shapes = [(width, h), (heads * (own.head_size + own.values), own.key_value_rank), output]
    others = width * own.bias + norm_parameters(model, own.key_value_rank) + bias
    if own.query_rank is None:
        return [(queries, h), *shapes], others
    others += own.query_rank * own.bias + norm_parameters(model, own.query_rank)
    return [(own.query_rank, h), (queries, own.query_rank), *shapes], others


def _mlp(h: int, mlp: Mlp, shards: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """Shapes and biases."""
    inner = mlp.hidden / shards
    rows = (1 + mlp.gated) * inner
    return [(rows, h), (h, inner)], (rows + h) * mlp.bias


def count_of(model: Model, unit: UnitType) -> int:
    """Parameters of one unit of that type, whole."""
    import numpy as np

    own = unit_parameters(model, Keys.of([(1, 1, 1, 1, 1)]), unit)
    return round(float(np.sum(own.usual)) + float(np.sum(own.experts)))
