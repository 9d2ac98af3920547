"""Steps of this process on the disk, and what happens at one of them: the process ends, or no room is left.

A hook of Python's audit events hears of every file before it is written, renamed, removed or read, whichever library
does it. So nothing that is tested is replaced. Arrow and DuckDB open files themselves, and are not heard.
"""

import errno
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

CHANGES = {"os.rename": "rename", "os.remove": "remove", "os.mkdir": "mkdir", "os.rmdir": "rmdir"}
"""Audit event -> kind of the step. A file that is opened is a step of the kind `write` or `read`."""


class Step(NamedTuple):
    """One step: what is done to which file."""

    kind: str
    path: str
    """The file's path; of a rename, the new one."""


Listener = Callable[[Step], None]
"""Hears of a step before it is done; what it raises is raised in place of it."""

_LISTENERS: list[Listener] = []


class Killed(BaseException):
    """The process ends here: no code handles this, but `finally` blocks run."""


def step_of(event: str, arguments: tuple[Any, ...]) -> Step | None:
    """The step of an audit event; None of one about something else than a file."""
    if event == "open":
        return Step("write" if _writes(arguments) else "read", _path(arguments[0]))
    kind = CHANGES.get(event)
    return Step(kind, _path(arguments[1] if kind == "rename" else arguments[0])) if kind else None


def _path(argument: Any) -> str:
    return os.fsdecode(argument) if isinstance(argument, str | bytes | os.PathLike) else ""


def _writes(arguments: tuple[Any, ...]) -> bool:
    mode, flags = arguments[1], arguments[2] or 0
    return bool(flags & (os.O_WRONLY | os.O_RDWR)) if mode is None else any(letter in mode for letter in "wax+")


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _LISTENERS and (step := step_of(event, arguments)):
        for listener in [*_LISTENERS]:
            listener(step)


sys.addaudithook(_hear)


@contextmanager
def heard(listener: Listener) -> Iterator[None]:
    """Inside it, `listener` hears of every step of this process, in all of its threads."""
    _LISTENERS.append(listener)
    try:
        yield
    finally:
        _LISTENERS.remove(listener)


@contextmanager
def steps_at(kind: str, pattern: str) -> Iterator[list[str]]:
    """The paths of all steps of this kind whose path has the pattern, in order, as they come."""
    paths: list[str] = []

    def listen(step: Step) -> None:
        if step.kind == kind and re.search(pattern, step.path):
            paths.append(step.path)

    with heard(listen):
        yield paths


@contextmanager
def ends_at(kind: str, pattern: str, number: int = 1, error: BaseException | None = None) -> Iterator[None]:
    """Raises `error`, by default `Killed`, in place of the `number`-th such step and of all that follow."""
    count = 0

    def listen(step: Step) -> None:
        nonlocal count
        if step.kind == kind and re.search(pattern, step.path):
            count += 1
            if count >= number:
                raise error or Killed

    with heard(listen):
        yield


def full_at(pattern: str) -> AbstractContextManager[None]:
    """No room for files whose path has the pattern, as a context."""
    return ends_at("write", pattern, error=OSError(errno.ENOSPC, "No space left on device"))


@contextmanager
def killed_after(count: int, folder: str) -> Iterator[None]:
    """Lets `count` changes of files below `folder` happen; the next one leaves half a file and raises `Killed`."""
    left = count

    def listen(step: Step) -> None:
        nonlocal left
        if step.kind == "read" or not step.path.startswith(folder):
            return
        left -= 1
        if left < 0:
            if step.kind == "write":
                _LISTENERS.remove(listen)
                with open(step.path, "wb") as half:
                    half.write(b"PAR1 half a file")
                _LISTENERS.append(listen)
            raise Killed

    with heard(listen):
        yield
