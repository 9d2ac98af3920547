"""Help, one-line errors, and that pages name only existing options, commands and links."""

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from flows.commands import command_line

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
CALL = re.compile(r"curate ((?:[a-z]+ ?)+)([^`|\n#]*)")


def _commands(command=None, path=()):
    """Name of every command -> its options."""
    command = command or get_command(command_line())
    inner = getattr(command, "commands", {})
    options = {option for each in command.params for option in each.opts} | {"--help"}
    found = {} if inner else {" ".join(path): options}
    for name, each in inner.items():
        found |= _commands(each, (*path, name))
    return found


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("nonsense", "No such command 'nonsense'; see `curate --help`"),
        ("bench nonsense", "see `curate bench --help`"),
        ("run --stor x", "--store); see `curate run --help`"),
        ("run --logs", "'--logs' requires an argument"),
        ("run --logs a", "Missing option '--store'"),
        ("run --logs a --store b --workers -1", "'--workers'"),
        ("run --logs a --store b --budget much", "'--budget'"),
        ("rate a.csv --interval exact", "'bootstrap', 'sandwich'; see"),
        ("verify a b", "extra argument"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line_that_says_where_help_is(curate, arguments, words):
    code, out, err = curate(*shlex.split(arguments))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("curate: ") and words in err


def test_a_place_that_cannot_be_written_to_is_one_line(curate):
    code, out, err = curate("demo", "--out", "/sys/arena")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("curate: '/sys/arena") and "give another path" in err


@pytest.mark.parametrize("family", [(), ("bench",), ("tags",), ("export",)])
def test_without_a_command_the_help_is_printed_and_nothing_else(curate, family):
    code, out, err = curate(*family)
    assert (code, err) == (2, "")
    assert "Usage: curate" in out


def test_the_help_has_every_command_under_a_heading(curate):
    shown = curate("--help")[1]
    first = {name.partition(" ")[0] for name in _commands()}
    assert {line.split()[1] for line in shown.splitlines() if re.match(r"│ [a-z]", line)} == first
    assert re.findall(r"─ (\w[\w ]*) ─", shown) == ["Options", "Curate", "One stage", "Look", "Releases"]


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


def test_every_setting_of_the_environment_is_on_a_page():
    written = " ".join(page.read_text(encoding="utf-8") for page in (*PAGES, ROOT / ".env.example"))
    code = " ".join(file.read_text(encoding="utf-8") for file in (ROOT / "tasks").rglob("*.py"))
    names = set(re.findall(r'"((?:CURATE_|OPENAI_|GEMINI_|HF_TOKEN)\w*)"', code))
    assert len(names) > 10 and {name for name in names if name not in written} == set()


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
