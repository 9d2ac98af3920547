"""What can go wrong because of what a person gave us.

    CurateError                 one clear line on stderr, exit status 2
    ├── BadInput                a folder, file, date or id that cannot be used
    ├── BadPolicy               a policy file with an unknown key, signal or value
    ├── MissingProvider         a model or API that is not installed or has no key
    ├── ReleaseConflict         a version that exists already with other content
    ├── CanaryEscaped           a planted probe that was not caught: nothing may be released
    ├── DriftHeld               a rule drops more or less than it used to: nothing is released yet; status 3
    ├── StoreUnwell             a disk that is full, a store that cannot be reached or is damaged
    ├── EngineUnwell            Prefect's server does not start
    └── HubError                the Hugging Face Hub refuses, or cannot be reached

Malformed log lines and pictures are not errors: they become rows of `rejects`.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class CurateError(Exception):
    """Base of all errors that a user can mend; the text says what, the value, what is allowed."""

    exit_status = 2


class BadInput(CurateError):
    """A path, date, id or option value that cannot be used."""


class BadPolicy(CurateError):
    """A policy file that does not say something this version understands."""


class MissingProvider(CurateError):
    """A provider whose package, weights or key is absent; the text is the way to get it."""


class ReleaseConflict(CurateError):
    """A release version that exists with different content; releases are never edited."""


class CanaryEscaped(CurateError):
    """A planted probe got through the policy; the text names it."""


class DriftHeld(CurateError):
    """A run that waits for somebody to look before it releases; the text says at what, and how it goes on."""

    exit_status = 3


class StoreUnwell(CurateError):
    """The place where the store lies is full or cannot be reached, or files are lost; the text says what to do."""


class EngineUnwell(CurateError):
    """The Prefect server of a command does not start; the text says what to do instead."""


class HubError(CurateError):
    """The Hugging Face Hub refuses, or stays unwell after several attempts."""


_OF_OBJECT_STORES = {
    "NoCredentialsError": "no credentials in the environment",
    "PermissionError": "access denied",
    "FileNotFoundError": "no such bucket",
    "EndpointConnectionError": "nothing answers at its address",
}
"""What errors without a reason of their own mean: those of object stores, by the names of their classes."""


def why_unreadable(error: Exception) -> str:
    """`No such file or directory`, else the kind of the error; never its text, which may quote what was read."""
    answer = getattr(error.__cause__, "response", None)  # what an object store said, with a text of its own
    reason = None if answer else getattr(error, "strerror", None)
    kind = type(error).__name__
    return reason or _OF_OBJECT_STORES.get(kind, kind)


def known_values(value: str, allowed: Iterable[str]) -> str:
    """`'nsfw_imge'. Known: faces, nsfw. Did you mean nsfw?`, for the end of an error line."""
    allowed = sorted(allowed)
    near = get_close_matches(value, allowed, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"{value!r}. Known: {', '.join(allowed)}.{hint}"
