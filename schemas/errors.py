"""Errors that a user can fix, with one clear line and an exit status.

    CurateError                 one clear line on stderr, exit status 2
    ├── BadInput                a folder, file, date or id that cannot be used
    ├── BadPolicy               a policy file with an unknown key, signal or value
    ├── MissingProvider         a model or API that is not installed or has no key
    ├── ReleaseConflict         a version that exists already with other content
    ├── UnsafeName              a model, dataset or id that names somebody: nothing is released
    ├── CanaryEscaped           a planted probe that was not caught: nothing may be released
    ├── DriftHeld               a rule drops more or less than it used to: nothing is released yet; status 3
    ├── ProviderHeld            a provider failed, or did not measure most items: nothing is released yet; status 3
    ├── LogsHeld                a log file lost lines that were read: nothing is released yet; status 3
    ├── BudgetHeld              a run would cost more than it may spend: nothing is sent yet; status 3
    ├── StoreBusy               another run is writing to the store
    ├── StoreUnwell             the disk is full, or the store cannot be reached or is damaged
    ├── EngineUnwell            Prefect's server does not start or answer, or workers end
    └── HubError                the Hugging Face Hub refuses, or cannot be reached

Malformed log lines and images are not errors: they become rows of `rejects`. Error texts name a setting as the command
line does, `--since DAY`; `spoken` gives them the words of each interface.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Any


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


class UnsafeName(CurateError):
    """A name of a model or dataset, or an id, that identifies somebody; the text says what to rename."""


class CanaryEscaped(CurateError):
    """A planted probe got through the policy; the text names it."""


class DriftHeld(CurateError):
    """A run that stops before its release because a drop share changed; the text says which and how to continue."""

    exit_status = 3


class ProviderHeld(CurateError):
    """A run that stops before its release because too much is not measured; the text says by which provider."""

    exit_status = 3


class LogsHeld(CurateError):
    """A run that stops before its release because a log file lost lines; the text says which, how many, what to do."""

    exit_status = 3


class BudgetHeld(CurateError):
    """A run that stops before it asks a paid service; the text says what it would cost, what is left and what to do."""

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


_OF_VALUES = {
    "missing": "is missing",
    "extra_forbidden": "is no key",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must have keys and values",
    "model_type": "must have keys and values",
    "date_parsing": "must be a day, YYYY-MM-DD",
    "date_from_datetime_parsing": "must be a day, YYYY-MM-DD",
    "date_type": "must be a day, YYYY-MM-DD",
    "datetime_parsing": "must be a day or a time, such as 2024-06-01 or 2024-06-01T12:00:00Z",
    "datetime_from_date_parsing": "must be a day or a time, such as 2024-06-01 or 2024-06-01T12:00:00Z",
    "datetime_type": "must be a day or a time, such as 2024-06-01 or 2024-06-01T12:00:00Z",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "string_pattern_mismatch": "must match {pattern}",
    "string_too_short": "must have at least {min_length} character(s)",
    "string_too_long": "must have at most {max_length} character(s)",
    "too_short": "must have at least {min_length}",
    "too_long": "must have at most {max_length}",
    "json_invalid": "is not JSON ({error})",
    "value_error": "{error}",
}
"""Type of a pydantic error -> what is said of the value, with the names of the error's context."""


def problem_in_words(problem: Mapping[str, Any]) -> str:
    """Words for what is wrong with a value, such as `must be at least 1`, from one entry of `ValidationError.errors()`.

    Types of errors that no field here has met keep pydantic's own words.
    """
    wording = _OF_VALUES.get(str(problem["type"]), str(problem["msg"]).replace("{", "{{").replace("}", "}}"))
    return wording.format(**problem.get("ctx", {}))


def why_refused(error: Exception) -> str:
    """The first line of an error of ours, or what is wrong with the first value that a model refused."""
    if not hasattr(error, "errors"):
        return str(error).splitlines()[0]
    (problem, *_) = error.errors()
    return " ".join(filter(None, [".".join(map(str, problem["loc"])), problem_in_words(problem)]))


def install_command(extra: str) -> str:
    """The command that adds an extra of this package: in a clone with its pinned versions, else by plain pip."""
    in_clone = (Path(__file__).parent.parent / "constraints.txt").is_file()
    if in_clone:
        return f'.venv/bin/uv pip install -c constraints.txt -e ".[{extra}]"'
    return f'pip install "arena-curation[{extra}]"'


