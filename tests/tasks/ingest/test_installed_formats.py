"""A format that another installed package brings is read like the built-in ones; the example of docs/logs.md."""

import json
import re
import sys
from pathlib import Path

import pytest

from tasks.ingest.formats import adapter
from tests.tasks.ingest.logs import DAY, chat, ingested, rejected, texts, write

DOCS = Path(__file__).parents[3] / "docs" / "extending.md"
ROWS = [
    {"session": "s" * 12, "bot": "x", "question": "What is this?", "answer": "A cat."},
    {"session": "t" * 12, "bot": "y", "question": "And this?", "answer": "A dog."},
    {"session": "u" * 12, "bot": "y", "question": 3, "answer": "A dog."},
]


def example() -> str:
    """The adapter that the docs show."""
    _, _, section = DOCS.read_text(encoding="utf-8").partition("\n## A format\n")
    return re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs a distribution with one entry point of our group."""

    def install(package: str, code: str, point: str) -> None:
        folder = tmp_path / package
        info = folder / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        (folder / f"{package}.py").write_text(code)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[arena_curation.formats]\n{point}\n")
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.delitem(sys.modules, package, raising=False)

    return install


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return folder


@pytest.mark.parametrize("chosen", [None, "support-desk"])
def test_the_example_of_the_docs_is_recognized_and_read(installed, data, tmp_path, capsys, chosen):
    installed("support_desk", example(), "support-desk = support_desk:ADAPTER")
    store = ingested(data, tmp_path / "store", format=chosen)
    assert [texts(row)[1] for row in store.read("conversations").to_dicts()] == ["A cat.", "A dog."]
    assert rejected(store) == {("rows.jsonl", 3): "bad_messages"}
    assert "reading 1 file as support-desk" in capsys.readouterr().err


BROKEN = {
    "raises": ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
    "lacks_it": ("", "AttributeError"),
    "is_none": ("ADAPTER = 3", "is a int, not a FormatAdapter"),
}


@pytest.mark.parametrize("package", BROKEN)
def test_a_package_that_cannot_be_loaded_is_one_clear_line_that_names_it(installed, data, curate, tmp_path, package):
    code, said = BROKEN[package]
    installed(package, code, f"other = {package}:ADAPTER")
    for given in ((), ("--format", "other")):
        status, _, err = curate("ingest", "--logs", data, "--store", tmp_path / "store", *given)
        assert (status, err.count("\n")) == (2, 1)
        assert f"format 'other' of package '{package}' cannot be loaded" in err and said in err


def test_packages_are_not_loaded_for_formats_that_are_built_in(installed, data, tmp_path):
    installed("raises", "raise RuntimeError", "other = raises:ADAPTER")
    write(tmp_path / "logs", DAY, chat("a"))
    assert ingested(tmp_path / "logs", tmp_path / "store").read("conversations").height == 1
    assert adapter("lmsys-chat").name == "lmsys-chat"
