"""Convolutional networks, layer by layer as in the papers and their reference implementations.

Names of blocks follow the papers: He et al. 2016 (ResNet), Simonyan and Zisserman 2015 (VGG), Szegedy et al. 2016
(Inception-v3), Huang et al. 2017 (DenseNet).
"""

from __future__ import annotations

from collections.abc import Sequence

from .network import Layer, Network

# Channels, height and width of what a layer puts out.
Shape = tuple[int, int, int]


class _Net:
    """Adds layers and keeps their output shapes; a method that adds layers returns the name of the last one."""

    def __init__(self, size: int) -> None:
        self.layers: list[Layer] = []
        self.shapes: dict[str, Shape] = {}
        self.add("input", "input", (), 0.0, 0, (3, size, size))

    def add(self, name: str, kind: str, inputs: Sequence[str], flops: float, parameters: int, shape: Shape) -> str:
        c, h, w = shape
        self.layers.append(Layer(name, kind, tuple(inputs), flops, parameters, c * h * w))
        self.shapes[name] = shape
        return name

    def conv(
        self,
        name: str,
        source: str,
        channels: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        padding: int | tuple[int, int] = 0,
        bias: bool = False,
    ) -> str:
        c, h, w = self.shapes[source]
        kh, kw = (kernel, kernel) if isinstance(kernel, int) else kernel
        ph, pw = (padding, padding) if isinstance(padding, int) else padding
        out = (channels, (h + 2 * ph - kh) // stride + 1, (w + 2 * pw - kw) // stride + 1)
        weights = channels * c * kh * kw
        flops = 2.0 * weights * out[1] * out[2]
        return self.add(name, "conv", (source,), flops, weights + (channels if bias else 0), out)

    def norm(self, name: str, source: str) -> str:
        c, h, w = self.shapes[source]
        return self.add(name, "batch-norm", (source,), 4.0 * c * h * w, 2 * c, (c, h, w))

    def relu(self, name: str, source: str) -> str:
        c, h, w = self.shapes[source]
        return self.add(name, "relu", (source,), 1.0 * c * h * w, 0, (c, h, w))

    def unit(self, name: str, source: str, channels: int, kernel: int | tuple[int, int], stride: int = 1,
             padding: int | tuple[int, int] = 0) -> str:  # fmt: skip
        """Add a convolution, a normalisation and a rectifier."""
        x = self.conv(f"{name}.conv", source, channels, kernel, stride, padding)
        return self.relu(f"{name}.relu", self.norm(f"{name}.bn", x))

    def pool(self, name: str, source: str, kernel: int, stride: int, padding: int = 0, ceil: bool = False) -> str:
        c, h, w = self.shapes[source]
        extra = stride - 1 if ceil else 0
        out = (
            c,
            (h + 2 * padding - kernel + extra) // stride + 1,
            (w + 2 * padding - kernel + extra) // stride + 1,
        )
        return self.add(name, "pool", (source,), 1.0 * kernel * kernel * c * out[1] * out[2], 0, out)

    def global_pool(self, name: str, source: str) -> str:
        c, h, w = self.shapes[source]
        return self.add(name, "pool", (source,), 1.0 * c * h * w, 0, (c, 1, 1))

    def linear(self, name: str, source: str, units: int) -> str:
        c, h, w = self.shapes[source]
        weights = c * h * w * units
        return self.add(name, "linear", (source,), 2.0 * weights, weights + units, (units, 1, 1))

    def join(self, name: str, sources: Sequence[str]) -> str:
        """Add the sum of several outputs of one shape."""
        c, h, w = self.shapes[sources[0]]
        return self.add(name, "add", sources, 1.0 * c * h * w * (len(sources) - 1), 0, (c, h, w))

    def concat(self, name: str, sources: Sequence[str]) -> str:
        _, h, w = self.shapes[sources[0]]
        return self.add(name, "concat", sources, 0.0, 0, (sum(self.shapes[s][0] for s in sources), h, w))

    def network(self, name: str, batch: int) -> Network:
        return Network(name, tuple(self.layers), batch)


def resnet(depth: int, batch: int = 32, image: int = 224) -> Network:
    """ResNet-18/34 with basic blocks, 50 with bottlenecks; `image` x `image` pixels, 1000 classes."""
    blocks = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}[depth]
    bottleneck = depth >= 50
    net = _Net(image)
    x = net.unit("stem", "input", 64, 7, 2, 3)
    x = net.pool("stem.pool", x, 3, 2, 1)
    for stage, count in enumerate(blocks):
        width = 64 * 2**stage
        for block in range(count):
            stride = 2 if stage > 0 and block == 0 else 1
            x = _residual(net, f"layer{stage + 1}.{block}", x, width, stride, bottleneck)
    x = net.global_pool("pool", x)
    net.linear("fc", x, 1000)
    return net.network(f"resnet{depth}", batch)


