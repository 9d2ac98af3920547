"""The recipes of docs/design.md work as written, in a copy of the sources, and cost the files that its table says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.places import ROOT

PAGE = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
BLOCK = re.compile(
    r"```\w+\n# (?P<how>new: |at the end of |in )(?P<file>\S+?)(?P<where>, [^\n]*)?\n(?P<text>.*?)```", re.DOTALL
)
FOLLOWED = """
import sys
from pathlib import Path
from flows.products import problems_of
from schemas.settings import EvaluateSettings
from tasks.generated_bench.aspects import load_capability
from tasks.judging.protocols import AnswerPair, protocol
from tasks.providers import Providers
from tasks.report.content import report_content
from tasks.storage.queries.conversation_features import Tallies
from tests.builders import drawn_image
from tests.small_store import make_release, small_store

assert 0 <= Providers({"nsfw": "dark"})["nsfw"].nsfw_probabilities([drawn_image(1)])[0] <= 1
asked = protocol(EvaluateSettings(protocol="terse").protocol).prompt(AnswerPair({}, "Which?", "one", "two"))
assert "Say in one sentence" in asked.messages[0].text and "Which?" in asked.messages[1].text
assert load_capability("counting").name == "counting"
store = small_store(Path(sys.argv[1]))
assert store.read("topic_notes").columns == ["topic_id", "note"]
assert "image_counts" in [part.key for part in report_content(store, Tallies()).parts]
made = Path(store.root) / str(make_release(store, reported=True).result)
assert (made / "topics" / "sizes.csv").read_text().startswith("topic,documents")
assert problems_of(made) == []
"""


def _recipes() -> dict[str, list[re.Match[str]]]:
    """Heading of a recipe, in lower case -> its blocks."""
    sections = re.split(r"^### (.*)\n", PAGE, flags=re.MULTILINE)[1:]
    return {
        title.lower(): list(BLOCK.finditer(text)) for title, text in zip(sections[::2], sections[1::2], strict=True)
    }


def _follow(block: re.Match[str], copy: Path) -> None:
    """Do in a copy of the sources what a block says."""
    file, how = copy / block["file"], block["how"]
    if how == "new: ":
        file.write_text(block["text"])
    elif how == "at the end of ":
        file.write_text(
            f"{file.read_text()}\n\n{block['text']}" if file.suffix == ".py" else file.read_text() + block["text"]
        )
    else:
        place, _, anchor = block["where"].removeprefix(", ").partition(": ")
        before, line, after = _line_with(file.read_text(), anchor)
        file.write_text(before + block["text"] + (line if place == "before" else "") + after)


def _line_with(text: str, anchor: str) -> tuple[str, str, str]:
    """The text before the first line that begins with `anchor`, apart from blanks; that line; and the rest."""
    lines = text.splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if line.strip().startswith(anchor))
    return "".join(lines[:place]), lines[place], "".join(lines[place + 1 :])


def test_the_recipes_are_complete_and_cost_what_the_table_says(tmp_path):
    for folder in ("flows", "tasks", "schemas", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder)  # with compiled files, which hold where a source is unchanged
    recipes = _recipes()
    for blocks in recipes.values():
        for block in blocks:
            _follow(block, tmp_path)
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", FOLLOWED, "store"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    files = {title: len({block["file"] for block in blocks}) for title, blocks in recipes.items()}
    pins = {"a table": 1}  # tests/schemas/layout.txt, which a command writes
    told = dict(re.findall(r"^\| ([^|]+?) \| (one|two|three|four)\b", PAGE, re.MULTILINE))
    for title, count in files.items():
        words = {"one": 1, "two": 2, "three": 3, "four": 4}
        assert words[told[title.removeprefix("a ")]] == count + pins.get(title, 0), title


def test_every_folder_of_the_tree_has_its_paragraph():
    folders = {path.name for path in (ROOT / "tasks").iterdir() if (path / "__init__.py").exists()}
    assert folders - set(re.findall(r"\*\*`tasks/(\w+)`\*\*", PAGE)) == set()
