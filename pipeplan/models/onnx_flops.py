"""Floating-point operations of ONNX operators, by formulas on shapes; a multiply-add counts as two."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Shape = tuple[int, ...]
Attributes = Mapping[str, Any]
# (shapes of inputs, shapes of outputs, attributes) -> operations; None: left out, or of unknown shape.
Formula = Callable[[Sequence[Shape | None], Sequence[Shape | None], Attributes], float]

# Operators that move numbers and work on each one or on its neighbours: their time is that of the bytes.
UNCOUNTED = """
    Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization BitwiseAnd
    BitwiseNot BitwiseOr BitwiseXor BitShift Cast CastLike Ceil Celu CenterCropPad Clip Compress Concat Cos Cosh
    CumSum DepthToSpace DequantizeLinear Div Dropout DynamicQuantizeLinear Elu Equal Erf Exp Expand EyeLike
    Flatten Floor Gather GatherElements GatherND Gelu GlobalAveragePool GlobalLpPool GlobalMaxPool Greater
    GreaterOrEqual GroupNormalization HardSigmoid HardSwish Hardmax Identity InstanceNormalization IsInf IsNaN
    LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization LpPool LRN Max MaxPool Mean
    MeanVarianceNormalization Min Mish Mod Mul Neg Not OneHot Or Pad Pow PRelu QuantizeLinear Range Reciprocal
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare Relu Reshape Resize ReverseSequence RMSNormalization RotaryEmbedding Round Scatter
    ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax Softplus Softsign
    SpaceToDepth Split Sqrt Squeeze Sub Sum Swish Tan Tanh TensorScatter ThresholdedRelu Tile TopK Transpose Trilu
    Unsqueeze Upsample Where Xor
"""
MOVERS = frozenset(UNCOUNTED.split())


def _known(shapes: Sequence[Shape | None], i: int) -> Shape:
    shape = shapes[i] if i < len(shapes) else None
    if shape is None:
        raise ValueError(f"lacks the shape of its input or output {i}")
    return shape


def _matmul(first: int, second: int) -> Formula:
    """Formula for the product of the matrices at these inputs; stacks of them are repeated as they are in NumPy."""

    def formula(inputs: Sequence[Shape | None], outputs: Sequence[Shape | None], attributes: Attributes) -> float:
        depth = _known(inputs, first)[-1]
        columns = _known(inputs, second)
        if depth != columns[max(len(columns) - 2, 0)]:
            raise ValueError(f"multiplies {depth} columns by {columns[max(len(columns) - 2, 0)]} rows")
        return 2.0 * math.prod(_known(outputs, 0)) * depth

    return formula


def _gemm(inputs: Sequence[Shape | None], outputs: Sequence[Shape | None], attributes: Attributes) -> float:
    first = _known(inputs, 0)
    return 2.0 * math.prod(_known(outputs, 0)) * first[0 if attributes.get("transA") else 1]


def _convolution(weights: int) -> Formula:
    def formula(inputs: Sequence[Shape | None], outputs: Sequence[Shape | None], attributes: Attributes) -> float:
        # The weights have the sizes: outputs, inputs of a group, and those of the kernel.
        return 2.0 * math.prod(_known(outputs, 0)) * math.prod(_known(inputs, weights)[1:])

    return formula


def _transposed(inputs: Sequence[Shape | None], outputs: Sequence[Shape | None], attributes: Attributes) -> float:
    """Each number of the input meets the whole kernel of each output of its group."""
    return 2.0 * math.prod(_known(inputs, 0)) * math.prod(_known(inputs, 1)[1:])


def _recurrent(gates: int) -> Formula:
    """Formula for products with the input and with the state before, of all gates, in each step and direction."""

    def formula(inputs: Sequence[Shape | None], outputs: Sequence[Shape | None], attributes: Attributes) -> float:
        x, (ways, rows, width) = _known(inputs, 0), _known(inputs, 1)
        return 2.0 * x[0] * x[1] * ways * rows * (width + rows // gates)

    return formula


def _attention(inputs: Sequence[Shape | None], outputs: Sequence[Shape | None], attributes: Attributes) -> float:
    """Scores of queries with keys, and the values mixed by them; keys kept from earlier calls count, too."""
    query, key, value = (_known(inputs, i) for i in range(3))
    past = _known(inputs, 4)[2] if len(inputs) > 4 and inputs[4] is not None else 0
    if len(query) == 4:
        batch, heads, rows, depth = query
        columns, mixed = key[2], value[3]
    else:
        heads = attributes["q_num_heads"]
        batch, rows, depth = query[0], query[1], query[2] // heads
        columns, mixed = key[1], value[2] // attributes.get("kv_num_heads", heads)
    return 2.0 * batch * heads * rows * (columns + past) * (depth + mixed)


def _einsum(inputs: Sequence[Shape | None], outputs: Sequence[Shape | None], attributes: Attributes) -> float:
    """Formula for two tensors: a multiply-add for each combination of indices, if any is summed over."""
    equation = attributes["equation"].replace(" ", "")
    terms = equation.partition("->")[0].split(",")
    if len(terms) != len(inputs):
        raise ValueError(f"has {len(inputs)} inputs for {len(terms)} terms")
    if len(terms) == 1:
        return 0.0
    if len(terms) > 2:
        raise ValueError("multiplies more than two tensors at once")
    sizes: dict[str, int] = {}
    for i, term in enumerate(terms):
        for label, size in zip(_labels(term, len(_known(inputs, i))), _known(inputs, i), strict=True):
            sizes[label] = max(sizes.get(label, 1), size)
    combinations = math.prod(sizes.values())
    return 2.0 * combinations if combinations > math.prod(_known(outputs, 0)) else 0.0


def _labels(term: str, rank: int) -> list[str]:
    """A label for each dimension of a term; dimensions of an ellipsis are numbered from the last one."""
    before, dots, after = term.partition("...")
    hidden = rank - len(before) - len(after) if dots else 0
    return [*before, *(f".{i}" for i in range(hidden, 0, -1)), *after]


# Formulas by the operator's name in the domain ai.onnx.
FORMULAS: Mapping[str, Formula] = {
    "MatMul": _matmul(0, 1),
    "MatMulInteger": _matmul(0, 1),
    "QLinearMatMul": _matmul(0, 3),
    "Gemm": _gemm,
    "Conv": _convolution(1),
    "ConvInteger": _convolution(1),
    "QLinearConv": _convolution(3),
    "ConvTranspose": _transposed,
    "Einsum": _einsum,
    "Attention": _attention,
    "RNN": _recurrent(1),
    "GRU": _recurrent(3),
    "LSTM": _recurrent(4),
}
