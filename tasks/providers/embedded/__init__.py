"""Default providers: models that ship inside installed packages. Deterministic; no network, no keys, no torch.

In: decoded images, texts, documents. Out: the return types of the Protocols in `capabilities.py`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnxruntime


def one_thread() -> "onnxruntime.SessionOptions":
    """Options of every embedded ONNX session: one thread per call, because one call runs per core."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # images differ in size, and an arena keeps the largest of every size
    options.log_severity_level = 3
    return options
