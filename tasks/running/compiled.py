"""Compiled loops that are kept on disk, so that a fresh process does not compile them again."""

import hashlib
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core.caching import FunctionCache

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function, **options: Any) -> Function:
    """`function` as machine code, kept beside its file or in the user's cache folder; `options` are numba's.

    It is compiled anew when it, its file, or what it takes from other files has changed. Where nothing can be kept (a
    read-only install without a home) every process compiles it.
    """
    made: Any = numba.njit(nogil=True, **options)(function)
    try:
        made._cache = cast(Any, _Cache)(function)
    except RuntimeError:  # numba: no locator available
        return cast(Function, made)
    return cast(Function, made)


class _Cache(FunctionCache):
    """numba's own looks at the file of a function only, though called functions and constants are compiled into it."""

    def _index_key(self, signature: Any, codegen: Any) -> tuple[Any, ...]:
        return (*cast(Any, super())._index_key(signature, codegen), self._taken)

    @cached_property
    def _taken(self) -> str:
        """At the first call, when everything that the function names exists."""
        return hashlib.sha256(b"\0".join(_taken_by(cast(FunctionType, self._py_func), set()))).hexdigest()


def _taken_by(function: FunctionType, seen: set[FunctionType]) -> Iterator[bytes]:
    """Constants that a function names, files of the compiled functions it names, and all that these take."""
    for name in sorted(_names(function.__code__)):
        value = function.__globals__.get(name)
        inner = getattr(value, "py_func", None) or getattr(value, "_defn", None)  # a compiled function, an intrinsic
        if isinstance(inner, FunctionType):
            if inner not in seen:
                seen.add(inner)
                yield _content(inner.__code__.co_filename)
                yield from _taken_by(inner, seen)
        elif isinstance(value, np.ndarray):
            yield f"{name} {value.dtype} {value.shape}".encode() + value.tobytes()
        elif isinstance(value, bool | int | float | complex | str | bytes | tuple):
            yield f"{name} {value!r}".encode()


def _names(code: CodeType) -> set[str]:
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*map(_names, inner))


@cache
def _content(file: str) -> bytes:
    return hashlib.sha256(Path(file).read_bytes()).digest()
