"""Pages name only existing options, commands and links."""

import re
from pathlib import Path

import pytest

from flows.reference.pages import commands
from tests.places import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
CALL = re.compile(r"curate ((?:[a-z]+ ?)+)([^`|\n#]*)")


def _commands():
    """Name of every command -> its options."""
    return {
        name: {option for each in command.params for option in (*each.opts, *each.secondary_opts)} | {"--help"}
        for name, command in commands().items()
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_on_a_page_exists_and_has_the_options_that_it_is_shown_with(page):
    known = _commands()
    wrong = []
    shell = re.sub(r"```python.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for words, rest in CALL.findall(shell):
        name = max((each for each in known if f"{words} ".startswith(f"{each} ")), key=len, default=None)
        families = {each.partition(" ")[0] for each in known if " " in each}
        if name is None and words.split()[0] not in families:
            wrong.append(words)
        elif name is not None:
            wrong += [f"{name} {option}" for option in set(re.findall(r"--[a-z-]+", rest)) - known[name]]
    assert wrong == []


def test_every_option_is_on_a_page():
    written = " ".join(page.read_text(encoding="utf-8") for page in PAGES)
    options = {option for options in _commands().values() for option in options if option.startswith("--")}
    assert {option for option in options if not re.search(rf"{option}(?![a-z-])", written)} == set()


def _headings(page: Path) -> set[str]:
    """The anchors that GitHub makes from a page's headings."""
    found = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_on_a_page_leads_to_a_file_and_a_heading(page):
    lost = []
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text(encoding="utf-8")):
        name, _, heading = target.partition("#")
        file = page.parent / name if name else page
        if not file.is_file() or (heading and heading not in _headings(file)):
            lost.append(target)
    assert lost == []