def known_values(value: str, allowed: Iterable[str]) -> str:
    """`'nsfw_imge'. Known: faces, nsfw. Did you mean nsfw?`, for the end of an error line."""
    allowed = sorted(allowed)
    near = get_close_matches(value, allowed, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"{value!r}. Known: {', '.join(allowed) or 'none'}.{hint}"


def window_in_words(since: date | None, until: date | None) -> str:
    """`from --since 2024-06-01 to --until 2024-06-30`, or only the end that is given, for an error line."""
    if until is None:
        return f"from --since {since} on"
    return f"up to --until {until}" if since is None else f"from --since {since} to --until {until}"


OPTION_SETTINGS = {
    **{name: f"evaluate.{name}" for name in ("baseline", "hidden", "judge", "models", "protocol", "sample")},
    "bench-release": "evaluate.bench_release",
    "anchor": "anchor_model",
    "budget": "budget_usd",
    "provider": "providers",
    "slice": "slices",
}
"""Option -> setting or parameter, where the setting is not the option with underscores."""
OPTIONS = (
    "accept-drift", "accept-embedded", "accept-shrunk", "baseline", "batch", "bench-release", "batch-hours",
    "bootstraps", "budget",
    "cluster", "config", "format", "hidden", "images", "judge",
    "judge-version", "known-hashes", "logs", "models", "policy", "presets", "prices", "prompts", "protocol", "provider",
    "public", "release", "repo", "sample", "seed", "since", "slice", "source", "store", "table",
    "unmask", "until", "with-answers", "workers",
)  # fmt: skip
"""Options that are settings or parameters of a flow, too."""
_FLAGS = {"accept_drift", "accept_shrunk"}
"""Settings that are true where their option stands."""
_COMMANDS = re.compile(r"(`[^`]*`)")
_QUOTED = r"'[^']*'|\"[^\"]*\""
_OPTION = re.compile(rf"--({'|'.join(OPTIONS)})\b(?!-)(?: ({_QUOTED}|\d(?:[^\s;,:)]*\w)?|[A-Z]{{2,}}\b))?")
_SET = re.compile(rf"--set ([a-z_]+(?:\.[\w.-]*\w)?)(?:=({_QUOTED}|[^\s;,)]*[\w…]))?")
_PROVIDER = re.compile(r"--provider (\w+)=(\w+)")
_WORDS = {"yes": ("true", "True"), "no": ("false", "False"), "none": ("null", "None")}
"""Value on the command line -> in JSON, and in Python."""
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")
_on_the_command_line = False


@contextmanager
def on_command_line() -> Iterator[None]:
    """Errors inside are for a reader of the command line."""
    global _on_the_command_line
    outside, _on_the_command_line = _on_the_command_line, True
    try:
        yield
    finally:
        _on_the_command_line = outside


def spoken(text: str) -> str:
    """The text for where it will be read: the command line, a deployment's run in Prefect, or Python.

    `--since 2024-06-01` becomes `field "since" 2024-06-01` in a run of a worker and `since=2024-06-01` in Python,
    `--set topics.engine=umap` becomes `field "topics" {"engine": "umap"}` and `topics={"engine": "umap"}`. Commands in
    backticks stay.
    """
    if _on_the_command_line:
        return text
    of_form = "PREFECT__FLOW_RUN_ID" in os.environ  # set by Prefect's workers
    parts = _COMMANDS.split(text)
    return "".join(part if part.startswith("`") else _renamed(part, of_form) for part in parts)


def _renamed(text: str, of_form: bool) -> str:
    example = r'field "providers" {"\1": "\2"}' if of_form else r'providers={"\1": "\2"}'
    text = _SET.sub(lambda option: _setting(option[1], option[2], of_form), _PROVIDER.sub(example, text))
    return _OPTION.sub(
        lambda option: _setting(OPTION_SETTINGS.get(option[1], option[1].replace("-", "_")), option[2], of_form), text
    )


def _setting(name: str, value: str | None, of_form: bool) -> str:
    """A setting, with a value so that both can be pasted: a key of a section stands inside of its section."""
    section, _, key = name.partition(".")
    if name in _FLAGS:
        value = "true" if of_form else "True"
    if value is None:
        return (f'"{key}" of field "{section}"' if key else f'field "{section}"') if of_form else name
    if key:
        value = f'{{"{key}": {_as_value(value, of_form)}}}'
    elif value in _WORDS:
        value = _as_value(value, of_form)
    return f'field "{section}" {value}' if of_form else f"{section}={value}"


def _as_value(written: str, of_form: bool) -> str:
    """A value of the command line as JSON, or as Python writes it."""
    if words := _WORDS.get(written):
        return words[0 if of_form else 1]
    return written if _NUMBER.fullmatch(written) else json.dumps(written.strip("'\""), ensure_ascii=False)
