"""Prompts of language models, one Markdown file each, used word for word, and WildVision's taxonomy (`taxonomy.yaml`).

`labelling.md` opens every prompt that labels documents; `tags/<tag>.md` defines one tag of `schemas/tags.py`, and
`labels/<name>.md` a whole set of labels. `judges/*.md` are the published prompts of judges, without the line break at
their end: Arena-Hard's (https://github.com/lmarena/arena-hard-auto, config/judge_config.yaml, Apache-2.0), which
VisionArena uses, and WildVision-Bench's (https://github.com/WildVision-AI/WildVision-Bench, MIT): the same texts, but
for one letter of the follow-up. A folder of the user's may take their place file by file, with reply formats of its
own (`replies.py`, docs/models.md).
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from schemas.errors import BadInput, known_values, why_unreadable
from schemas.row import Row
from schemas.tags import Sees, Taxonomy, sees
from tasks.prompts.replies import PromptFile, ReplyFormat, prompt_file
from tasks.runtime.untrusted import parse_yaml, read_row

TAXONOMY_FILE = "taxonomy.yaml"
SHIPPED_PROMPTS = "ours"
"""In place of a folder: the prompts that ship. A folder of that name is `./ours`."""
_OURS = Path(__file__).parent
_PLACE = re.compile(r"\{(\w+)\}")
"""The place of a text that is filled in."""
_PLACE_WHOLE = re.compile(r"\{\w+\}")
_LISTS = "labels/taxonomy"
"""The prompt whose places hold the values to choose from, which an author's text lists itself."""
_FIELDS = re.compile(r"\{\w+\}|\[\[[^\[\]\n]+\]\]|(?<=^\* )`\w+`(?=:)", re.MULTILINE)
"""Places, verdicts that are read (`[[A>B]]`), and labels that are answered, at the start of a line with a star."""
_replaced: dict[str, "_Replaced"] = {}


class _Replaced(NamedTuple):
    """A file of the user's."""

    content: str
    """The whole file."""
    parts: PromptFile
    """Text for the model, and how replies are read."""


class TaxonomyFile(Row):
    """The whole file; a value is `Category` or `Category / Subcategory`."""

    version: str
    """Version of the file."""
    question: dict[str, str] = Field(min_length=1)
    """Question category or subcategory -> meaning."""
    image: dict[str, str] = Field(min_length=1)
    """Image domain or subdomain -> meaning."""


@contextmanager
def replaced_prompts(folder: str | None) -> Iterator[None]:
    """Texts of this folder take the place of ours inside; without a folder, and for `ours`, ours hold.

    Raises BadInput for a file that names no prompt of ours, is empty, lacks a field of ours, or has a head that cannot
    be used (`replies.py`).
    """
    global _replaced
    before, _replaced = _replaced, {} if folder in (None, "", SHIPPED_PROMPTS) else _texts_of(Path(folder))
    try:
        yield
    finally:
        _replaced = before


def replaced_hashes() -> dict[str, str]:
    """Name of each prompt that is replaced -> the first 8 hex digits of its text's SHA-256."""
    return {name: short_hash(file.content) for name, file in sorted(_replaced.items())}


def short_hash(text: str) -> str:
    """The first 8 hex digits of a text's SHA-256."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:8]


def text_of_prompt(name: str) -> str:
    """The text that holds for a prompt such as `tags/ocr`, or for `taxonomy.yaml`."""
    return _replaced[name].parts.text if name in _replaced else shipped_text(name)


def reply_format(name: str) -> ReplyFormat | None:
    """How replies to a prompt are read, where its file says so; None: as replies to ours."""
    return _replaced[name].parts.reply if name in _replaced else None


def shipped_text(name: str) -> str:
    """Our text of a prompt."""
    return (_OURS / (name if name == TAXONOMY_FILE else f"{name}.md")).read_bytes().decode("utf-8")


def filled(template: str, texts: Mapping[str, str]) -> str:
    """The template with a text at each place such as `{captions}`."""
    return _PLACE.sub(lambda place: texts[place[1]], template)


def _texts_of(folder: Path) -> dict[str, _Replaced]:
    """Name -> content of every file of a folder, but those whose path has a part that begins with a dot."""
    if not folder.is_dir():
        raise BadInput(f"--prompts {str(folder)!r} is no folder; give one with files named as in docs/models.md")
    paths = {path: path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()}
    visible_files = {path: name for path, name in paths.items() if not any(part.startswith(".") for part in name.parts)}
    if not visible_files:
        raise BadInput(f"--prompts {str(folder)!r} holds no file; give one with files named as in docs/models.md")
    names = {path: name.as_posix().removesuffix(".md") for path, name in visible_files.items()}
    return {name: _checked(path, name) for path, name in names.items()}


def _checked(path: Path, name: str) -> _Replaced:
    names = {ours.relative_to(_OURS).as_posix().removesuffix(".md") for ours in _OURS.rglob("*.md")} | {TAXONOMY_FILE}
    if name not in names or path.suffix not in (".md", ".yaml"):
        raise BadInput(f"--prompts: no prompt is named {known_values(name, names)}")
    try:
        content = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"--prompts: {name!r} cannot be read ({why_unreadable(error)}); give UTF-8 text") from None
    text, reply = prompt_file(name, content)
    if not text.strip():
        raise BadInput(f"--prompts: {name!r} is empty; write the prompt, or leave the file out to keep ours")
    if name == TAXONOMY_FILE:
        read_row(path, TaxonomyFile, "--prompts")
        return _Replaced(content, PromptFile(text, None))
    ours, theirs = shipped_text(name), _close(text)
    needed = (_PLACE_WHOLE if reply else _FIELDS).findall("" if name == _LISTS and reply else ours)
    if lacking := [field for field in needed if _close(field) not in theirs]:
        or_head = "" if reply or lacking[0].startswith("{") else ", or give its reply format in a head (docs/models.md)"
        raise BadInput(f"--prompts: {name!r} lacks {lacking[0]}, which ours has; write it where it belongs{or_head}")
    places = set(_PLACE.findall(ours))
    if places and (unknown := set(_PLACE.findall(text)) - places):
        raise BadInput(f"--prompts: {name!r} has a place that nothing fills: {known_values(min(unknown), places)}")
    return _Replaced(content, PromptFile(text, reply))


def _close(text: str) -> str:
    """The text without blanks and with plain arrows, as verdicts are read."""
    return "".join(text.replace("»", ">>").split())


CATEGORY_SEPARATOR = " / "
"""Separator of category and subcategory."""


def taxonomy_file(shipped: bool = False) -> TaxonomyFile:
    """The taxonomy that holds; `shipped`: ours, whatever takes its place."""
    text = shipped_text(TAXONOMY_FILE) if shipped else text_of_prompt(TAXONOMY_FILE)
    return TaxonomyFile.model_validate(parse_yaml(text))


def placed(question: str | None, image: str | None) -> Taxonomy:
    """The four columns of `Taxonomy` from two values such as `Category / Subcategory`."""
    places = [part or None for value in (question, image) for part in (value or "").partition(CATEGORY_SEPARATOR)[::2]]
    return Taxonomy(**dict(zip(Taxonomy.model_fields, places, strict=True)))


_SECTIONS = {
    Sees.PROMPT: "Decide these from the prompt alone, without looking at the pictures:",
    Sees.BOTH: "Decide these from the prompt and the pictures together:",
    Sees.IMAGES: "Decide these from the pictures alone, without considering the prompt:",
}


@dataclass(frozen=True)
class Prompt:
    """Instructions for a language model, without the material to label."""

    text: str
    """The complete text."""
    version: str
    """Name and the first 8 hex digits of the file's SHA-256: any change gives another version."""
    reply: ReplyFormat | None = None
    """How replies are read, where the file says so; None: by the row that is asked for."""


