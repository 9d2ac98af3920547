"""Default providers: models that ship inside installed packages. Deterministic; no network, no keys, no torch.

In: decoded images, texts, documents. Out: the return types of the Protocols in `capabilities.py`.
"""

from typing import TYPE_CHECKING

from tasks.runtime.parallel import execution_providers

if TYPE_CHECKING:
    import onnxruntime


def onnx_session(model: bytes, on_cpu: bool = False) -> "onnxruntime.InferenceSession":
    """A session of a serialized model with one thread per call, because one call runs per core.

    It runs on the chosen device unless `on_cpu` is set: for models in 8 bits, whose products no card has, and for
    images of any size, since CUDA prepares for each new size, which takes about a second.
    Raises BadInput or MissingProvider where a card is demanded and cannot be used.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # images differ in size, and an arena keeps the largest of every size
    options.log_severity_level = 3
    if on_cpu:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return onnxruntime.InferenceSession(model, options, providers=execution_providers())