def _residual(net: _Net, name: str, source: str, width: int, stride: int, bottleneck: bool) -> str:
    channels = width * (4 if bottleneck else 1)
    if bottleneck:
        x = net.unit(f"{name}.1", source, width, 1)
        x = net.unit(f"{name}.2", x, width, 3, stride, 1)
        x = net.norm(f"{name}.3.bn", net.conv(f"{name}.3.conv", x, channels, 1))
    else:
        x = net.unit(f"{name}.1", source, width, 3, stride, 1)
        x = net.norm(f"{name}.2.bn", net.conv(f"{name}.2.conv", x, channels, 3, 1, 1))
    if stride != 1 or net.shapes[source][0] != channels:
        shortcut = net.conv(f"{name}.shortcut.conv", source, channels, 1, stride)
        source = net.norm(f"{name}.shortcut.bn", shortcut)
    return net.relu(f"{name}.relu", net.join(f"{name}.add", (x, source)))


def vgg16(batch: int = 32) -> Network:
    """Configuration D: 13 convolutions with biases, three dense layers; 224 x 224 pixels."""
    net = _Net(224)
    x = "input"
    for stage, (count, channels) in enumerate(((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))):
        for i in range(count):
            x = net.conv(f"conv{stage + 1}.{i}", x, channels, 3, 1, 1, bias=True)
            x = net.relu(f"relu{stage + 1}.{i}", x)
        x = net.pool(f"pool{stage + 1}", x, 2, 2)
    for i, units in enumerate((4096, 4096, 1000)):
        x = net.linear(f"fc{i + 1}", x, units)
        if units == 4096:
            x = net.relu(f"fc{i + 1}.relu", x)
    return net.network("vgg16", batch)