def load_prompt(name: str) -> Prompt:
    """The prompt in `<name>.md`."""
    if name in _replaced:
        content, parts = _replaced[name]
        return Prompt(parts.text, f"{name}-{short_hash(content)}", parts.reply)
    return _prompt(name, text_of_prompt(name))


def tags_prompt(name: str, tags: Sequence[str]) -> Prompt:
    """The prompt that asks for these tags in one question, grouped by the input that each is decided from.

    A tag whose file has a reply format is asked alone, with the file's text as it is.
    """
    if len(tags) == 1 and reply_format(f"tags/{tags[0]}"):
        return _authors(name, f"tags/{tags[0]}")
    parts = [text_of_prompt("labelling") + "Each label is `true`, `false` or `null`. Labels are independent.\n"]
    for inputs, opening in _SECTIONS.items():
        of_inputs = [text_of_prompt(f"tags/{tag}") for tag in tags if sees(tag) is inputs]
        if of_inputs:
            parts.append(f"{opening}\n\n{''.join(of_inputs)}")
    keys = ", ".join(f"`{tag}`" for tag in tags)
    parts.append(f"# Answer\n\nOne JSON object with exactly these keys and nothing else: {keys}.\n")
    return _prompt(name, "\n".join(parts))


def criteria_prompt() -> Prompt:
    """The prompt that asks for the seven criteria."""
    if reply_format("labels/criteria"):
        return _authors("criteria", "labels/criteria")
    return _prompt("criteria", text_of_prompt("labelling") + text_of_prompt("labels/criteria"))


def failure_types_prompt() -> Prompt:
    """The prompt that asks why models fail a prompt."""
    if reply_format("labels/failure_types"):
        return _authors("failure_types", "labels/failure_types")
    return _prompt("failure_types", text_of_prompt("labelling") + text_of_prompt("labels/failure_types"))


def taxonomy_prompt() -> Prompt:
    """The prompt that asks for a taxonomy category; its values come from `taxonomy.yaml`."""
    taxonomy = taxonomy_file()
    if reply_format(_LISTS):
        return _authors(f"taxonomy{taxonomy.version}", _LISTS)
    trees = {"question": taxonomy.question, "image": taxonomy.image}
    listed = {name: "\n".join(f"  * `{value}`: {text}" for value, text in tree.items()) for name, tree in trees.items()}
    body = filled(text_of_prompt(_LISTS), listed)
    return _prompt(f"taxonomy{taxonomy.version}", text_of_prompt("labelling") + body)


def untrusted(text: str) -> str:
    """Untrusted text between two marker lines that it cannot contain.

    The mark in both lines is the text's own hash: a text would have to contain its hash to close the block early.
    """
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"[material {mark}]\n{text}\n[end of material {mark}]"


def _authors(name: str, file: str) -> Prompt:
    """A prompt with a reply format, as its author wrote it: without what opens and closes ours."""
    prompt = load_prompt(file)
    return Prompt(prompt.text, f"{name}-{prompt.version.rpartition('-')[2]}", prompt.reply)


def _prompt(name: str, text: str) -> Prompt:
    return Prompt(text, f"{name}-{short_hash(text)}")
