"""Reads YAML that people write, and lists of models in it; makes text from logs safe to print and to write to files.

In: files of people, and text that users, models or policies wrote. Out: rows, or text for YAML, JSON, CSV, Markdown,
HTML or a terminal, in which it says the same and steers nothing. A further kind of file is a function that escapes.

libyaml reads it where PyYAML has it, which is ten times as fast as Python. HTML templates escape text themselves.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_args, get_origin

import yaml
from pydantic import ValidationError

from schemas.asked_model import ArenaModel, AskedModel
from schemas.errors import BadInput, known_values, problem_in_words, why_unreadable
from schemas.row import Row
from tasks.look import LOOK

if TYPE_CHECKING:
    import jinja2

try:
    from yaml import CSafeLoader as SafeLoader
except ImportError:
    from yaml import SafeLoader  # type: ignore[assignment]

__all__ = [
    "SafeLoader", "UniqueKeys", "checked_entry", "csv_cell", "csv_text", "json_text", "markdown_text", "one_file",
    "one_line", "parse_yaml", "read_models_list", "read_row", "read_yaml", "why_no_yaml", "yaml_text",
]  # fmt: skip

AnyRow = TypeVar("AnyRow", bound=Row)


YAML_DEPTH_MAX = 100
"""Lists and mappings of a YAML text within each other; some ten thousand would end the process in libyaml."""


class UniqueKeys(SafeLoader):
    """YAML in which duplicate keys are an error; PyYAML keeps the last one silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping; raises yaml.YAMLError."""
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for place, key in enumerate(keys):
            if key.value in (earlier.value for earlier in keys[:place]):
                raise yaml.constructor.ConstructorError(
                    problem=f"{key.value!r} is given twice", problem_mark=key.start_mark
                )
        return super().construct_mapping(node, deep)


def parse_yaml(text: str, loader: type[SafeLoader] = SafeLoader) -> Any:
    """The content of a YAML text.

    Raises yaml.YAMLError, also for more than `YAML_DEPTH_MAX` levels, and for a part that is a part of itself.
    """
    anchors: list[str | None] = []
    for event in yaml.parse(text, loader):
        if isinstance(event, yaml.CollectionStartEvent):
            anchors.append(event.anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchors.pop()
        endless = isinstance(event, yaml.AliasEvent) and event.anchor in anchors
        if endless or len(anchors) > YAML_DEPTH_MAX:
            levels = "no end" if endless else f"more than {YAML_DEPTH_MAX} levels"
            raise yaml.MarkedYAMLError(
                problem=f"{levels} of lists or mappings", problem_mark=cast(Any, event.start_mark)
            )
    return yaml.load(text, loader)  # noqa: S506 - a SafeLoader


def read_yaml(file: Path) -> Any:
    """The content of a YAML file. Raises OSError, UnicodeDecodeError and yaml.YAMLError."""
    return parse_yaml(file.read_text(encoding="utf-8"))


def why_no_yaml(error: yaml.YAMLError) -> str:
    """Where a text is no YAML, and why: `line 2, 'rules' is given twice`."""
    mark = getattr(error, "problem_mark", None)
    return f"line {mark.line + 1}, {getattr(error, 'problem', '')}" if mark else "it holds control characters"


def read_models_list(path: Path, row: type[AnyRow], page: str, hints: Mapping[str, str]) -> list[AnyRow]:
    """The entries of a models file, each name once. Raises BadInput for the first error, without secret values.

    `page`: the page of docs/ that says what an entry holds; `hints`: field -> what an error of it adds.
    """
    where = f"models file {str(path)!r}"
    try:
        content = read_yaml(path)
    except OSError:
        raise BadInput(f"{where} cannot be read; give a YAML file with the list `models`") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise BadInput(f"{where} is not YAML; see {page}") from None
    entries = content.get("models") if isinstance(content, dict) else None
    if not isinstance(entries, list) or not entries or len(content) > 1:
        raise BadInput(f"{where}: give the list `models` and nothing beside it; see {page}")
    others = (ArenaModel.model_fields.keys() | AskedModel.model_fields.keys()) - row.model_fields.keys()
    for entry in (mapping for mapping in entries if isinstance(mapping, dict)):
        for key in others & entry.keys():
            del entry[key]
    models = [checked_entry(entry, row, f"{where}, entry {number}", hints) for number, entry in enumerate(entries, 1)]
    names = [str(getattr(model, "name", "")) for model in models]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadInput(f"{where}: the name {twice!r} stands twice; names say whose answers are whose")
    return models


def checked_entry(entry: Any, row: type[AnyRow], where: str, hints: Mapping[str, str]) -> AnyRow:
    """A mapping as a row. Raises BadInput for the first error; values, which may be secret, are not shown."""
    fields = row.model_fields
    if not isinstance(entry, dict):
        needed = [name for name, field in fields.items() if field.is_required()]
        raise BadInput(f"{where}: give keys and values, at least of {' and '.join(needed)}")
    if unknown := next((str(key) for key in entry if key not in fields), None):
        raise BadInput(f"{where}: unknown key {known_values(unknown, fields)}")
    for name, value in entry.items():
        named = fields[name].annotation
        if get_origin(named) is Literal and value not in get_args(named):
            raise BadInput(f"{where}: unknown {name} {known_values(str(value), get_args(named))}")
    try:
        return row(**entry)
    except ValidationError as error:
        problem = error.errors(include_input=False)[0]
        name = ".".join(map(str, problem["loc"][:1])) or "the entry"
        of_form = name in hints and problem["type"] == "string_pattern_mismatch"  # the hint says it, in words
        reason = "cannot be used" if of_form else problem_in_words(problem)
        raise BadInput(f"{where}: {name}: {reason}{hints.get(name, '')}") from None


def read_row(path: Path, row: type[AnyRow], what: str, more: str = "") -> AnyRow:
    """A YAML file as one row. Raises BadInput for the first error; `more` says where its keys are explained."""
    where, more = f"{what} {str(path)!r}", more or f"its keys are {', '.join(row.model_fields)}"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{where} cannot be read ({why_unreadable(error)}); {more}") from None
    return row_of_text(text, row, where, more)


def row_of_text(text: str, row: type[AnyRow], where: str, more: str) -> AnyRow:
    """A YAML text as one row. Raises BadInput for the first error; `where` names the text, `more` says what helps."""
    try:
        return row.model_validate(parse_yaml(text))
    except yaml.YAMLError:
        raise BadInput(f"{where} is not YAML; {more}") from None
    except ValidationError as error:
        problem = error.errors(include_input=False)[0]
        place = ".".join(str(part + 1 if isinstance(part, int) else part) for part in problem["loc"])
        raise BadInput(f"{where}: {place or 'the whole file'}: {problem_in_words(problem)}; {more}") from None


_INVISIBLE = r"\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_CONTROL = re.compile(rf"[\x00-\x1f{_INVISIBLE}]+")
_ESCAPED = re.compile(rf"[{_INVISIBLE}\ud800-\udfff]")
_NUMBER_OF_ANY_YAML = re.compile(r"[-+]?\.?[0-9][0-9a-fA-Fxob_.+-]*")
"""Numbers of YAML 1.1 and 1.2, such as 1e3, 0o14 and 0x1F, and a few texts more."""
_FORMULA = tuple("=+-@＝＋－＠")  # spreadsheets of some locales read the wide forms too
_MARKDOWN = re.compile(
    r"[\\`*{}\[\]#+!|>~<&]"
    r"|(?<![^\W_])[_-]|[_-](?![^\W_])"  # inside a word both mean nothing
    r"|(?<=\d)\)"  # marks a list
    r"|\.(?!(?<=\d\.)\d|(?<=[^\W\d_]\.)(?:\s|$))"  # marks a list or makes a link, except in numbers and after words
)


def one_line(text: str, characters_max: int = 200) -> str:
    """The text on one line, without control and direction characters, cut to a length."""
    flat = _CONTROL.sub(" ", text).strip()
    return flat if len(flat) <= characters_max else flat[: characters_max - 1] + "…"


class _QuotingDumper(yaml.SafeDumper):
    """Quotes texts that any reader could take for another type, or that would not stay on their line.

    PyYAML quotes what YAML 1.1 reads as something else (no, 2024-01-01). Readers of YAML 1.2, as the Hub's pages, read
    more numbers than it (1e3).
    """


def _quoted_if_needed(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    may_be_number = _NUMBER_OF_ANY_YAML.fullmatch(text) is not None
    may_be_bool = text in ("y", "Y", "n", "N")
    style = '"' if may_be_number or may_be_bool or not text.isprintable() else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_QuotingDumper.add_representer(str, _quoted_if_needed)


def yaml_text(value: Any, **options: Any) -> str:
    """YAML in which every text stays a text; `options` as PyYAML's `dump` has them. Keys keep their order."""
    return str(yaml.dump(value, Dumper=_QuotingDumper, sort_keys=False, width=float("inf"), **options))


