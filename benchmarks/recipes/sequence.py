"""Networks for sequences: BERT (Devlin et al. 2019), GPT-2 and GPT-3 (Radford et al. 2019, Brown et al. 2020) and GNMT
(Wu et al. 2016), as layers or as operators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .network import Layer, Network


class _Net:
    """Adds layers that work on `tokens` tokens; every method returns the name of the layer that it adds."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.layers: list[Layer] = []

    def add(self, name: str, kind: str, inputs: Sequence[str], flops: float, parameters: int, elements: int) -> str:
        self.layers.append(Layer(name, kind, tuple(inputs), flops, parameters, elements))
        return name

    def dense(self, name: str, source: str, inside: int, outside: int, tokens: int | None = None) -> str:
        """Matrix and bias, applied to every token."""
        tokens = self.tokens if tokens is None else tokens
        weights = inside * outside
        return self.add(name, "linear", (source,), 2.0 * tokens * weights, weights + outside, tokens * outside)

    def norm(self, name: str, source: str, width: int) -> str:
        return self.add(name, "layer-norm", (source,), 8.0 * self.tokens * width, 2 * width, self.tokens * width)

    def plus(self, name: str, sources: Sequence[str], width: int) -> str:
        return self.add(name, "add", sources, 1.0 * self.tokens * width, 0, self.tokens * width)


@dataclass(frozen=True, slots=True)
class Transformer:
    """Sizes of a transformer; `positions` is the longest sequence in its paper."""

    name: str
    width: int
    layers: int
    heads: int
    vocabulary: int
    positions: int


def bert(size: str, operators: bool = False, tokens: int = 384, batch: int = 1) -> Network:
    """BERT base or large (uncased vocabulary) with pooler, without the language-model head."""
    width, layers, heads = {"base": (768, 12, 12), "large": (1024, 24, 16)}[size]
    net = _Net(tokens)
    net.add("input", "input", (), 0.0, 0, tokens)
    tables = (30522 + 512 + 2) * width
    x = net.add("embedding", "embedding", ("input",), 2.0 * tokens * width, tables, tokens * width)
    x = net.norm("embedding.norm", x, width)
    for i in range(layers):
        x = _block(net, f"layer{i}", x, width, heads, operators, norm_first=False)
    first = net.add("pooler.token", "slice", (x,), 0.0, 0, width)
    net.dense("pooler", first, width, width, tokens=1)
    suffix = "-operators" if operators else ""
    return Network(f"bert-{size}{suffix}", tuple(net.layers), batch)


# Sizes of the papers' tables.
GPT = {
    model.name: model
    for model in (
        Transformer("gpt2-medium", 1024, 24, 16, 50257, 1024),
        Transformer("gpt2-xl", 1600, 48, 25, 50257, 1024),
        Transformer("gpt3-6.7b", 4096, 32, 32, 50257, 2048),
    )
}


def gpt(name: str, operators: bool = False, tokens: int | None = None, batch: int = 1) -> Network:
    """Decoder with the output matrix tied to the token table (so it has no parameters of its own)."""
    model = GPT[name]
    tokens = model.positions if tokens is None else tokens
    width = model.width
    net = _Net(tokens)
    net.add("input", "input", (), 0.0, 0, tokens)
    tables = (model.vocabulary + model.positions) * width
    x = net.add("embedding", "embedding", ("input",), 1.0 * tokens * width, tables, tokens * width)
    for i in range(model.layers):
        x = _block(net, f"layer{i}", x, width, model.heads, operators, norm_first=True)
    x = net.norm("norm", x, width)
    net.add("logits", "linear", (x,), 2.0 * tokens * width * model.vocabulary, 0, tokens * model.vocabulary)
    suffix = "-operators" if operators else ""
    return Network(f"{name}{suffix}", tuple(net.layers), batch, element_bytes=2)


