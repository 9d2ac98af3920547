"""Error texts name a setting as the command line does, `--since DAY`; here they get the words of each interface."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

SETTINGS = {
    **{name: f"evaluate.{name}" for name in ("baseline", "hidden", "judge", "models", "protocol", "sample")},
    "bench-release": "evaluate.bench_release",
    "anchor": "anchor_model",
    "budget": "budget_usd",
    "provider": "providers",
    "slice": "slices",
}
"""Option -> setting or parameter, where the setting is not the option with underscores."""
OPTIONS = (
    "accept-drift", "accept-embedded", "baseline", "batch", "bench-release", "batch-hours", "bootstraps", "budget",
    "cluster", "config", "format", "hidden", "images", "judge",
    "judge-version", "known-hashes", "logs", "models", "policy", "presets", "prices", "prompts", "protocol", "provider",
    "public", "release", "repo", "sample", "seed", "since", "slice", "store", "table",
    "until", "with-answers", "workers",
)  # fmt: skip
"""Options that are settings or parameters of a flow, too."""
_COMMANDS = re.compile(r"(`[^`]*`)")
_OPTION = re.compile(rf"--({'|'.join(OPTIONS)})\b(?!-)( (?=['\"\d]|[A-Z]{{2,}}\b))?")
_SET = re.compile(r"--set ([a-z_.]+)(=?)")
_PROVIDER = re.compile(r"--provider (\w+)=(\w+)")
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

    `--since 2024-06-01` becomes `field "since" 2024-06-01` in a run of a worker and `since=2024-06-01` in Python.
    Commands in backticks stay.
    """
    if _on_the_command_line:
        return text
    of_form = "PREFECT__FLOW_RUN_ID" in os.environ  # set by Prefect's workers
    parts = _COMMANDS.split(text)
    return "".join(part if part.startswith("`") else _renamed(part, of_form) for part in parts)


def _renamed(text: str, of_form: bool) -> str:
    example = r'field "providers" {"\1": "\2"}' if of_form else r'providers={"\1": "\2"}'
    text = _SET.sub(lambda found: f'field "{found[1]}"{found[2] and " "}' if of_form else found[1] + found[2], text)
    return _OPTION.sub(lambda found: _setting(found, of_form), _PROVIDER.sub(example, text))


def _setting(found: re.Match[str], of_form: bool) -> str:
    name = SETTINGS.get(found[1], found[1].replace("-", "_"))
    return f'field "{name}"{found[2] or ""}' if of_form else f"{name}=" if found[2] else name
