"""`curate init`: a commented settings file, with the models that this machine can run."""

import os
import shutil
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from flows.commands.options import option
from flows.running.settings_file import NAME, OF_ONE_RUN, SECRET_VALUE, VERSION, description_of, section_of
from schemas.errors import BadInput, CurateError
from schemas.row import Row
from schemas.settings import Settings, Variable
from tasks.runtime.untrusted import yaml_text

_WIDTH = 116
_HEAD = f"""\
# Settings of every `curate` command in this folder and of every deployment. Options of a command win over this file;
# what stands behind # is the default. Paths are relative to this file. Secrets do not belong here: export
# OPENAI_API_KEY, GEMINI_API_KEY, GOOGLE_APPLICATION_CREDENTIALS, HF_TOKEN and CURATE_USER_KEY in the environment.
# `curate doctor` says what is in force.
version: {VERSION}
"""
_SLOW = "without a GPU, OpenCLIP takes seconds an image; take the line out to use it all the same"


def init(
    models: Annotated[
        Literal["embedded", "self_hosted", "vendors"] | None,
        typer.Option("--models", help="Whose models.", show_default="what keys and weights are found for"),
    ] = None,
    logs: Annotated[str, option("logs")] = "logs",
    store: Annotated[str, option("store")] = "store",
    config: Annotated[
        str | None,
        typer.Option(
            "--config", metavar="FILE", help="File to write.", show_default="that of CURATE_CONFIG, else curate.yaml"
        ),
    ] = None,
) -> None:
    """Write a commented settings file: places, policy, models, budget, topics, benchmark and all else that can be set.

    What is found here decides what it proposes: a GPU, weights in folders, a server, keys of vendors.
    """
    config = config or os.environ.get("CURATE_CONFIG") or NAME
    path = Path(config)
    if path.exists():
        raise BadInput(f"{config!r} is there already; edit it, or give another --config FILE")
    folder = path.absolute().parent
    places = {"logs": _from(folder, logs), "store": _from(folder, store)}
    chosen = models or _found()
    instead = {} if chosen == "embedded" else _not_here(chosen, whole=models is None)
    set_variables = {name: value for name in get_args(Variable) if (value := os.environ.get(name))}
    # an address with a password stays in the environment alone: no command would read a file with it
    environment = {name: value for name, value in set_variables.items() if not SECRET_VALUE.fullmatch(value)}
    values = places | {"models": chosen, "providers": dict(instead), "environment": environment}
    values["retention"] = {"thin_releases": True}
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([_HEAD, *_lines(Settings, values, instead)]), encoding="utf-8")
    print(
        f"{config}: models {chosen}" + "".join(f"\n  {name}: embedded, because {why}" for name, why in instead.items())
    )
    print("next: curate doctor (what is in force, and what is missing), then curate run")


def _from(folder: Path, place: str) -> str:
    """A path as it is named from the folder of the file."""
    return place if "://" in place or Path(place).is_absolute() else os.path.relpath(place, folder)


def _found() -> str:
    """The models that this machine is set up for, by keys, weights and servers in the environment."""
    if any(map(os.environ.get, ("GEMINI_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "CURATE_VISION_ENDPOINT"))):
        return "vendors"
    weights = any(name.endswith("_WEIGHTS") and os.environ.get(name) for name in get_args(Variable))
    self_hosted = weights or os.environ.get("OPENAI_BASE_URL")
    return "self_hosted" if self_hosted else "vendors" if os.environ.get("OPENAI_API_KEY") else "embedded"


def _not_here(models: str, whole: bool) -> dict[str, str]:
    """Capability -> why its model is not proposed: no GPU for OpenCLIP and, with `whole`, what lacks here."""
    from tasks.providers import Providers, model_set

    lacking, gpu = dict[str, str](), shutil.which("nvidia-smi")
    os.environ["HF_HUB_OFFLINE"] = "1"
    for capability, name in model_set(models).items():
        if name == "open_clip" and not gpu:
            lacking[capability] = _SLOW
        elif whole:
            try:
                Providers({capability: name})[capability]
            except CurateError as error:
                lacking[capability] = str(error)
    return lacking


def _lines(row: type[Row], values: Mapping[str, Any], notes: Mapping[str, str], indent: str = "") -> Iterator[str]:
    """A comment and a line for each key; those that are not in `values` are comments, too."""
    for name, field in row.model_fields.items():
        if name in OF_ONE_RUN and not indent:
            continue
        yield from textwrap.wrap(
            _told(name, row), _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# "
        )
        if inner := section_of(field):
            yield from (f"{indent}{name}:", *_lines(inner, values.get(name, {}), {}, f"{indent}  "))
        elif isinstance(value := values.get(name), dict) and value:
            noted = (f"  # {' '.join(notes[key].split())}" if key in notes else "" for key in value)
            yield f"{indent}{name}:"
            yield from (f"{indent}  {key}: {_yaml('embedded' if key in notes else value[key])}{note}"
                        for key, note in zip(value, noted, strict=True))  # fmt: skip
        elif value:
            yield f"{indent}{name}: {_yaml(value)}"
        else:
            yield f"{indent}# {name}: {_yaml(field.get_default(call_default_factory=True))}"
        yield ""


def _told(name: str, row: type[Row]) -> str:
    """Docstring and limits of a field."""
    field = row.model_fields[name]
    # A field states its limits as constraints, each of which may have a lower end, an upper one, or none.
    ends = {
        end: getattr(constraint, end)
        for constraint in field.metadata
        for end in ("ge", "le")
        if hasattr(constraint, end)
    }
    limits = " ".join(f"{word} {ends[end]:g}" for end, word in (("ge", "From"), ("le", "to")) if end in ends)
    return description_of(name, row) + (f" {limits[0].upper()}{limits[1:]}." if limits else "")


def _yaml(value: Any) -> str:
    plain = value.value if hasattr(value, "value") else value
    return yaml_text(plain, default_flow_style=True, allow_unicode=True).removesuffix("...\n").strip()
