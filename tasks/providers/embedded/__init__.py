"""Defaults: real models that ship inside installed packages. Deterministic, no network, no keys, no torch.

In: decoded images, texts, documents. Out: what the Protocols of `capabilities.py` promise.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnxruntime


def one_thread() -> "onnxruntime.SessionOptions":
    """Options of every embedded ONNX session: one thread a call, because as many calls run as there are cores."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # images differ in size, and an arena keeps the largest of every size
    options.log_severity_level = 3
    return options
