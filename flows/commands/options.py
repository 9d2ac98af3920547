"""Options made from the fields of a settings model, where name, type, range, default and help are said once.

    @takes("logs", "store", "policy", required=("logs",))
    def run(settings: Settings, as_json: JsonOption = False) -> None:

is the command `run --logs --store --policy --set --json`: `--set KEY=VALUE` gives any other key of the model.
"""

import inspect
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from datetime import date, datetime
from typing import Annotated, Any, TypeVar

import typer
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from schemas.errors import BadInput, known_values
from schemas.publication import Compat
from schemas.row import Row
from schemas.settings import Settings
from schemas.spoken import SETTINGS
from tasks.policy import SHIPPED
from tasks.prompts.texts import replaced_prompts

Made = TypeVar("Made", bound=Row)
_NAMES = {key: option for option, key in SETTINGS.items()} | {
    "evaluate.generated": "bench", "generate.name": "bench", "written.name": "bench",
    "evaluate.submitted_as": "model",
}  # fmt: skip
"""Key -> option, where the option is not the key's last word with hyphens."""
_METAVARS = {"providers": "CAPABILITY=NAME", "anchor_model": "MODEL=RATING", "since": "DAY", "until": "DAY"}
_KNOWN: dict[str, Iterable[str]] = {"policy": SHIPPED}
"""Key -> values that the help lists and the shell completes; others are allowed, too."""


def takes(
    *keys: str, row: type[Row] = Settings, required: Iterable[str] = (), **defaults: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator: a command whose options are these keys of a model, `--set`, and the function's other parameters.

    The function is called with the model first. `defaults` replace the model's for this command, also of keys that are
    no option of it. A key in a section is `topics.engine`.
    """
    fields = {key: field_of(key, row) for key in keys}
    needed = {*required, *(key for key, field in fields.items() if field.is_required() and key not in defaults)}
    shown = {key: defaults.get(key, _default(field)) for key, field in fields.items()}

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        def command(**given: Any) -> None:
            values: dict[str, Any] = {}
            for key, value in deepcopy(defaults).items():
                _put(values, key, value)
            for text in given.pop("others", None) or ():
                _put(values, *_set(text, row))
            for key in keys:
                value = given.pop(_name(key), None)
                if value not in (None, (), [], shown[key]):
                    for name, parsed in _parsed(key, value).items():
                        _put(values, name, parsed)
            settings = _made(row, values, keys)
            with replaced_prompts(getattr(settings, "prompts", None)):
                function(settings, **given)

        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        options = [_as_parameter(key, row, shown[key], key in needed) for key in keys]
        parameters = [*options, _others(row), *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own)]
        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    return decorated


def option(key: str, row: type[Row] = Settings, on: bool = False) -> Any:
    """The typer option of a key; of a flag that is on by default, the one that turns it off, too."""
    field, name = field_of(key, row), option_name(key)
    ends = {end: getattr(each, end) for each in field.metadata for end in ("ge", "le") if hasattr(each, end)}
    known = list(_KNOWN.get(key, ()))
    text = " ".join((field.description or "").split())
    return typer.Option(
        f"{name}/--no-{name[2:]}" if on else name,
        help=text + (f" Shipped: {', '.join(known)}." if known else "") + (" Repeatable." if _is_many(field) else ""),
        min=ends.get("ge"),
        max=ends.get("le"),
        metavar=_METAVARS.get(key),
        autocompletion=(lambda incomplete: [each for each in known if each.startswith(incomplete)]) if known else None,
    )


def option_name(key: str) -> str:
    """The option of a key, such as `--known-hashes`."""
    return "--" + _NAMES.get(key, key.rpartition(".")[2]).replace("_", "-")


def field_of(key: str, row: type[Row] = Settings) -> FieldInfo:
    """The field of a key such as `seed` or `topics.engine`."""
    section, _, name = key.rpartition(".")
    inner = row.model_fields[section].annotation if section else row
    assert isinstance(inner, type) and issubclass(inner, Row)
    return inner.model_fields[name]


def keys_of(row: type[Row] = Settings) -> list[str]:
    """Every key, those of sections as `topics.engine`."""
    found = []
    for name, field in row.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Row):
            found += [f"{name}.{key}" for key in keys_of(inner)]
        else:
            found.append(name)
    return found


def anchor_of(text: str) -> tuple[str, float]:
    """(model, rating) of MODEL=RATING; the model's name may hold equals signs."""
    model, _, rating = text.rpartition("=")
    try:
        points = float(rating)
    except ValueError:
        points = math.nan
    if not model or not math.isfinite(points):
        raise BadInput(f"--anchor {text!r}: give MODEL=RATING, for example gpt-4=1150")
    return model, points


def day_of(name: str, text: str | date | None) -> date | None:
    """The day of an option `--name`, if it is given."""
    if text is None:
        return None
    try:
        return datetime.strptime(str(text), "%Y-%m-%d").date()  # noqa: DTZ007 - a calendar day of the server's
    except ValueError:
        raise BadInput(f"--{name} {text!r} is not a day; write YYYY-MM-DD") from None


def _as_parameter(key: str, row: type[Row], default: Any, required: bool) -> inspect.Parameter:
    kind: Any = _kind(field_of(key, row))
    if required:
        default = inspect.Parameter.empty
    elif default in (None, "", [], {}):
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
        (kind,) = [each for each in typing.get_args(kind) if each is not type(None)]
    return str if kind is date else list[str] if typing.get_origin(kind) is dict else kind


def _is_many(field: FieldInfo) -> bool:
    return typing.get_origin(field.annotation) in (list, dict)


def _set(text: str, row: type[Row]) -> tuple[str, Any]:
    """The key and value of a KEY=VALUE of `--set`. A list is `a,b`; `providers.nsfw` is an entry of a mapping."""
    ((key, value),) = _pairs("--set", [text], "bench.size=200").items()
    section, known = key.rpartition(".")[0], keys_of(row)
    if section in known and typing.get_origin(field_of(section, row).annotation) is dict:
        return key, value
    if key not in known:
        near = [each for each in known if each.rpartition(".")[0] == section]
        raise BadInput(f"--set {known_values(key, near or known)}")
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
        return dict(zip(("anchor_model", "anchor_rating"), anchor_of(value), strict=True))
    if key == "providers":
        return {key: _pairs("--provider", value, "nsfw=opennsfw2")}
    return {key: day_of(key, value) if key in ("since", "until") else value}


def _made(row: type[Made], values: Mapping[str, Any], keys: Iterable[str]) -> Made:
    """The model. Raises BadInput for its first bad value; a key without an option in `keys` is `--set KEY`."""
    try:
        return row(**values)
    except ValidationError as error:
        problem = error.errors()[0]
        place = [str(part) for part in problem["loc"]]
        key = ".".join(place[:2]) if place[0] not in keys_of(row) else place[0]
        name = option_name(key) if key in keys else f"--set {key}"
        raise BadInput(f"{name}: {problem['msg']}, not {problem['input']!r}") from None


def _pairs(option: str, texts: Iterable[str], example: str) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name or not value:
            raise BadInput(f"{option} {text!r}: give NAME=VALUE, for example {example}")
        pairs[name] = value
    return pairs


JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]
CompatOption = Annotated[
    Compat | None, typer.Option("--compat", help="Also write the release with the columns of this published dataset.")
]

# Options of commands that are not made by `takes`.
StoreOption = Annotated[str, option("store")]
BootstrapsOption = Annotated[int, option("bootstraps")]
