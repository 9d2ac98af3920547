"""Options made from the fields of a settings model, where name, type, range, default and help are said once.

    @takes("logs", "store", "policy", required=("logs",))
    def run(settings: Settings, as_json: JsonOption = False) -> None:

is the command `run --logs --store --policy --set --config --json`: `--set KEY=VALUE` gives any other key of the model,
and the settings file those that the command line does not give.
"""

import inspect
import math
import types
import typing
from collections.abc import Callable, Container, Iterable, Mapping
from copy import deepcopy
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from flows.commands.tables import note, print_rows
from flows.running import settings_file
from flows.running.settings_file import description_of, field_of, keys_of
from schemas.errors import OPTION_SETTINGS, BadInput, known_values, problem_in_words
from schemas.publication import Compat
from schemas.row import Row
from schemas.settings import Settings
from tasks.policy import SHIPPED_POLICIES
from tasks.prompts import replaced_prompts

if TYPE_CHECKING:
    from tasks.storage.queries.signals import Versions
    from tasks.storage.tables import Store

Made = TypeVar("Made", bound=Row)
_NAMES = {key: option for option, key in OPTION_SETTINGS.items()} | {
    "evaluate.generated": "bench", "generate.name": "bench", "written.name": "bench",
    "evaluate.submitted_as": "model",
}  # fmt: skip
"""Key -> option, where the option is not the key's last word with hyphens."""
_METAVAR_OF: dict[Any, str] = {str: "TEXT", list[str]: "TEXT", int: "N", float: "N", bool: ""}
_METAVARS = {
    "providers": "CAPABILITY=NAME", "config": "FILE", "accept_embedded": "NAME", "anchor_model": "MODEL=RATING",
    "since": "DAY", "until": "DAY", "models": "NAME", "logs": "DIR", "store": "DIR", "images": "DIR", "presets": "DIR",
    "prompts": "DIR", "known_hashes": "FILE", "prices": "FILE", "release": "VERSION", "judge_version": "VERSION",
    "source": "ADDRESS",
}  # fmt: skip
_KNOWN: dict[str, Iterable[str]] = {"policy": SHIPPED_POLICIES}
"""Key -> values that the help lists and the shell completes; others are allowed, too."""


def _list_formats(value: str | None) -> str | None:
    """Print all formats in place of the command for `--format list`, which needs no logs and no store."""
    if value == "list":
        from tasks.ingest.formats import format_rows

        print_rows("formats", format_rows())
        raise typer.Exit
    return value


_LISTS: dict[str, Callable[[str | None], str | None]] = {"format": _list_formats}
"""Key -> what prints its values and ends the command when the option's value asks for them."""


def takes(
    *keys: str, row: type[Row] = Settings, required: Iterable[str] = (), shared: Container[str] | None = None,
    others: bool = True, **defaults: Any,
) -> Callable[[Callable[..., None]], Callable[..., None]]:  # fmt: skip
    """Decorator: a command whose options are these keys of a model, `--set`, `--config`, and the function's parameters.

    The function is called with the model first. `defaults` replace the model's for this command, also of keys that are
    no option of it, and the settings file's unless they are keys of a section, such as `topics.engine`. `shared` are
    the keys that the settings file may give: by default all, and none for another model. Without `others` there is
    no `--set`.
    """
    fields = {key: field_of(key, row) for key in keys}
    needed = {*required, *(key for key, field in fields.items() if field.is_required() or key == "store")} - {*defaults}
    default_of = {key: defaults.get(key, _default(field)) for key, field in fields.items()}
    of_file = shared if shared is not None else row.model_fields if row is Settings else ()

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        def command(ctx: typer.Context, **option_values: Any) -> None:
            stated: dict[str, Any] = {}
            for text in option_values.pop("others", None) or ():
                _put(stated, *_set(text, row))
            for key in keys:
                value, source = option_values.pop(_name(key), None), ctx.get_parameter_source(_name(key))
                if source is not None and source.name == "COMMANDLINE":
                    for name, parsed in _parsed(key, value).items():
                        _put(stated, name, parsed)
            values = _of_file(row, of_file, option_values.pop("config", None), stated.get("store"))
            for key, value in deepcopy(defaults).items():
                if "." not in key or not _holds(values, key):
                    _put(values, key, value)
            settings = _merged(row, values, stated, needed, keys)
            with replaced_prompts(getattr(settings, "prompts", None)):
                function(settings, **option_values)

        own_parameters = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        options = [_as_parameter(key, row, default_of[key]) for key in keys]
        options += ([_others(row)] if others else []) + ([_CONFIG] if of_file else [])
        parameters = [
            _CONTEXT,
            *options,
            *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own_parameters),
        ]
        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorated


def settings_in_force(stated: Mapping[str, Any], needed: Iterable[str] = (), **defaults: Any) -> Settings:
    """The settings of a call from Python: what is stated, else what the settings file says, as for a command.

    Keys are those of the file, sections mappings. `needed`: keys that must be given. `defaults` win over the file.
    Raises BadInput for a key that is none, a value that cannot be used, and a needed key that is missing.
    """
    if unknown := sorted(stated.keys() - Settings.model_fields.keys()):
        raise BadInput(f"setting {known_values(unknown[0], Settings.model_fields)}")
    values = _of_file(Settings, Settings.model_fields, stated.get("config"), stated.get("store"))
    return _merged(Settings, {**values, **defaults}, stated, needed, ())


def _merged(
    row: type[Made], values: Mapping[str, Any], stated: Mapping[str, Any], needed: Iterable[str], keys: Iterable[str]
) -> Made:
    """The model of the values with what is stated over them; options are the `keys`. Raises BadInput."""
    values = settings_file.merged(values, stated)
    if "store" in needed:
        values = settings_file.with_store(values)
    if missing := sorted(settings_file.keys_without_value(values, needed)):
        raise BadInput(f"Missing option '{option_name(missing[0])}': give it, or `{missing[0]}` in curate.yaml")
    return _made(row, values, keys)


def _of_file(row: type[Row], keys: Container[str], config: str | None, store: str | None) -> dict[str, Any]:
    """Values of the settings file that a command may take; a file that nobody named is named on stderr."""
    path = settings_file.found(config, store) if keys else None
    if path is None:
        return {}
    if config is None:
        note(f"settings of {str(path)!r}")
    values = settings_file.read(path)
    if row is Settings:
        values["config"] = str(path)
    else:
        values = settings_file.with_models(values)
    return {key: value for key, value in values.items() if key in keys}


def _holds(values: Mapping[str, Any], key: str) -> bool:
    section, _, name = key.rpartition(".")
    return name in (values.get(section, {}) if section else values)


def option(key: str, row: type[Row] = Settings, on: bool = False) -> Any:
    """The typer option of a key; of a flag that is on by default, the one that turns it off, too."""
    field, name = field_of(key, row), option_name(key)
    # A field states its limits as constraints, each of which may have a lower end, an upper one, or none.
    ends = {
        end: getattr(constraint, end)
        for constraint in field.metadata
        for end in ("ge", "le")
        if hasattr(constraint, end)
    }
    names = list(_KNOWN.get(key, ()))
    text = description_of(key, row)
    return typer.Option(
        f"{name}/--no-{name[2:]}" if on else name,
        help=text + (f" Shipped: {', '.join(names)}." if names else "") + (" Repeatable." if _is_many(field) else ""),
        min=ends.get("ge"),
        max=ends.get("le"),
        metavar=_METAVARS.get(key, _METAVAR_OF.get(_kind(field))),
        callback=_LISTS.get(key),
        is_eager=key in _LISTS,
        autocompletion=(lambda incomplete: [shipped for shipped in names if shipped.startswith(incomplete)])
        if names
        else None,
    )


def option_name(key: str) -> str:
    """The option of a key, such as `--known-hashes`."""
    return "--" + _NAMES.get(key, key.rpartition(".")[2]).replace("_", "-")


def day_of(name: str, text: str | date | None) -> date | None:
    """The day of an option `--name`, if it is given."""
    if text is None:
        return None
    try:
        return datetime.strptime(str(text), "%Y-%m-%d").date()  # noqa: DTZ007 - a calendar day of the server's
    except ValueError:
        raise BadInput(f"--{name} {text!r} is not a day; write YYYY-MM-DD") from None


