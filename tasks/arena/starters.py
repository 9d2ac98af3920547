"""Starter prompts of the first screen: by category and language, with pictures; those shipped, or an operator's file.

In: a YAML file of categories, and pictures beside it. Out: the prompts in the language of the request, and a collection
of the pictures beside the logs, by which ingest tells them from pictures of visitors.
"""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field

from schemas.errors import BadInput, why_unreadable
from schemas.row import Row
from tasks.arena.reasons import checked_texts
from tasks.arena.words import ENGLISH, LANGUAGES, page_language
from tasks.drawing.canvas import photographs, shipped
from tasks.ingest.image_files import INDEX, STARTERS
from tasks.runtime.untrusted import read_row

_SHIPPED = Path(__file__).with_name("starters.yaml")
_is_file_name = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,79}").fullmatch
_CATEGORIES_MAX, _PROMPTS_MAX, _CHARACTERS_MAX = 12, 12, 500


def _whole(prompt: Any) -> Any:
    """A prompt that is a text alone, as a mapping."""
    return {"text": prompt} if isinstance(prompt, str) else prompt


def _one_paragraph(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError("give a text of one line")
    return text


def _file_name(name: str | None) -> str | None:
    if name is not None and not _is_file_name(name):
        raise ValueError(f"{name[:60]!r} is no name of a file beside this one, such as receipt.png")
    return name


class Starter(Row):
    """One prompt."""

    text: Annotated[str, AfterValidator(_one_paragraph)] = Field(max_length=_CHARACTERS_MAX)
    """The message."""
    picture: Annotated[str | None, AfterValidator(_file_name)] = None
    """Name of the picture that comes with it: a file beside the starters file, or a photograph that ships. In a change
    while the arena runs, one that the file of the start names."""


def _titled(title: dict[str, str]) -> dict[str, str]:
    return checked_texts("title", title)


def _checked_languages(prompts: dict[str, Any]) -> dict[str, Any]:
    """The prompts by language. Raises ValueError for a language that the page does not speak, or without English."""
    if unknown := next((language for language in prompts if language not in LANGUAGES), None):
        raise ValueError(f"the language {unknown[:20]!r}; the arena speaks {', '.join(LANGUAGES)}")
    if not prompts.get(ENGLISH):
        raise ValueError(f"no English prompt; add `{ENGLISH}:`, which languages without prompts of their own show")
    return prompts


Prompts = Annotated[list[Annotated[Starter, BeforeValidator(_whole)]], Field(max_length=_PROMPTS_MAX)]


class StarterCategory(Row):
    """Prompts of one kind."""

    title: Annotated[dict[str, str], AfterValidator(_titled)]
    """Language -> heading."""
    prompts: Annotated[dict[str, Prompts], AfterValidator(_checked_languages)]
    """Language -> its prompts; a language without them shows the English ones."""


class StartersFile(Row):
    """A file of starter prompts (docs/logs.md)."""

    categories: list[StarterCategory] = Field(max_length=_CATEGORIES_MAX)
    """In the order of the page; none for a first screen without prompts."""


class ShownStarter(NamedTuple):
    """A prompt as the page shows it."""

    text: str
    picture: str
    """Name of its picture; empty without one."""


class Starters:
    """The starter prompts of an arena."""

    def __init__(self, file: StartersFile, pictures: Mapping[str, Path]) -> None:
        """`pictures`: name -> file."""
        self.file, self.pictures = file, pictures

    def shown(self, with_pictures: bool) -> list[tuple[str, list[ShownStarter]]]:
        """(heading, prompts) of each category in the language of the request.

        Where pictures are not allowed, prompts with one are left out, and so is a category without others.
        """
        language, categories = page_language()["lang"], []
        for category in self.file.categories:
            prompts = category.prompts.get(language) or category.prompts[ENGLISH]
            starters = [ShownStarter(starter.text, starter.picture or "") for starter in prompts]
            fitting = [starter for starter in starters if with_pictures or not starter.picture]
            if fitting:
                categories.append((category.title.get(language, category.title[ENGLISH]), fitting))
        return categories

    def replaced(self, file: StartersFile) -> "Starters":
        """Other prompts with the same pictures. Raises BadInput for a picture that is not there."""
        if missing := next((name for name in names_of_pictures(file) if name not in self.pictures), None):
            names = ", ".join(sorted(self.pictures)) or "none"
            raise BadInput(f"there is no picture {missing!r}; those of this arena: {names}")
        return Starters(file, self.pictures)

    def listed(self) -> dict[str, list[tuple[str, Path]]]:
        """Name of a picture -> its one row (name in the collection, file), as example images are listed."""
        return {name: [(collected(name), file)] for name, file in self.pictures.items()}

    def keep_pictures(self, logs: Path) -> None:
        """Put the pictures and their index beside the logs. Raises BadInput where they cannot be written."""
        folder, index = (
            logs / STARTERS,
            [{"dataset": STARTERS, "path": collected(name)} for name in sorted(self.pictures)],
        )
        try:
            if self.pictures or folder.exists():
                folder.mkdir(parents=True, exist_ok=True)
                for name, file in self.pictures.items():
                    shutil.copyfile(file, folder / collected(name))
                (folder / INDEX).write_text(json.dumps(index), encoding="utf-8")
        except OSError as error:
            raise BadInput(f"{str(folder)!r} cannot be written ({why_unreadable(error)}); give other --logs") from None


def collected(name: str) -> str:
    """The name of a picture in the collection beside the logs, and in the lines of its messages."""
    return f"starter-{name}"


def names_of_pictures(file: StartersFile) -> Sequence[str]:
    """The pictures that the prompts of a file name, once each."""
    # prompts of every category and language, flat
    starters = [starter for category in file.categories for prompts in category.prompts.values() for starter in prompts]
    return list(dict.fromkeys(starter.picture for starter in starters if starter.picture))


def read_starters(file: Path | None) -> Starters:
    """The starter prompts of a file, by default those shipped.

    Raises BadInput for a file that is none, or that names a picture which is not there.
    """
    place = file or _SHIPPED
    read = read_row(place, StartersFile, "starters file", "docs/logs.md has an example")
    # name of a picture -> its file: photographs that ship, and files beside the operator's own
    ships = {Path(photo.file).name: shipped(photo.package, "") / photo.file for photo in photographs("scenes")}
    beside = {path.name: path for path in place.parent.iterdir() if _is_file_name(path.name)} if file else {}
    pictures = ships | beside
    if missing := next((name for name in names_of_pictures(read) if name not in pictures), None):
        raise BadInput(
            f"starters file {str(place)!r}: there is no picture {missing!r} beside it; those that ship: "
            + ", ".join(sorted(ships))
        )
    # only pictures that the file names are copied beside the logs, so a later change may use no others
    return Starters(read, {name: pictures[name] for name in names_of_pictures(read)})
