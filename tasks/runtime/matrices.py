"""Matrices on the device that multiplies them: numpy's on the CPU, torch's on a card.

Both give products of float32 that differ in their last digits, and torch may round to TF32. So callers take products
for candidates only, and compute what they keep again on the CPU.
"""

from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

CPU, CARD = "cpu", "cuda"
PRODUCT_ERROR = 4e-3
"""More than the error of any product of unit vectors; TF32 keeps 10 bits of each factor."""


def product_device() -> str:
    """`cuda` where this process may use a card and has torch with CUDA, else `cpu`.

    Raises BadInput where the setting is `cuda` and this process sees no card.
    """
    from tasks.runtime.parallel import on_card

    return CARD if on_card() and _torch_on_card() else CPU


@cache
def _torch_on_card() -> bool:
    if find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def on_device(matrix: npt.NDArray[np.float32], device: str) -> Any:
    """A matrix on its device; both kinds have `@`, `.T`, `.max()` and comparisons."""
    if device == CPU:
        return matrix
    import torch

    return torch.from_numpy(np.asarray(matrix)).to(device)


def places(chosen: Any) -> npt.NDArray[np.int64]:
    """int64 (2, n): rows and columns of the true cells of a boolean matrix, in order."""
    if isinstance(chosen, np.ndarray):
        return np.stack(np.nonzero(chosen))
    found: npt.NDArray[np.int64] = chosen.nonzero().T.cpu().numpy()
    return found