def json_text(value: Any, indent: int | None = None) -> str:
    """JSON with readable Unicode; characters that control terminals and unpaired surrogates are escaped.

    Values that JSON cannot represent become their `str`.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=str)
    return _ESCAPED.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def csv_cell(text: str, characters_max: int = 200) -> str:
    """A cell on one line that spreadsheets do not read as a formula."""
    flat = one_line(text, characters_max)
    return f"'{flat}" if flat.startswith(_FORMULA) else flat


CELL_CHARACTERS_MAX = 32_000
"""Spreadsheets cut cells off at 32,767 characters."""


def csv_text(text: str, characters_max: int) -> str:
    """A whole text as a cell: its lines stay, other control characters go, and spreadsheets read no formula."""
    clean = "\n".join(_CONTROL.sub(" ", line) for line in text.splitlines())
    cell = f"'{clean}" if clean.lstrip().startswith(_FORMULA) else clean
    return cell if len(cell) <= characters_max else f"{cell[: characters_max - 1]}…"


def csv_delimiter(file: Path) -> str:
    """The character that separates the fields of a CSV file: of comma, semicolon and tab the commonest in its header.

    Spreadsheets write a semicolon where the decimal mark is a comma. Raises OSError.
    """
    with file.open(encoding="utf-8-sig", errors="replace") as lines:
        header = lines.readline(CELL_CHARACTERS_MAX)
    return max(",;\t", key=header.count)  # of equally common ones the first


def cell_text(cell: str) -> str:
    """The text of a cell that `csv_text` wrote: without the mark before what spreadsheets would read as a formula."""
    text = cell.removeprefix("'")
    return text if text.lstrip().startswith(_FORMULA) else cell


def markdown_text(text: str, characters_max: int = 200) -> str:
    """Text escaped for Markdown and HTML, also inside a table. Names with dashes and numbers stay readable."""
    return _MARKDOWN.sub(lambda match: f"&#{ord(match.group())};", one_line(text, characters_max))


def one_file(
    template: Path, filters: Mapping[str, Callable[..., Any]], sheets: Sequence[Path] = (), **values: Any
) -> str:
    """A page that opens offline and loads nothing, with our stylesheet and `sheets` in it. Every value is escaped."""
    from markupsafe import Markup  # imported late: slow to load, and most need no page

    style = Markup("".join(sheet.read_text("utf-8") for sheet in (LOOK, *sheets)))  # noqa: S704 - files of ours
    templates = _templates(template.parent, tuple(filters.items()))
    return templates.get_template(template.name).render(style=style, **values)


@cache
def _templates(folder: Path, filters: tuple[tuple[str, Callable[..., Any]], ...]) -> "jinja2.Environment":
    """Templates of a folder with these filters, each of which is compiled once a process."""
    import jinja2  # imported late, too

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, LOOK.parent]), autoescape=True,
        undefined=jinja2.StrictUndefined, trim_blocks=True,
    )  # fmt: skip
    environment.filters |= dict(filters)
    return environment
