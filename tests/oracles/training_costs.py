"""What units of a training model cost and hold, one unit of one configuration at a time, from the definitions alone.

Written in plain Python from the texts of `instances/training/unit_costs.py`, `instances/training/cases.py` and
`docs/training-memory.md`. It shares nothing with the product but the types of problems and plans, the facts of
`instances/physics`, and what a framework hides.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from pipeplan.instances.physics.efficiencies import ATTENTION_BACKWARD, HALF, SINGLE, TOKEN_COPIES, WORKSPACE_BYTES
from pipeplan.instances.physics.optimizers import GATHERED_UNITS, update_bytes
from pipeplan.instances.training.frameworks import hidden_shares
from pipeplan.instances.training.plan import Configuration
from pipeplan.instances.training.problem import TrainingProblem

Word = tuple[str, ...]
ATTENDING = ("dense", "experts", "prediction")


class Definitions:
    """A configuration of a model with shapes, by the letters of the texts."""

    def __init__(self, problem: TrainingProblem, plan: Configuration) -> None:
        self.p, self.m, self.plan, self.rates = problem, problem.model, plan, problem.efficiencies
        d = plan.degrees
        self.t, self.c, self.e, self.te = d.tensor, d.context, d.expert, d.expert_tensor
        self.S = problem.sequence * plan.micro_batch / self.c
        self.S1 = self.S / self.t if problem.sequence_parallel else self.S
        self.h, self.V = self.m.hidden, self.m.vocabulary / self.t
        self.a: Any = self.m.attention
        self.heads, self.q = self.a.heads / self.t, self.a.head_size + self.a.rope_size
        self.k = self.heads if self.a.latent else max(self.a.key_value_heads / self.t, 1)
        states = problem.states[plan.zero]
        self.gradient = states.gradients.whole + states.gradients.shared
        self.memory_rate = self.rates.memory * problem.gpu.memory_rate
        self.groups = {
            "tensor": (1, self.t), "context": (self.t, self.c), "expert": (self.te, self.e),
            "expert_tensor": (1, self.te),
        }  # fmt: skip
        self.seen: float | None = None
        """Keys that each patch of an image sees."""
        self.replicas = ((self.t, self.c * d.data), (self.te * self.e, d.stage_ranks // (self.te * self.e)))

    # ---- a vision encoder: the same letters with a mark ----------------------------------------------------------

    def marked(self) -> Definitions:
        """The definitions in which each letter is that of the encoder, whose layers are dense ones."""
        own, e = copy.copy(self), self.m.encoder
        assert e is not None
        own.p, own.S = self.p.replace(adapter_rank=None, frozen=None), e.tokens * e.images * self.plan.micro_batch
        own.S1 = own.S / self.t if self.p.sequence_parallel else own.S
        own.h, own.heads, own.q = e.hidden, e.heads / self.t, e.hidden // e.heads
        own.k = own.heads
        biases = {"bias": e.bias, "output_bias": e.bias, "query_key_norm": False, "sinks": False}
        own.a = SimpleNamespace(
            latent=False, values=own.q, head_size=own.q, window=None, windowed_share=0, **biases
        )
        window = e.tokens if e.window is None else min(e.window, e.tokens)
        own.seen = (1 - e.windowed_share) * e.tokens + e.windowed_share * window
        mlp = SimpleNamespace(hidden=e.ffn, gated=e.gated, bias=e.bias)
        shapes: Any = SimpleNamespace(norms=2, norm=e.norm, mlp=mlp, experts=None, embedding_size=None)
        own.m = shapes
        return own

    def only_forward(self, unit: str) -> bool:
        return unit in ("patches", "encoder") and (self.p.frozen == "encoder" or self.p.adapter_rank is not None)

    @property
    def projector(self) -> tuple[float, float, float]:
        """I, in and w of the text; a w of 0 stands for one product."""
        e: Any = self.m.encoder
        width = e.hidden if e.pooled else e.merged * e.hidden
        rows = e.tokens * e.images * self.plan.micro_batch / e.merged
        return rows, width, self.h if e.projector is None else e.projector

    def projecting(self) -> list[tuple[Any, ...]]:
        (rows, width, w), t, back = self.projector, self.t, self.p.adapter_rank is None
        sort = "short" if back else "forward"
        sent = self.tensor(2 * width * rows, (2, 3 * back), (1, 1 * back))
        if not w:
            return [("product", rows, self.h / t, width, 1, sort), *sent]
        there, behind = self.activation(False, rows * w / t)
        products = [("product", rows, w / t, width, 1, sort), ("product", rows, self.h, w / t, 1, sort)]
        return [*products, ("traffic", there, behind if back else None, 1), *sent]

    # ---- seconds of passes ----------------------------------------------------------------------------------

    def modules(self, unit: str) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
        """Names of modules, and what they do: (M, N, K, G, sort) of products, operations of attention, bytes and
        launches of traffic, and collectives with their times forward and backward. Products of frozen weights have a
        star behind their sort, and those of layers adapters beside them."""
        r = self.p.adapter_rank
        for name, items in self.trained_modules(unit):
            if r is None:
                yield name, items
                continue
            changed: list[tuple[Any, ...]] = []
            for item in items:
                if item[0] != "product" or item[5] == "matrix":
                    changed.append(item)
                    continue
                _, M, N, K, _, sort = item
                changed.append((*item[:5], sort + "*"))
                if sort == "usual" and name != "projection":
                    changed += [("product", M, r, K, 1, "short"), ("product", M, N, r, 1, "short")]
            yield name, changed

    def trained_modules(self, unit: str) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
        """The same where all weights are trained."""
        h, S, hS = self.h, self.S, self.h * self.S1
        if unit == "embedding":
            back = self.p.adapter_rank is None
            sent = self.tensor(2 * h * S, (1, back), (1, 0))
            yield "embedding", [("traffic", 4 * h * S, 10 * h * S * back, 1), *sent]
            if self.m.encoder is not None:
                yield "projector", self.projecting()
        if unit == "patches":
            e: Any = self.m.encoder
            numbers = e.hidden * e.tokens * e.images * self.plan.micro_batch
            pixels = ("product", numbers / e.hidden, e.hidden, e.patch, 1, "pixels")
            yield "patches", [pixels, ("traffic", 4 * numbers, 10 * numbers, 1)]
        if unit == "prediction":
            sent = self.tensor(4 * h * S, (1, 2), (0, 1))
            yield "projection", [("product", S, h / self.t, 2 * h, 1, "usual"), *sent]
            yield "norm", 2 * self.norm(hS)
        if unit in ATTENDING:
            yield from self.layer(unit == "experts" or (unit == "prediction" and self.m.experts is not None))
        if unit in ("head", "prediction"):
            yield "norm", self.m.final_norm * self.norm(hS)
            sent, logits = self.tensor(2 * h * S, (1, 2), (0, 1)), self.rates.loss_traffic * S * self.V
            loss = ("traffic", 8 * logits, 4 * logits, 1)
            yield "head", [("product", S, self.V, h, 1, "short"), loss, *sent]

    def tensor(self, size: float, divided: tuple[int, int], whole: tuple[int, int]) -> list[tuple[Any, ...]]:
        if self.p.sequence_parallel:
            return [("gather", "tensor", size, *divided)]
        return [("all-reduce", "tensor", size, *whole)]

    def layer(self, experts: bool) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
        h, S, hS, a = self.h, self.S, self.h * self.S1, self.a
        alone = a.latent + (experts and self.m.norms > 1)
        yield "layernorm", alone * self.norm(hS)
        yield "norm", (self.m.norms - alone) * self.norm(hS)
        x = self.rates.elementwise_traffic
        yield "residual", 2 * [("traffic", x * (6 + self.p.dropout) * hS, x * (6 + self.p.dropout) * hS, 1)]
        yield "output", [("product", S, h, self.heads * a.values, 1, "usual")]
        turned = x * 4 * S * (self.heads + self.k) * self.q
        if a.latent:
            rank = a.query_rank or h
            down = [("product", self.S1, a.query_rank, h, 1, "usual")] if a.query_rank else []
            down.append(("product", self.S1, a.key_value_rank + a.rope_size, h, 1, "usual"))
            sent = self.tensor(2 * (rank + a.key_value_rank + a.rope_size) * S, (1, 2), (0, 0))
            yield "latents", [*down, *sent, *self.tensor(2 * h * S, (1, 1), (1, 1))]
            up = ("product", S, self.heads * (a.head_size + a.values), a.key_value_rank, 1, "usual")
            queries = ("product", S, self.heads * self.q, rank, 1, "usual")
            yield "mla_up_proj", [up, queries, ("traffic", turned, turned, 1)]
        else:
            columns = self.heads * self.q + self.k * (self.q + a.values)
            norm = self.norm(turned / x / 4) if a.query_key_norm else []
            sent = self.tensor(2 * h * S, (2, 3), (1, 1))
            yield "q", [("product", S, columns, h, 1, "usual"), ("traffic", turned, turned, 1), *norm, *sent]
        yield "core_attn", self.core()
        if not experts:
            yield "mlp", self.mlp(self.m.mlp.hidden, self.m.mlp.gated)  # type: ignore[union-attr]
            return
        x: Any = self.m.experts
        count, copies = x.count / self.e, self.rates.expert_imbalance * self.S1 * x.per_token
        rows, inner = copies * self.te / count, x.hidden / self.te
        products = [
            ("product", self.S1, x.count, h, 1, "short"),
            ("product", rows, (1 + x.gated) * inner, h, count, "grouped"),
            ("product", rows, h, inner, count, "grouped"),
        ]
        moved = ("traffic", 12 * x.per_token * hS, 12 * x.per_token * hS, 4)
        sent = ("gather", "expert_tensor", 2 * copies * h * self.te, 2, 2)
        yield "moe", [*products, moved, ("all-to-all", "expert", 2 * copies * h, 2, 2), sent]
        yield "moe_act", [("traffic", *self.activation(x.gated, rows * inner * count), 1)]
        if x.shared_hidden:
            yield "shared_experts", self.mlp(x.shared_hidden, x.gated)

    def core(self) -> list[tuple[Any, ...]]:
        s, a = self.p.sequence, self.a
        if not self.p.flash_attention:
            count = a.heads * self.plan.micro_batch / (self.t * self.c)
            entries, mask = self.rates.softmax_traffic * count * s * s, 5 * self.p.dropout
            products = [("product", s, s, self.q, count, "matrix"), ("product", s, a.values, s, count, "matrix")]
            return [*products, ("traffic", (4 + mask) * entries, (6 + mask) * entries, 1)]
        documents = [(own.tokens, own.share) for own in self.p.lengths] or [(s, 1.0)]
        w, share = a.window, a.windowed_share
        pairs = 0.0
        for length, often in documents:
            n = length / 2
            if w is not None and w < length:
                n = (1 - share) * n + share * (w - w * w / (2 * length))
            pairs += often * length * n
        n = self.seen or pairs / sum(length * often for length, often in documents)
        work = 2 * self.S * n * self.heads * (self.q + a.values)
        return [("attend", work), ("gather", "context", 2 * self.S * self.c * self.k * (self.q + a.values), 1, 2)]

    def mlp(self, hidden: int, gated: bool) -> list[tuple[Any, ...]]:
        h, S, inner = self.h, self.S, hidden / self.t
        products = [("product", S, (1 + gated) * inner, h, 1, "usual"), ("product", S, h, inner, 1, "usual")]
        activation = ("traffic", *self.activation(gated, S * inner), 1)
        return [*products, activation, *self.tensor(2 * h * S, (2, 3), (1, 1))]

    def norm(self, numbers: float) -> list[tuple[Any, ...]]:
        return [("traffic", self.rates.norm_traffic * 4 * numbers, self.rates.norm_traffic * 6 * numbers, 1)]

    def activation(self, gated: bool, numbers: float) -> tuple[float, float]:
        numbers *= self.rates.elementwise_traffic
        return (6 * numbers, 10 * numbers) if gated else (4 * numbers, 6 * numbers)

    def product(self, M: float, N: float, K: float, G: float, sort: str, weight_bytes: float) -> float:
        eight, r, sort = self.is_eight(sort), self.rates, sort.removesuffix("*")
        share = {"grouped": r.grouped_products}.get(sort, r.products)
        if eight:
            share = min(share, r.products_fp8) if sort == "grouped" else r.products_fp8
        peak = self.p.peak if eight else self.short_peak
        operations = 2 * G * M * N * K * (1 + r.half_side * (1 / M + 1 / N + 1 / K))
        size = G * (2 * (M * N + M * K) + weight_bytes * N * K)
        return max(operations / (share * peak), size / self.memory_rate) + r.launch_seconds

    def is_eight(self, sort: str) -> bool:
        return self.p.precision == "fp8" and sort.removesuffix("*") in ("usual", "grouped")

    @property
    def short_peak(self) -> float:
        return self.p.gpu.flops["fp16" if self.p.precision == "fp16" else "bf16"]

    def traffic(self, size: float, launches: int = 1) -> float:
        return size / self.memory_rate + launches * self.rates.launch_seconds

    def seconds(self, unit: str, way: str, word: Word | None = None) -> float:
        """Seconds of a unit's pass, `forward`, `inputs` or `weights`; with a word only of what it computes again."""
        if self.only_forward(unit) and (way != "forward" or word is not None):
            return 0.0
        if unit == "encoder":
            return self.marked().seconds("dense", way, word)
        taken, host = self.of_gpu(unit, way, word)
        if self.p.rules.in_step and self.plan.degrees.pipeline > 1 and len(self.p.levels) > 1 and word is None:
            items = [item for _, items in self.modules(unit) for item in items]
            sums = sum(item[3 if way == "forward" else 4] for item in items if item[1] == "tensor")
            host += self.rates.host_seconds * sums * self.t * (self.t > 1)
        if way == "inputs" and not self.plan.rule.divided:
            host -= self.seconds(unit, "weights")
        return taken if way == "weights" else max(taken, host)

    def of_gpu(self, unit: str, way: str, word: Word | None = None) -> tuple[float, float]:
        """The same as far as the GPU works or waits for others, and the seconds of the host."""
        raw, kernels = dict.fromkeys(("products", "attention", "memory", "tensor", "context", "expert"), 0.0), 0.0
        again = {*(word or ())} | ({"moe_act", "shared_experts"} if "moe" in (word or ()) else set())
        for name, items in self.modules(unit):
            if word is None or (unit in ("dense", "experts") and ("full" in again or name in again)):
                for item in items:
                    self.add(raw, item, way)
                kernels += self.kernels(items)
        r, room = self.rates, {"products": raw["products"], "attention": raw["attention"]}
        for part, hidden, behind in (
            ("tensor", r.tensor_hidden, "products"), ("context", r.context_hidden, "attention"),
            ("expert", r.expert_hidden, "products"),
        ):  # fmt: skip
            less = min(hidden * raw[part], room[behind])
            raw[part], room[behind] = raw[part] - less, room[behind] - less
        return sum(raw.values()), r.host_seconds * kernels

    def kernels(self, items: list[tuple[Any, ...]]) -> float:
        """Products, attention, traffic with its launches, in fp8 the conversion of each product, and collectives among
        more than one rank, each sort of them once where experts exchange and gather in one."""
        count = 0.0
        among: set[str] = set()
        for item in items:
            if item[0] == "product":
                count += 1 + self.is_eight(item[5])
            elif item[0] in ("attend", "traffic"):
                count += item[3] if item[0] == "traffic" else 1
            elif self.groups[item[1]][1] > 1 and item[1].startswith("expert"):
                among.add("expert")
            elif self.groups[item[1]][1] > 1:
                count += 1
        return count + len(among)

    def add(self, raw: dict[str, float], item: tuple[Any, ...], way: str) -> None:
        kind, forward, launch = item[0], way == "forward", self.rates.launch_seconds
        if kind == "product":
            M, N, K, G, sort = item[1:]
            if way == "inputs" and sort.removesuffix("*") in ("pixels", "forward"):
                return
            if way == "weights":
                is_trained = sort != "matrix" and not sort.endswith("*")
                added = self.p.rules.added_bytes * G * N * K / self.memory_rate
                raw["products"] += is_trained and self.product(M, N, K, G, sort, 2 * self.gradient) + added
                return
            raw["products"] += self.product(M, N, K, G, sort, 2) * (2 if sort == "matrix" and not forward else 1)
            if self.is_eight(sort):
                raw["memory"] += self.traffic(4 * G * M * (K if forward else N))
        elif way != "weights" and kind == "attend":
            seconds = item[1] / (self.rates.attention * self.short_peak)
            raw["attention"] += seconds + launch if forward else ATTENTION_BACKWARD * seconds + 2 * launch
        elif way != "weights" and kind == "traffic" and not (item[2] is None and not forward):
            raw["memory"] += self.traffic(item[1] if forward else item[2], item[3])
        elif way != "weights" and kind != "traffic" and self.groups[item[1]][1] > 1:
            once = self.collective(kind, item[2], *self.groups[item[1]]) + self.rates.collective_seconds
            raw[item[1].removesuffix("_tensor")] += once * (item[3] if forward else item[4])

    def collective(self, kind: str, size: float, stride: int, n: int) -> float:
        if n == 1:
            return 0.0
        group, inside, levels = 1, [1], self.p.levels
        shares = [self.rates.links, *(self.rates.links * self.rates.network for _ in levels[1:])]
        for level in levels[:-1]:
            group *= level.count
            inside.append(min(n, max(1, group // stride)))
        crossed = [i for i, _ in enumerate(levels) if inside[i] < [*inside, n][i + 1]]
        latency = sum(([*inside, n][i + 1] / inside[i] - 1) * levels[i].latency_seconds for i in crossed)
        if kind == "all-to-all":
            sent = (size * (1 - inside[i] / n) / (shares[i] * levels[i].bandwidth) for i in crossed)
            return max(sent) + latency
        rate = min(inside[i] * shares[i] * levels[i].bandwidth for i in crossed)
        return ((n - 1) / n * size / rate + latency) * (2 if kind == "all-reduce" else 1)

    # ---- parameters -----------------------------------------------------------------------------------------

    def shapes(self, unit: str) -> list[tuple[float, float, bool]]:
        """Weights that are multiplied on a rank, as rows and columns, and whether each expert has them."""
        h, a, width = self.h, self.a, self.m.embedding_size or self.h
        if unit == "encoder":
            return self.marked().shapes("dense")
        if unit == "patches":
            assert self.m.encoder is not None
            return [(self.m.encoder.hidden, self.m.encoder.patch, False)]
        found: list[tuple[float, float, bool]] = []
        if unit == "embedding" and self.m.encoder is not None:
            found += [(i[2], i[3], False) for i in self.projecting() if i[0] == "product"]
        if unit in ("embedding", "head") and width != h:
            found.append((width, h, False))
        if unit == "head" and not self.m.tied:
            found.append((self.V, width, False))
        if unit == "prediction":
            found.append((h / self.t, 2 * h, False))
        if unit in ATTENDING:
            found.append((h, self.heads * a.values, False))
            if a.latent:
                found.append((self.heads * self.q, a.query_rank or h, False))
                found += [(a.query_rank, h, False)] if a.query_rank else []
                found.append((a.key_value_rank + a.rope_size, h, False))
                found.append((self.heads * (a.head_size + a.values), a.key_value_rank, False))
            else:
                found.append(((self.heads + self.k) * a.head_size + self.k * a.values, h, False))
            x, mlp = self.m.experts, self.m.mlp
            inner = [(mlp.hidden / self.t, mlp.gated, False)] if mlp is not None else []
            if unit == "experts" or (unit == "prediction" and x is not None):
                assert x is not None
                inner = [(x.hidden / self.te, x.gated, True)]
                inner += [(x.shared_hidden / self.t, x.gated, False)] if x.shared_hidden else []
            found += [row for f, gated, own in inner for row in (((1 + gated) * f, h, own), (h, f, own))]
        return found

    def parameters(self, unit: str) -> tuple[float, float]:
        """Parameters on a rank, those of experts apart."""
        h, a, x, e = self.h, self.a, self.m.experts, getattr(self.m, "encoder", None)
        if unit in ("patches", "encoder"):
            assert e is not None
            if unit == "encoder":
                return self.marked().parameters("dense")[0] + e.layer_vectors * e.hidden, 0.0
            return (e.patch + e.vectors) * e.hidden, 0.0
        norm, bias, experts = 2 if self.m.norm == "layer" else 1, 0.0, 0.0
        if unit == "embedding":
            bias = self.V * (self.m.embedding_size or h) + self.m.positions * h
            if e is not None and self.projector[2]:
                bias += self.projector[2] / self.t + h
        elif unit == "head":
            bias = norm * h * self.m.final_norm + self.V * self.m.head_bias
        else:
            bias = norm * h * (self.m.norms + 3 * (unit == "prediction")) + h * a.output_bias
            if a.latent:
                bias += norm * (a.key_value_rank + (a.query_rank or 0))
                bias += (a.key_value_rank + a.rope_size + (a.query_rank or 0)) * a.bias
            else:
                bias += ((self.heads + self.k) * a.head_size + self.k * a.values) * a.bias
                bias += 2 * norm * a.head_size * a.query_key_norm + self.heads * a.sinks
            if unit == "experts" or (unit == "prediction" and x is not None):
                assert x is not None
                bias += x.count * h + x.count * x.router_bias + h * x.shared_gate
                experts = x.count / self.e * ((1 + x.gated) * x.hidden / self.te + h) * x.bias
            elif self.m.mlp is not None:
                bias += ((1 + self.m.mlp.gated) * self.m.mlp.hidden / self.t + h) * self.m.mlp.bias
        local = x.count / self.e if x is not None else 0.0
        usual = sum(rows * columns for rows, columns, own in self.shapes(unit) if not own)
        return bias + usual, experts + local * sum(
            rows * columns for rows, columns, own in self.shapes(unit) if own
        )

    def adapters(self, unit: str) -> float:
        """Parameters of adapters on a rank."""
        r, products = (
            self.p.adapter_rank,
            [i for _, items in self.modules(unit) for i in items if i[0] == "product"],
        )
        assert r is not None
        return sum(N * K for _, M, N, K, G, sort in products if sort == "short")

    def trained(self, unit: str) -> tuple[float, float]:
        if self.only_forward(unit):
            return 0.0, 0.0
        return self.parameters(unit) if self.p.adapter_rank is None else (self.adapters(unit), 0.0)

    def left(self, unit: str) -> tuple[float, float]:
        """Parameters that are not trained."""
        trained = self.p.adapter_rank is None and not self.only_forward(unit)
        return (0.0, 0.0) if trained else self.parameters(unit)

    def sent(self, unit: str) -> tuple[float, float]:
        """Parameters whose gradients data-parallel ranks send each other: those of experts apart."""
        if self.only_forward(unit):
            return 0.0, 0.0
        return self.shared(unit) if self.p.adapter_rank is None else (self.adapters(unit), 0.0)

    def whole(self, unit: str) -> tuple[float, float]:
        """Parameters whose weights they gather in passes."""
        usual, experts = self.shared(unit)
        if self.only_forward(unit):
            return usual, experts
        return usual + (0.0 if self.p.adapter_rank is None else self.adapters(unit)), experts

    def shared(self, unit: str) -> tuple[float, float]:
        """Parameters of products and tables, which data-parallel ranks send each other where all are trained."""
        if unit == "encoder":
            return self.marked().shared("dense")
        if unit in ("embedding", "patches"):
            tables = self.V * (self.m.embedding_size or self.h) + self.m.positions * self.h
            modules = [item for name, items in self.trained_modules(unit) for item in items]
            products = sum(item[2] * item[3] for item in modules if item[0] == "product")
            return products + tables * (unit == "embedding"), 0.0
        products = [
            i for name, items in self.trained_modules(unit) if name != "head" or unit == "head" for i in items
        ]
        sizes = [(i[2] * i[3] * i[4], i[5]) for i in products if i[0] == "product" and i[5] != "matrix"]
        return sum(n for n, s in sizes if s != "grouped"), sum(n for n, s in sizes if s == "grouped")

    # ---- what ranks with the same weights do --------------------------------------------------------------------

    def gather(self, counts: tuple[float, float], each: float) -> float:
        pairs = [(count, group) for count, group in zip(counts, self.replicas, strict=True) if count]
        return sum(self.collective("gather", each * count, *group) + self.apart(*group) for count, group in pairs)

    def apart(self, stride: int, n: int) -> float:
        """What it costs besides that tensors are summed, or that their parts are copied, one by one."""
        if self.p.rules.tensors_per_layer is None:
            return 0.0
        count = self.p.rules.tensors_per_layer * self.layers / self.plan.degrees.pipeline
        if self.plan.zero:
            return count * (n - 1) * self.rates.launch_seconds
        waits = self.collective("gather", 0, stride, n)
        return count * (waits + (n - 1) * self.p.levels[0].latency_seconds) - waits

    @property
    def layers(self) -> int:
        return self.m.layers + (0 if self.m.encoder is None else self.m.encoder.layers)

    @property
    def summed(self) -> float:
        """Bytes of a gradient for a ring that leaves each rank its own sums; two rings leave all of them."""
        both = self.plan.zero == 1 and self.p.rules.tensors_per_layer is not None
        return self.gradient * (1 + both)

    def in_passes(self, unit: str) -> tuple[float, float]:
        """What is left of gathers and sums in every forward and backward pass of a unit."""
        zero, (reduced, gathered) = (
            self.plan.zero,
            hidden_shares(self.p, self.plan.zero, self.plan.degrees.pipeline),
        )
        weights = self.gather(self.whole(unit), HALF) if zero == 3 else 0.0
        sums = self.gather(self.sent(unit), self.gradient) if zero >= 2 else 0.0
        backward = self.seconds(unit, "inputs")
        if not self.plan.rule.divided:
            backward += self.seconds(unit, "weights")
        forward = weights - min(gathered * weights, self.seconds(unit, "forward"))
        if self.only_forward(unit):
            return forward, 0.0
        return forward, weights + sums - min(reduced * (weights + sums), backward)

    def update(self, unit: str) -> float:
        zero, size = self.plan.zero, 0.0
        for count, (_, n) in zip(self.sent(unit), self.replicas, strict=True):
            size += count * update_bytes(self.p.optimizer) / (n if zero else 1)
            size += count * self.gradient / (n if zero >= 2 else 1)
        return size / self.memory_rate

    def standing_of(self, unit: str) -> float:
        """Bytes of weights, gradients and optimizer of a unit."""
        return self.standing(self.trained(unit)) + self.frozen(self.left(unit))

    def frozen(self, counts: tuple[float, float]) -> float:
        """Bytes of weights that are not trained."""
        weights, eight = self.p.states[self.plan.zero].weights, self.p.fp8_weight_copy and self.p.precision == "fp8"
        pairs = zip(counts, self.replicas, strict=True)
        return sum(count * (weights.on(n) + eight) for count, (_, n) in pairs)

    def standing(self, counts: tuple[float, float]) -> float:
        states, eight = self.p.states[self.plan.zero], self.p.fp8_weight_copy and self.p.precision == "fp8"
        kept = (states.weights, states.gradients, states.optimizer)
        pairs = zip(counts, self.replicas, strict=True)
        return sum(count * (sum(one.on(n) for one in kept) + eight) for count, (_, n) in pairs)

    # ---- bytes of passes ------------------------------------------------------------------------------------

    def tensors(self, unit: str) -> Iterator[tuple[float, str, str, bool]]:
        """Bytes, the modules that make it anew, the part of the layer, and whether gradients of weights need it."""
        u, S, a, m = 2 * self.S1 * self.h, self.S, self.a, self.m
        mask = u / 2 if self.p.dropout else 0.0
        experts = unit == "experts" or (unit == "prediction" and m.experts is not None)
        if unit in ("embedding", "prediction"):
            yield mask, "", "other", False
        if unit == "patches":
            e: Any = m.encoder
            yield 2 * e.patch * e.tokens * e.images * self.plan.micro_batch, "", "other", True
        if unit == "embedding" and m.encoder is not None and self.p.adapter_rank is None:
            rows, width, w = self.projector
            yield 2 * rows * width, "", "other", True
            yield 2 * rows * w / self.t, "", "other", False
            yield 2 * rows * w / self.t, "", "other", True
        if unit == "prediction":
            yield 2 * u, "", "other", False
            yield 2 * u, "", "other", True
        if unit in ATTENDING:
            yield u, "", "input", False
            yield u, "layernorm" if a.latent else "", "attention", True
            if self.p.rules.keeps_gathered:
                yield 2 * S * self.h - u, "", "attention", True
                yield 2 * S * self.h - u, "mlp", "after", True
            if self.rates.norm_traffic > 1:
                yield self.p.rules.norm_bytes / 2 * m.norms * u, "", "attention", False
            heads, k = 2 * S * self.heads, 2 * S * self.k
            if a.latent:
                ranks = 2 * self.S1 * ((a.query_rank or 0) + a.key_value_rank)
                yield ranks + 2 * self.S1 * a.rope_size, "", "attention", False
                yield ranks, "", "attention", True
                yield heads * (2 * self.q + a.values), "mla_up_proj", "attention", False
            else:
                yield (heads + k) * a.head_size * (1 + a.query_key_norm) + k * a.values, "", "attention", False
            yield heads * a.values, "", "attention", True
            matrix = self.p.sequence * (2 + 3 * self.p.dropout)
            yield S * self.heads * (SINGLE if self.p.flash_attention else matrix), "core_attn", "attention", False
            yield heads * a.values * (self.c > 1), "core_attn", "attention", False
            yield mask, "", "attention", False
            if m.norms >= 2:
                yield u, "", "attention", False
                yield u, "layernorm" if experts else "mlp", "after", True
                yield (m.norms - 2) * u, "", "after", False
            sizes: list[tuple[float, bool, str]] = []
            if experts:
                x: Any = m.experts
                inner = 2 * self.routed * x.hidden / self.te
                yield 2 * self.routed * self.h, "moe", "after", True
                yield (1 + x.gated) * inner, "moe", "after", False
                yield inner, "moe moe_act", "after", True
                sizes = [(x.shared_hidden, x.gated, "moe shared_experts")] if x.shared_hidden else []
            elif m.mlp is not None:
                sizes = [(m.mlp.hidden, m.mlp.gated, "mlp")]
            for hidden, gated, names in sizes:
                yield (1 + gated) * 2 * S * hidden / self.t, names, "after", False
                yield 2 * S * hidden / self.t, names, "after", True
            yield mask, "", "after", False
        if unit in ("head", "prediction"):
            yield u, "", "other", False
            yield u, "", "other", True
            yield S * self.V * (HALF if self.p.fused_loss else SINGLE), "", "other", True

    @property
    def routed(self) -> float:
        assert self.m.experts is not None
        return self.S / self.t * self.m.experts.per_token * self.te * self.rates.expert_imbalance

    def kept(self, unit: str, word: Word) -> tuple[float, float, float]:
        """The stash, its part for gradients of weights, and the fullest moment of the way back."""
        if self.only_forward(unit):
            own, name = (self.marked(), "dense") if unit == "encoder" else (self, unit)
            return 0.0, 0.0, max([*own.tops(name), *([own.attention_top] if unit == "encoder" else [])])
        if unit == "encoder":
            return self.marked().kept("dense", word)
        word = word if unit in ("dense", "experts") else ()
        more = self.p.rules.kept
        tensors = [
            (more * one[0] if one[2] in ("attention", "after") else one[0], *one[1:]) for one in self.tensors(unit)
        ]
        left = [i for i, one in enumerate(tensors) if self.is_left(one, word)]
        again = [i for i in range(len(tensors)) if i not in left]

        def total(which: list[int], *parts: str) -> float:
            return sum(tensors[i][0] for i in which if not parts or tensors[i][2] in parts)

        after = total(again) if "full" in word else total(again, "after")
        moments = [total(left) + top + after for top in self.tops(unit)]
        if unit in ATTENDING:
            before = ("other", "input", "attention")
            moments.append(total(left, *before) + total(again, *before) + self.attention_top)
        weights = [i for i in left if tensors[i][3]]
        return total(left), total(weights), max(moments)

    @staticmethod
    def is_left(tensor: tuple[float, str, str, bool], word: Word) -> bool:
        return tensor[2] == "input" if "full" in word else not {*tensor[1].split()} & {*word}

    def tops(self, unit: str) -> Iterator[float]:
        u, whole, m = 2 * self.S1 * self.h, 2 * self.S * self.h, self.m
        if unit == "patches":
            e: Any = m.encoder
            yield 2 * e.hidden * e.tokens * e.images * self.plan.micro_batch
        if unit == "embedding" and m.encoder is not None and self.p.adapter_rank is None:
            rows, _, w = self.projector
            yield 2 * rows * (self.h + w / self.t)
        if unit == "embedding":
            yield 2 * self.V * (m.embedding_size or self.h) * (self.p.adapter_rank is None)
        if unit in ("head", "prediction"):
            fresh = 0.0 if self.p.fused_loss else SINGLE * self.S * self.V
            if self.p.rules.logit_bytes is not None:
                words = self.m.vocabulary if self.p.rules.gathers_logits else self.V
                fresh = self.p.rules.logit_bytes * self.S * words
            yield whole + fresh + (whole + u if self.t > 1 and self.p.sequence_parallel else 0.0)
        if unit == "experts" or (unit == "prediction" and m.experts is not None):
            yield u + TOKEN_COPIES * 2 * self.routed * self.h
        elif unit in ATTENDING:
            assert m.mlp is not None
            yield u + 2 * (1 + m.mlp.gated) * self.S * m.mlp.hidden / self.t

    @property
    def attention_top(self) -> float:
        both = self.heads + self.k
        size = HALF * both * (self.q + self.a.values) + SINGLE * self.heads * self.q
        return 2 * self.S1 * self.h + self.S * size

    def beside(self, types: set[str]) -> tuple[float, float]:
        """Bytes that are there once on a rank with these types, and parameters of a copy of the table of words."""
        trained = [unit for unit in types if not self.only_forward(unit)]
        shapes = {(rows, columns) for unit in trained for rows, columns, _ in self.shapes(unit)}
        keeps = self.p.rules.cached_gradients and self.p.adapter_rank is None
        cached = HALF * sum(rows * columns for rows, columns in shapes) if keeps else 0.0
        gathered = GATHERED_UNITS * self.p.states[self.plan.zero].gathered
        beside = dict.fromkeys(types, 0.0)
        if self.p.adapter_rank is not None:
            beside = {unit: self.trained(unit)[0] for unit in types}
        largest = max(sum(self.parameters(unit)) + beside[unit] for unit in types)
        reads = ("head" in types and self.m.tied) or "prediction" in types
        table = self.V * (self.m.embedding_size or self.h) if reads and "embedding" not in types else 0.0
        return WORKSPACE_BYTES + cached + gathered * largest, table