def _as_parameter(key: str, row: type[Row], default: Any) -> inspect.Parameter:
    kind: Any = _kind(field_of(key, row))
    if default in (None, "", [], {}):
        kind, default = kind | None, None
    annotation: Any = Annotated[kind, option(key, row, default is True)]
    return inspect.Parameter(_name(key), inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _others(row: type[Row]) -> inspect.Parameter:
    example = "such as bench.size=200" if row is Settings else f"of {', '.join(keys_of(row))}"
    info = typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help=f"Any other setting, {example}; `none` is null. Repeatable.",
        autocompletion=lambda incomplete: [f"{key}=" for key in keys_of(row) if key.startswith(incomplete)],
    )
    annotation = Annotated[list[str] | None, info]
    return inspect.Parameter("others", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _name(key: str) -> str:
    return "of_" + key.replace(".", "_")


def _default(field: FieldInfo) -> Any:
    return None if field.is_required() or field.default_factory else field.default


def _kind(field: FieldInfo) -> Any:
    """The type of an option's value; days and pairs are parsed from text, so that each has its own error line."""
    kind = field.annotation
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        (kind,) = [member for member in typing.get_args(kind) if member is not type(None)]
    return str if kind is date else list[str] if typing.get_origin(kind) is dict else kind


def _is_many(field: FieldInfo) -> bool:
    return typing.get_origin(field.annotation) in (list, dict)


def _set(text: str, row: type[Row]) -> tuple[str, Any]:
    """The key and value of a KEY=VALUE of `--set`. A list is `a,b`; `providers.nsfw` is an entry of a mapping."""
    ((key, value),) = _pairs("--set", [text], "bench.size=200").items()
    section, keys = key.rpartition(".")[0], keys_of(row)
    if section in keys and typing.get_origin(field_of(section, row).annotation) is dict:
        return key, value
    if key not in keys:
        near = [other_key for other_key in keys if other_key.rpartition(".")[0] == section]
        raise BadInput(f"--set {known_values(key, near or keys)}")
    if value == "none":
        return key, None
    return key, value.split(",") if _is_many(field_of(key, row)) else value


def _put(values: dict[str, Any], key: str, value: Any) -> None:
    section, _, name = key.rpartition(".")
    inner = values.setdefault(section, {}) if section else values
    inner[name] = {**inner.get(name, {}), **value} if isinstance(value, dict) else value


def _parsed(key: str, value: Any) -> dict[str, Any]:
    """Keys and values that the value of an option gives."""
    if key == "anchor_model":
        model, _, rating = value.rpartition("=")  # the model's name may hold equals signs
        try:
            points = float(rating)
        except ValueError:
            points = math.nan
        if not model or not math.isfinite(points):
            raise BadInput(f"--anchor {value!r}: give MODEL=RATING, for example gpt-4=1150")
        return {"anchor_model": model, "anchor_rating": points}
    if key == "providers":
        return {key: _pairs("--provider", value, "nsfw=opennsfw2")}
    return {key: day_of(key, value) if key in ("since", "until") else value}


def _made(row: type[Made], values: dict[str, Any], keys: Iterable[str]) -> Made:
    """The model, with the providers that its `models` stands for. Raises BadInput for its first bad value.

    A key without an option in `keys` is `--set KEY`.
    """
    try:
        made = row(**values)  # what `models` stands for is found in values that are right
        return row(**settings_file.with_models(values)) if row is Settings else made
    except ValidationError as error:
        problem = error.errors()[0]
        place = [str(part) for part in problem["loc"]]
        key = ".".join(place[:2]) if place[0] not in keys_of(row) else place[0]
        name = option_name(key) if key in keys else f"--set {key}"
        raise BadInput(f"{name}: {problem_in_words(problem)}, not {problem['input']!r}") from None


def _pairs(option: str, texts: Iterable[str], example: str) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name or not value:
            raise BadInput(f"{option} {text!r}: give NAME=VALUE, for example {example}")
        pairs[name] = value
    return pairs


def existing(store: str) -> "Store":
    """The store that a command reads. Raises BadInput where there is none. Help needs no polars."""
    from tasks.storage.tables import Store

    return Store.existing(store)


def settings_of(store: str | None, config: str | None) -> Settings:
    """The settings file's, for a command without options of its own, with the store that is given."""
    file = settings_file.found(config, store)
    values = settings_file.read(file) if file else {}
    values = settings_file.with_store({**values, "store": store} if store else values)
    if not values.get("store"):
        raise BadInput("no STORE is given, and no curate.yaml here and no CURATE_STORE names one; give its folder")
    return Settings(**values)


def measured_versions(settings: Settings) -> "Versions":
    """The versions of all signals under the chosen providers."""
    from tasks.providers import Providers
    from tasks.signals.steps import signal_versions

    return signal_versions(Providers(settings.providers))


JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]
PricedDryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Only estimate calls and US dollars; send and write nothing.")
]
CompatOption = Annotated[
    Compat | None, typer.Option("--compat", help="Also write the release with the columns of this published dataset.")
]

# Options of commands that are not made by `takes`, and those that `takes` adds.
AGREEMENT_BOOTSTRAPS = 1000
"""Resamples of items for the intervals of agreements; they cost little."""
BootstrapsOption = Annotated[int, option("bootstraps")]
_CONTEXT = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
_CONFIG = inspect.Parameter(
    "config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[str | None, option("config")]
)
