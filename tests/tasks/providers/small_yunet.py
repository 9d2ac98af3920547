"""A network with YuNet's inputs and outputs that calls every white cell a face: the real weights are a download."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

STRIDES = (8, 16, 32)
FACE_CELLS = 2
"""Side of a face in cells of its stride."""


def write_yunet(file: Path, found_at: int = 8, score: float = 1.0) -> Path:
    """White areas are faces with confidence `score` at the stride `found_at`; the other strides find nothing."""
    nodes, weights, outputs = [], [], []

    def constant(name: str, value: np.ndarray) -> str:
        weights.append(numpy_helper.from_array(value, name))
        return name

    def head(name: str, stride: int, channels: int, slope: float, offsets: list[float]) -> None:
        """One output: a convolution over whole cells, then (1, cells, channels)."""
        kernel = np.zeros((channels, 3, stride, stride), np.float32)
        kernel[:] = slope / (3 * stride * stride)
        constant(f"{name}_w", kernel)
        constant(f"{name}_b", np.array(offsets, np.float32))
        nodes.extend(
            [
                helper.make_node(
                    "Conv", ["input", f"{name}_w", f"{name}_b"], [f"{name}_c"], name=f"{name}_conv",
                    kernel_shape=[stride, stride], strides=[stride, stride],
                ),
                helper.make_node("Transpose", [f"{name}_c"], [f"{name}_t"], perm=[0, 2, 3, 1]),
            ]
        )  # fmt: skip
        last = f"{name}_t"
        if channels == 1:
            nodes.append(helper.make_node("Clip", [last, "zero", "one"], [f"{name}_1"]))
            last = f"{name}_1"
        shape = constant(f"{name}_s", np.array([1, -1, channels], np.int64))
        nodes.append(helper.make_node("Reshape", [last, shape], [name]))

    constant("zero", np.array(0, np.float32))
    constant("one", np.array(1, np.float32))
    for kind, channels in (("cls", 1), ("obj", 1), ("bbox", 4), ("kps", 10)):
        for stride in STRIDES:
            name = f"{kind}_{stride}"
            if channels == 1:
                seen = stride == found_at
                head(name, stride, 1, score / 5 if seen else 0, [-50 * score] if seen else [0])
            else:
                size = [0.5, 0.5, float(np.log(FACE_CELLS)), float(np.log(FACE_CELLS))]
                head(name, stride, channels, 0, size if kind == "bbox" else [0] * 10)
            outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, None, channels]))
    image = helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 3, None, None])
    graph = helper.make_graph(nodes, "yunet", [image], outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), file)
    return file
