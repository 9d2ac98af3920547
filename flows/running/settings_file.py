"""The settings file, `curate.yaml`: its keys are the fields of `Settings`, and hold where a run gives none.

Commands read it when they start, and so does every run of a deployment: a changed file needs no new deploy. Paths are
relative to its folder. Secrets are refused; keys of services are variables of the environment.
"""

import os
import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from schemas.errors import BadInput, CurateError, problem_in_words, why_unreadable
from schemas.row import Row, field_descriptions
from schemas.settings import NAME_OR_PLACE, PLACE, Settings
from tasks.runtime.memory import use_limits
from tasks.runtime.parallel import use_device
from tasks.runtime.untrusted import UniqueKeys, parse_yaml, why_no_yaml

NAME, VERSION = "curate.yaml", 1
"""Name of the file, and the value of its key `version`: raised when a key means something else."""
OF_ONE_RUN = ("config", "accept_drift", "accept_shrunk", "release", "since", "until")
"""Keys that no file may hold, because they are about one run: an alarm that is always accepted is none."""
_IN_PLACE_OF = {"logs": "source"}
"""Key that must be given -> key that may be given in its place."""
_SECRET_NAME = re.compile(r"(?:^|_)(?:api_?)?(?:key|token|secret|password|passwd|credentials?)s?$", re.I)
SECRET_VALUE = re.compile(
    r"(?:sk-|hf_|gh[pousr]_|xox[abprs]-)[\w-]{16,}|AKIA[A-Z0-9]{16}|AIza[\w-]{30,}|\w+://[^/\s:]*:[^/\s@]+@.*"
)
"""Keys of vendors by their first letters, and addresses with a password."""
_SET_HERE: dict[str, str] = {}
"""Variables of the environment that a settings file set in this process."""


def found(config: str | None, store: str | None) -> Path | None:
    """The file that is named, or that of the store; else CURATE_CONFIG, that of the folder, or that of CURATE_STORE.

    The file of a store, `curate.yaml`, lies beside it. None where there is none; one that is named may be missing.
    """
    if config is not None:
        return Path(config)
    if (of_store := _beside(store)) is not None:
        return of_store
    if named := os.environ.get("CURATE_CONFIG"):
        return Path(named)
    return Path(NAME) if Path(NAME).is_file() else _beside(os.environ.get("CURATE_STORE"))


def _beside(store: str | None) -> Path | None:
    """The settings file beside a store, if there is one."""
    path = Path(store).absolute().parent / NAME if store and "://" not in store else None
    return path if path is not None and path.is_file() else None


def with_store(values: dict[str, Any]) -> dict[str, Any]:
    """The values, with the store of CURATE_STORE where neither the command line nor the file names one."""
    store = values.get("store") or os.environ.get("CURATE_STORE")
    return {**values, "store": store} if store else values


def read(path: Path) -> dict[str, Any]:
    """The values of a settings file, paths from its folder. Raises BadInput for the first error; no secret is shown."""
    where = f"settings file {str(path)!r}"
    try:
        values = parse_yaml(path.read_text(encoding="utf-8"), UniqueKeys) or {}
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{where} cannot be read ({why_unreadable(error)}); `curate init` writes one") from None
    except yaml.YAMLError as error:
        raise BadInput(f"{where} is not YAML: {why_no_yaml(error)}; `curate init` writes one") from None
    if not isinstance(values, dict):
        raise BadInput(f"{where}: give KEY: VALUE lines, as `curate init` writes them")
    if (version := values.pop("version", VERSION)) != VERSION:
        raise BadInput(
            f"{where} is of version {version!r}, and this program reads {VERSION}: use the version that wrote it"
        )
    _check_keys(where, values)
    placed = _placed(values, path.absolute().parent, Settings)
    try:
        Settings(**{"store": "", **placed})
    except ValidationError as error:
        problem = error.errors(include_input=False)[0]
        raise BadInput(f"{where}: {'.'.join(map(str, problem['loc']))}: {problem_in_words(problem)}") from None
    return placed


def in_force(settings: Settings) -> Settings:
    """The settings of a run: what is given, else what its file says; and the providers that `models` stands for."""
    values = settings.model_dump(exclude_unset=True)
    if settings.config is not None:
        values = with_store(merged(read(Path(settings.config)), values))
        if not values.get("store"):
            raise BadInput(f"settings file {settings.config!r} names no store, and none is given; add the key store")
    return Settings(**with_models(values))


def deployed() -> dict[str, str]:
    """A build step of prefect.yaml: the path of the file that every deployment will read whenever it runs.

    CURATE_CONFIG names it, or else it is `curate.yaml` here or beside CURATE_STORE. Ends `prefect deploy` with one line
    when it is unusable; else the coming runs are named when `prefect deploy` ends.
    """
    path = found(None, None) or Path(NAME)
    try:
        missing = keys_without_value(with_store(read(path)), ("logs", "store"))
        if missing:
            raise BadInput(f"settings file {str(path)!r}: {' and '.join(missing)} must be given for a deployment")
    except CurateError as error:
        raise SystemExit(f"prefect deploy: {error}; deploy again when it is right (docs/operating.md)") from None
    from flows.running.run_names import name_after_deploying  # commands read settings without Prefect

    name_after_deploying()
    return {"config": str(path.resolve())}


