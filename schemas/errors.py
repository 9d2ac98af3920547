"""Errors that a user can fix, with one clear line and an exit status.

    CurateError                 one clear line on stderr, exit status 2
    ├── BadInput                a folder, file, date or id that cannot be used
    ├── BadPolicy               a policy file with an unknown key, signal or value
    ├── MissingProvider         a model or API that is not installed or has no key
    ├── ReleaseConflict         a version that exists already with other content
    ├── CanaryEscaped           a planted probe that was not caught: nothing may be released
    ├── DriftHeld               a rule drops more or less than it used to: nothing is released yet; status 3
    ├── ProviderHeld            a chosen provider failed for too many items: nothing is released yet; status 3
    ├── StoreBusy               another run is writing to the store
    ├── StoreUnwell             the disk is full, or the store cannot be reached or is damaged
    ├── EngineUnwell            Prefect's server does not start or answer, or workers end
    └── HubError                the Hugging Face Hub refuses, or cannot be reached

Malformed log lines and images are not errors: they become rows of `rejects`.
"""

from collections.abc import Iterable
from difflib import get_close_matches

from schemas.spoken import spoken


class CurateError(Exception):
    """Base of all errors that a user can fix. The text gives the value, what is allowed and what to do next."""

    exit_status = 2

    def __str__(self) -> str:
        """The text, with settings named as in the interface where it is read: an option, a field or an argument."""
        return spoken(super().__str__())


class BadInput(CurateError):
    """A path, date, id or option value that cannot be used."""


class BadPolicy(CurateError):
    """A policy file with an unknown key, signal or value."""


class MissingProvider(CurateError):
    """A provider whose package, weights or key is missing; the text says how to get it."""


class ReleaseConflict(CurateError):
    """A release version that exists with different content; releases are never edited."""


class CanaryEscaped(CurateError):
    """A planted probe got through the policy; the text names it."""


class DriftHeld(CurateError):
    """A run that stops before its release because a drop share changed; the text says which and how to continue."""

    exit_status = 3


class ProviderHeld(CurateError):
    """A run that stops before its release because a chosen provider failed; the text says which, why and how often."""

    exit_status = 3


class StoreBusy(CurateError):
    """Another run is writing to the store; the text says since when."""


class StoreUnwell(CurateError):
    """The store is full, cannot be reached or has lost files; the text says what to do."""


class EngineUnwell(CurateError):
    """The Prefect server does not start or answer, or workers end; the text says what to do instead."""


class HubError(CurateError):
    """The Hugging Face Hub refuses a request, or still fails after several attempts."""


_OF_OBJECT_STORES = {
    "NoCredentialsError": "no credentials in the environment",
    "PermissionError": "access denied",
    "FileNotFoundError": "no such bucket",
    "EndpointConnectionError": "nothing answers at its address",
}
"""Class names of object-store errors that have no message of their own -> what they mean."""


def why_unreadable(error: Exception) -> str:
    """A reason such as `No such file or directory`, else the error's class; never its text, which may quote data."""
    answer = getattr(error.__cause__, "response", None)  # the response of an object store
    reason = None if answer else getattr(error, "strerror", None)
    kind = type(error).__name__
    return reason or _OF_OBJECT_STORES.get(kind, kind)


def known_values(value: str, allowed: Iterable[str]) -> str:
    """`'nsfw_imge'. Known: faces, nsfw. Did you mean nsfw?`, for the end of an error line."""
    allowed = sorted(allowed)
    near = get_close_matches(value, allowed, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"{value!r}. Known: {', '.join(allowed) or 'none'}.{hint}"