def densenet121(batch: int = 32) -> Network:
    """Growth 32, blocks of 6, 12, 24, 16 layers; every layer reads all before it in its block."""
    net = _Net(224)
    x = net.pool("stem.pool", net.unit("stem", "input", 64, 7, 2, 3), 3, 2, 1)
    for b, count in enumerate((6, 12, 24, 16)):
        features = [x]
        for i in range(count):
            name = f"block{b + 1}.{i}"
            y = net.concat(f"{name}.concat", features) if len(features) > 1 else x
            y = net.relu(f"{name}.relu1", net.norm(f"{name}.bn1", y))
            y = net.conv(f"{name}.conv1", y, 128, 1)
            y = net.relu(f"{name}.relu2", net.norm(f"{name}.bn2", y))
            features.append(net.conv(f"{name}.conv2", y, 32, 3, 1, 1))
        x = net.concat(f"block{b + 1}.concat", features)
        if b < 3:
            x = net.relu(f"transition{b + 1}.relu", net.norm(f"transition{b + 1}.bn", x))
            x = net.conv(f"transition{b + 1}.conv", x, net.shapes[x][0] // 2, 1)
            x = net.pool(f"transition{b + 1}.pool", x, 2, 2)
    x = net.relu("final.relu", net.norm("final.bn", x))
    net.linear("fc", net.global_pool("pool", x), 1000)
    return net.network("densenet121", batch)


def inception_v3(batch: int = 32) -> Network:
    """299 x 299 pixels, without the auxiliary classifier, which serves training only."""
    net = _Net(299)
    x = net.unit("1a", "input", 32, 3, 2)
    x = net.unit("2a", x, 32, 3)
    x = net.pool("pool1", net.unit("2b", x, 64, 3, 1, 1), 3, 2)
    x = net.unit("3b", x, 80, 1)
    x = net.pool("pool2", net.unit("4a", x, 192, 3), 3, 2)
    for name, pooled in (("5b", 32), ("5c", 64), ("5d", 64)):
        x = _inception_a(net, name, x, pooled)
    x = _inception_b(net, "6a", x)
    for name, width in (("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)):
        x = _inception_c(net, name, x, width)
    x = _inception_d(net, "7a", x)
    for name in ("7b", "7c"):
        x = _inception_e(net, name, x)
    net.linear("fc", net.global_pool("pool", x), 1000)
    return net.network("inception_v3", batch)


def _inception_a(net: _Net, n: str, x: str, pooled: int) -> str:
    one = net.unit(f"{n}.1x1", x, 64, 1)
    five = net.unit(f"{n}.5x5.2", net.unit(f"{n}.5x5.1", x, 48, 1), 64, 5, 1, 2)
    three = net.unit(f"{n}.3x3.1", x, 64, 1)
    three = net.unit(f"{n}.3x3.3", net.unit(f"{n}.3x3.2", three, 96, 3, 1, 1), 96, 3, 1, 1)
    pool = net.unit(f"{n}.pool.1", net.pool(f"{n}.pool", x, 3, 1, 1), pooled, 1)
    return net.concat(f"{n}.concat", (one, five, three, pool))


def _inception_b(net: _Net, n: str, x: str) -> str:
    three = net.unit(f"{n}.3x3", x, 384, 3, 2)
    double = net.unit(f"{n}.dbl.2", net.unit(f"{n}.dbl.1", x, 64, 1), 96, 3, 1, 1)
    double = net.unit(f"{n}.dbl.3", double, 96, 3, 2)
    return net.concat(f"{n}.concat", (three, double, net.pool(f"{n}.pool", x, 3, 2)))


def _inception_c(net: _Net, n: str, x: str, width: int) -> str:
    one = net.unit(f"{n}.1x1", x, 192, 1)
    seven = net.unit(f"{n}.7x7.2", net.unit(f"{n}.7x7.1", x, width, 1), width, (1, 7), 1, (0, 3))
    seven = net.unit(f"{n}.7x7.3", seven, 192, (7, 1), 1, (3, 0))
    double = net.unit(f"{n}.dbl.1", x, width, 1)
    for i, (kernel, pad, channels) in enumerate(
        (((7, 1), (3, 0), width), ((1, 7), (0, 3), width), ((7, 1), (3, 0), width), ((1, 7), (0, 3), 192)), start=2
    ):
        double = net.unit(f"{n}.dbl.{i}", double, channels, kernel, 1, pad)
    pool = net.unit(f"{n}.pool.1", net.pool(f"{n}.pool", x, 3, 1, 1), 192, 1)
    return net.concat(f"{n}.concat", (one, seven, double, pool))


def _inception_d(net: _Net, n: str, x: str) -> str:
    three = net.unit(f"{n}.3x3.2", net.unit(f"{n}.3x3.1", x, 192, 1), 320, 3, 2)
    seven = net.unit(f"{n}.7x7.2", net.unit(f"{n}.7x7.1", x, 192, 1), 192, (1, 7), 1, (0, 3))
    seven = net.unit(f"{n}.7x7.3", seven, 192, (7, 1), 1, (3, 0))
    seven = net.unit(f"{n}.7x7.4", seven, 192, 3, 2)
    return net.concat(f"{n}.concat", (three, seven, net.pool(f"{n}.pool", x, 3, 2)))


def _inception_e(net: _Net, n: str, x: str) -> str:
    one = net.unit(f"{n}.1x1", x, 320, 1)
    three = net.unit(f"{n}.3x3.1", x, 384, 1)
    double = net.unit(f"{n}.dbl.2", net.unit(f"{n}.dbl.1", x, 448, 1), 384, 3, 1, 1)
    halves = [
        net.unit(f"{n}.{branch}.{axis}", source, 384, kernel, 1, pad)
        for branch, source in (("3x3", three), ("dbl", double))
        for axis, kernel, pad in (("a", (1, 3), (0, 1)), ("b", (3, 1), (1, 0)))
    ]
    pool = net.unit(f"{n}.pool.1", net.pool(f"{n}.pool", x, 3, 1, 1), 192, 1)
    return net.concat(f"{n}.concat", (one, *halves, pool))