def _block(net: _Net, n: str, x: str, width: int, heads: int, operators: bool, norm_first: bool) -> str:
    """Attention and feed-forward part, each with a residual; normalised before (GPT) or after (BERT)."""
    if norm_first:
        y = _attention(net, n, net.norm(f"{n}.norm1", x, width), width, heads, operators)
        x = net.plus(f"{n}.add1", (x, y), width)
        y = _feed_forward(net, n, net.norm(f"{n}.norm2", x, width), width)
        return net.plus(f"{n}.add2", (x, y), width)
    y = _attention(net, n, x, width, heads, operators)
    x = net.norm(f"{n}.norm1", net.plus(f"{n}.add1", (x, y), width), width)
    y = _feed_forward(net, n, x, width)
    return net.norm(f"{n}.norm2", net.plus(f"{n}.add2", (x, y), width), width)


def _attention(net: _Net, n: str, x: str, width: int, heads: int, operators: bool) -> str:
    tokens = net.tokens
    scores, mixing = 2.0 * tokens * tokens * width, 2.0 * tokens * tokens * width
    softmax = 5.0 * heads * tokens * tokens
    if not operators:
        weights = 4 * (width * width + width)
        flops = 8.0 * tokens * width * width + scores + mixing + softmax
        return net.add(f"{n}.attention", "attention", (x,), flops, weights, tokens * width)
    q, k, v = (net.dense(f"{n}.{part}", x, width, width) for part in ("query", "key", "value"))
    s = net.add(f"{n}.scores", "matmul", (q, k), scores, 0, heads * tokens * tokens)
    s = net.add(f"{n}.softmax", "softmax", (s,), softmax, 0, heads * tokens * tokens)
    y = net.add(f"{n}.context", "matmul", (s, v), mixing, 0, tokens * width)
    return net.dense(f"{n}.projection", y, width, width)


def _feed_forward(net: _Net, n: str, x: str, width: int) -> str:
    y = net.dense(f"{n}.up", x, width, 4 * width)
    y = net.add(f"{n}.gelu", "gelu", (y,), 8.0 * net.tokens * 4 * width, 0, net.tokens * 4 * width)
    return net.dense(f"{n}.down", y, 4 * width, width)


def gnmt(tokens: int = 50, batch: int = 64) -> Network:
    """8 encoder layers (the first reads both ways), 8 decoder layers, width 1024, vocabulary of 32,000 word pieces.

    The attention context goes into every decoder layer; residuals from the third layer of either side on. Tables for
    source, target and output are separate. (Shazeer et al. 2017 count 278 million parameters.)
    """
    width, vocabulary = 1024, 32_000
    net = _Net(tokens)
    table = vocabulary * width

    def lstm(name: str, sources: Sequence[str], inside: int, directions: int = 1) -> str:
        weights = directions * 4 * (inside + width) * width
        biases = directions * 4 * width
        return net.add(name, "lstm", sources, 2.0 * tokens * weights, weights + biases, directions * tokens * width)

    net.add("source", "input", (), 0.0, 0, tokens)
    net.add("target", "input", (), 0.0, 0, tokens)
    x = net.add("encoder.embedding", "embedding", ("source",), 0.0, table, tokens * width)
    x = lstm("encoder.0", (x,), width, directions=2)
    for i in range(1, 8):
        y = lstm(f"encoder.{i}", (x,), 2 * width if i == 1 else width)
        x = net.plus(f"encoder.{i}.add", (x, y), width) if i >= 2 else y
    memory = x
    y = net.add("decoder.embedding", "embedding", ("target",), 0.0, table, tokens * width)
    first = lstm("decoder.0", (y,), 2 * width)
    attended = 2.0 * tokens * 2 * width * width + 4.0 * tokens * tokens * width
    context = net.add(
        "attention", "attention", (first, memory), attended, 2 * width * width + width, tokens * width
    )
    y = first
    for i in range(1, 8):
        z = lstm(f"decoder.{i}", (y, context), 2 * width)
        y = net.plus(f"decoder.{i}.add", (y, z), width) if i >= 2 else z
    net.dense("output", y, width, vocabulary)
    return Network("gnmt", tuple(net.layers), batch)


