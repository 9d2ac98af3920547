"""Settings shared by every embedded ONNX model."""

import onnxruntime


def one_thread() -> onnxruntime.SessionOptions:
    """One thread per call: the pipeline runs as many calls side by side as there are cores."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # pictures differ in size, and an arena keeps the largest of every size
    options.log_severity_level = 3
    return options
