"""Compiled loops that are kept on disk, so that a fresh process does not compile them again."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function, **options: Any) -> Function:
    """`function` as machine code, kept beside its file or in the user's cache folder; `options` are numba's.

    Where neither can be written to (a read-only install without a home) every process compiles it anew.
    """
    try:
        return cast(Function, numba.njit(cache=True, nogil=True, **options)(function))
    except RuntimeError:  # numba: no locator available
        return cast(Function, numba.njit(nogil=True, **options)(function))