def gnmt_operators(tokens: int = 50, batch: int = 64) -> Network:
    """GNMT by operators, with dropout as in training: a wide graph, with more than 17,000 downsets.

    An LSTM layer reads each of its inputs through a matrix of its own, in a product over all tokens at once. So the
    seven products of the decoder with the attention context run beside its chain of layers, and both directions of the
    first layer beside each other. The context of the token before stays inside the first decoder layer's recurrence.
    Outputs of layers are clipped (section 6 of the paper).
    """
    net, width, vocabulary = _Net(tokens), 1024, 32_000
    net.add("source", "input", (), 0.0, 0, tokens)
    net.add("target", "input", (), 0.0, 0, tokens)
    x = net.add("encoder.embedding", "embedding", ("source",), 0.0, vocabulary * width, tokens * width)
    below = [_lstm(net, f"encoder.0.{way}", {"input": x}, width) for way in ("forward", "backward")]
    x = _lstm(net, "encoder.1", dict(zip(("input", "reversed"), below, strict=True)), width)
    for i in range(2, 8):
        x = _lstm(net, f"encoder.{i}", {"input": x}, width, residual=True)
    y = net.add("decoder.embedding", "embedding", ("target",), 0.0, vocabulary * width, tokens * width)
    y = _lstm(net, "decoder.0", {"input": y}, width, looped=2 * width)
    context = _additive_attention(net, x, y, width)
    for i in range(1, 8):
        y = _lstm(net, f"decoder.{i}", {"input": y, "context": context}, width, residual=i >= 2)
    net.dense("output", y, width, vocabulary)
    return Network("gnmt-operators", tuple(net.layers), batch)


def _lstm(
    net: _Net, name: str, sources: Mapping[str, str], width: int, residual: bool = False, looped: int | None = None
) -> str:
    """Gates from every source (dropout, product), their sum and bias, the recurrence, a residual, clipping.

    `looped`: how many numbers of a token the recurrence feeds back; None: its output, `width` numbers.
    """
    tokens, gates = net.tokens, 4 * width
    products = []
    for part, source in sources.items():
        x = net.add(f"{name}.{part}.dropout", "dropout", (source,), 1.0 * tokens * width, 0, tokens * width)
        flops, weights = 2.0 * tokens * width * gates, width * gates
        products.append(net.add(f"{name}.{part}.product", "linear", (x,), flops, weights, tokens * gates))
    # The bias goes to the first product: the graph stays as wide as it can be.
    products[0] = net.add(f"{name}.bias", "bias", (products[0],), 1.0 * tokens * gates, gates, tokens * gates)
    x = net.plus(f"{name}.gates", products, gates) if len(products) > 1 else products[0]
    weights = (looped or width) * gates
    x = net.add(f"{name}.recurrence", "lstm", (x,), 2.0 * tokens * weights, weights, tokens * width)
    if residual:
        x = net.plus(f"{name}.add", (sources["input"], x), width)
    return net.add(f"{name}.clip", "clip", (x,), 2.0 * tokens * width, 0, tokens * width)


def _additive_attention(net: _Net, memory: str, query: str, width: int) -> str:
    """Keys of the encoder's output, queries of the first decoder layer, their scores and the mixture."""
    tokens, matrix = net.tokens, width * width
    keys = net.add("attention.keys", "linear", (memory,), 2.0 * tokens * matrix, matrix, tokens * width)
    queries = net.add("attention.queries", "linear", (query,), 2.0 * tokens * matrix, matrix, tokens * width)
    pairs = tokens * tokens
    scores = net.add("attention.scores", "matmul", (keys, queries), 4.0 * pairs * width, width, pairs)
    weights = net.add("attention.softmax", "softmax", (scores,), 5.0 * pairs, 0, pairs)
    return net.add("attention.context", "matmul", (weights, memory), 2.0 * pairs * width, 0, tokens * width)