def keys_without_value(values: Mapping[str, Any], needed: Iterable[str]) -> list[str]:
    """The needed keys, also those of sections, that have no value, nor another key in their place."""
    keys = ((key, _IN_PLACE_OF.get(key, key)) for key in needed)
    return [key for key, other in keys if not (_has_value(values, key) or _has_value(values, other))]


def _has_value(values: Mapping[str, Any], key: str) -> bool:
    section, _, name = key.rpartition(".")
    of_section = values.get(section) or {} if section else values
    return of_section.get(name) not in (None, "")


def with_models(values: dict[str, Any]) -> dict[str, Any]:
    """The values with a provider for each capability that `models` chooses; sets up environment, device and limits."""
    for name, value in values.get("environment", {}).items():
        if os.environ.get(name, "") in ("", _SET_HERE.get(name)):
            os.environ[name] = _SET_HERE[name] = value
    use_device(str(values.get("device", "auto")))
    use_limits(values.get("memory_gb"), values.get("spill_gb"))
    if values.get("models", "embedded") == "embedded":
        return values
    from tasks.providers import model_set

    return {**values, "providers": model_set(values["models"], "generate" in values) | values.get("providers", {})}


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Both, where `over` wins key by key, also inside sections."""
    both = {**under, **over}
    return both | {
        key: merged(under[key], over[key])
        for key in under.keys() & over.keys()
        if isinstance(under[key], Mapping) and isinstance(over[key], Mapping)
    }


def keys_of(row: type[Row] = Settings) -> list[str]:
    """Every key, those of sections as `topics.engine`."""
    sections = {name: section_of(field) for name, field in row.model_fields.items()}
    return [
        key
        for name, inner in sections.items()
        for key in ([f"{name}.{subkey}" for subkey in keys_of(inner)] if inner else [name])
    ]


def field_of(key: str, row: type[Row] = Settings) -> FieldInfo:
    """The field of a key such as `seed` or `topics.engine`."""
    inner, name = _place_of(key, row)
    return inner.model_fields[name]


def description_of(key: str, row: type[Row] = Settings) -> str:
    """The docstring of a key's field in one line."""
    inner, name = _place_of(key, row)
    return " ".join(field_descriptions(inner).get(name, "").split())


def _place_of(key: str, row: type[Row]) -> tuple[type[Row], str]:
    """The row that has the field of a key, and the field's name."""
    section, _, name = key.rpartition(".")
    inner = section_of(row.model_fields[section]) if section else row
    assert inner is not None
    return inner, name


def section_of(field: FieldInfo) -> type[Row] | None:
    """The model of a section; None for a field that is a value."""
    inner = field.annotation
    return inner if isinstance(inner, type) and issubclass(inner, Row) else None


def _check_keys(where: str, values: Mapping[str, Any]) -> None:
    """Raises BadInput for a key that is none, is about one run, or looks like a secret."""
    allowed_keys = [key for key in keys_of() if key not in OF_ONE_RUN]
    sections = {key.partition(".")[0] for key in allowed_keys if "." in key}
    for key, value in _flat(values, sections):
        section, _, name = key.rpartition(".")
        by_name = section != "providers" and _SECRET_NAME.search(name)
        texts = [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]
        if by_name or any(SECRET_VALUE.fullmatch(text) for text in texts):
            variable = name.upper() if by_name else "it"
            raise BadInput(f"{where}: {key} holds a secret, and files are copied; take it out, and export {variable}")
        if key in OF_ONE_RUN:
            raise BadInput(f"{where}: {key} is about one run; give --{key.replace('_', '-')} to that run")
        whole = next(
            (allowed_key for allowed_key in allowed_keys if key == allowed_key or key.startswith(f"{allowed_key}.")),
            None,
        )
        if whole is None:
            if key in sections:
                raise BadInput(f"{where}: {key} has keys of its own; give them below it, further in")
            near = get_close_matches(key, [*allowed_keys, *sections], n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else "`curate init` writes every key"
            raise BadInput(f"{where}: unknown key {key!r}; {hint}")


def _flat(values: Mapping[Any, Any], sections: typing.Container[str], section: str = "") -> Iterator[tuple[str, Any]]:
    """(key, value) of everything in a file, `topics.engine` and `providers.nsfw` in dotted form."""
    for name, value in values.items():
        key = f"{section}{name}"
        if isinstance(value, dict) and value:
            yield from _flat(value, sections, f"{key}.")
        elif not (key in sections and value in (None, {})):
            yield key, value


def _placed(values: Mapping[str, Any], folder: Path, row: type[Row]) -> dict[str, Any]:
    """The values with paths from the folder of the file; an empty section is left out."""
    placed = dict[str, Any]()
    for name, value in values.items():
        field = row.model_fields[name]
        if inner := section_of(field):
            placed |= {name: _placed(value, folder, inner)} if value else {}
        else:
            several = isinstance(value, list)
            placed_values = [_place(one, folder, field.metadata) for one in (value if several else [value])]
            placed[name] = placed_values if several else placed_values[0]
    if isinstance(variables := placed.get("environment"), dict):
        of_folders = {name: value for name, value in variables.items() if str(name).endswith("_WEIGHTS")}
        placed["environment"] = variables | {name: _place(value, folder, [PLACE]) for name, value in of_folders.items()}
    return placed


def _place(value: Any, folder: Path, marks: typing.Sequence[Any]) -> Any:
    is_path = isinstance(value, str) and value and "://" not in value
    if is_path and (PLACE in marks or (NAME_OR_PLACE in marks and (folder / value).exists())):
        return str(folder / Path(value).expanduser())
    return value
