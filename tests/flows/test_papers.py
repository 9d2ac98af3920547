"""docs/papers.md: the figures that it promises of a store are made by its command, with the columns that it names."""

import csv
import json
import re
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from flows.products import keyed_items
from schemas.asked_model import AskedModel
from schemas.settings import EvaluateSettings
from tasks.judging.answers import ask_models
from tasks.judging.sources import bench_of
from tests.asked_bench import models_file, said_by
from tests.failed_store import NEW, failed_store, say
from tests.generated_bench import decided, settings_for
from tests.http_server import Reply
from tests.visit_bench import visit_bench

PAGE = (Path(__file__).parents[2] / "docs/papers.md").read_text(encoding="utf-8")
ITEMS = {
    "VA Fig.": range(1, 29),
    "VA Table": range(1, 10),
    "WV Fig.": range(1, 12),
    "WV Table": range(1, 14),
    "VB Fig.": range(1, 19),
    "VB Table": range(1, 7),
    "AB Fig.": range(1, 22),
    "AB Table": range(1, 7),
}
"""Paper and kind -> numbers of its figures or tables."""
ON_DEMAND = "From benchmarks made on demand"
FAILED = "From failures"
CAPTIONED = "From answers written from captions"
MADE = ("From logs, by one command", "By other commands", ON_DEMAND, FAILED, CAPTIONED)


def _rows(heading):
    """Cells of the table below a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def _named(cell):
    """Paper, kind and number of each figure or table in a cell."""
    paper = kind = ""
    for word in re.findall(r"[A-Z]{2}\b|Fig\.|Table|\d+", cell):
        if word.isdigit():
            yield f"{paper} {kind}", int(word)
        elif len(word) == 2:
            paper = word
        else:
            kind = word


def test_every_figure_and_table_of_the_papers_has_a_row():
    headings = (*MADE, "Not there yet, or by hand")
    named = Counter(each for heading in headings for row in _rows(heading) for each in _named(row[0]))
    expected = {(paper, number) for paper, numbers in ITEMS.items() for number in numbers}
    assert set(named) == expected
    assert [each for each, count in named.items() if count > 1] == [("VA Fig.", 21)]  # of four panels


def test_the_page_says_how_many_figures_and_tables_commands_make():
    made = {each for heading in MADE for row in _rows(heading) for each in _named(row[0])}
    (count, total) = re.search(r"Commands make (\d+) of their (\d+) figures and tables", PAGE).groups()
    assert (int(count), int(total)) == (len(made), sum(map(len, ITEMS.values())))


@pytest.mark.parametrize("command", sorted({row[1].strip("`") for row in _rows("By other commands")}))
def test_every_command_of_the_second_table_is_there(curate, command):
    status, out, err = curate(*command.split()[1:], "--help")
    assert (status, err) == (0, "") and f"Usage: {command} " in " ".join(out.split())


def test_the_command_of_the_page_writes_every_file_with_its_columns(curated, curate, tmp_path):
    command = re.search(r"`curate (export figures [^`]+)`", PAGE)[1]
    words = {"STORE": curated.store.root, "DIR": str(tmp_path / "figures")}
    code, _, err = curate(*(words.get(word, word) for word in command.split()))
    assert code == 0, err
    rows = _rows("From logs, by one command")
    assert len(rows) > 15
    for _, file, columns, *_ in rows:
        table = pl.read_csv(tmp_path / "figures" / file.strip("`"), infer_schema_length=None)
        assert [name for name in columns.split(", ") if name not in table.columns] == [], file
        assert table.height, file
        for suffix in (".svg", ".pdf"):
            assert (tmp_path / "figures" / file.strip("`")).with_suffix(suffix).stat().st_size > 500


BENCHES = {"BENCH": "scenes", "OTHER": "plain"}


@pytest.fixture(scope="module")
def on_demand(tmp_path_factory):
    """A store with two benchmarks, with and without the graph of words, which two models answered."""
    folder = tmp_path_factory.mktemp("on_demand") / "store"
    size = {"general": 1, "fine": 2, "levels": ["easy", "medium"]}
    decided(settings_for(folder, **size))
    store = decided(settings_for(folder, **size, name=BENCHES["OTHER"], graph=False))
    models = [AskedModel(name=name, vendor="embedded", model=name) for name in ("scene-viewer", "blind")]
    for bench in BENCHES.values():
        assert not ask_models(store, bench_of(store, EvaluateSettings(generated=bench), keyed_items), models).failures
    return store


def _asked(curate, store, kind, folder, verdict, *options):
    """Type the commands that ask a rater on a sheet and take it in; returns its lines."""
    asked = ("--store", store.root, "--bench", BENCHES["BENCH"])
    code, _, err = curate("review", "out", kind, *asked, "--out", folder, *options)
    assert code == 0, err
    lines = list(csv.DictReader((folder / "sheet.csv").read_text(encoding="utf-8").splitlines()))
    with (folder / "filled.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, lines[0])
        writer.writeheader()
        writer.writerows(line | {"verdict": verdict, "reviewer": folder.name} for line in lines)
    code, _, err = curate("review", "in", kind, folder / "filled.csv", *asked)
    assert code == 0, err
    return lines


def test_the_commands_on_benchmarks_made_on_demand_give_the_columns_that_the_page_names(on_demand, curate, tmp_path):
    _asked(curate, on_demand, "generated", tmp_path / "ann", "description_fits question_fits")
    _asked(curate, on_demand, "generated", tmp_path / "bob", "question_fits", "--set", "guided=no")
    wrong = _asked(curate, on_demand, "wrong_answers", tmp_path / "cid", "comprehension")
    words = {"STORE": on_demand.root, "DIR": str(tmp_path / "figures"), **BENCHES}
    printed = {}
    for _, command, columns, *_ in _rows(ON_DEMAND):
        if command.strip("`").endswith(".csv"):
            file = tmp_path / "figures" / command.strip("`")
            table = pl.read_csv(file)
            assert table.columns == columns.split(", ") and set(table["graph"]) == {"with", "without"}, file
            assert file.with_suffix(".svg").stat().st_size > 500
            continue
        typed = [words.get(word, word) for word in command.strip("`").split()[1:]]
        code, out, err = curate(*typed, *(() if "DIR" in command else ("--json",)))
        assert code == 0, err
        if "DIR" not in command:
            rows = [json.loads(line) for line in out.splitlines()]
            printed[command] = [row for row in rows if {*columns.split(", ")} <= row.keys()]
            assert printed[command], command
    examined, rated, sorted_wrong = printed.values()
    assert {row["model"] for row in examined} == {"scene-viewer", "blind"}
    fits = {(row["asked"], row["guided"]): row["rate"] for row in rated if row["level"] == "all"}
    assert [fits["description_fits", guided] for guided in (True, False)] == [1.0, 0.0]
    assert sum(row["comprehension"] for row in sorted_wrong if row["slice"] == "overall") == len(wrong) > 0


def test_the_commands_on_failures_give_the_columns_that_the_page_names(curate, tmp_path):
    failed = failed_store(tmp_path)
    say(failed, NEW, 0, "right")
    words = {"STORE": failed.store.root, "DIR": str(tmp_path / "figures")}
    (_, marks, of_marks, _), (_, drawn, _, _), (_, file, of_file, _) = _rows(FAILED)
    code, out, err = curate(*(words.get(word, word) for word in marks.strip("`").split()[1:]), "--json")
    assert code == 0, err
    rows = [json.loads(line) for line in out.splitlines()]
    table = [row for row in rows if {*of_marks.split(", "), NEW} <= row.keys()]
    assert [row[NEW] for row in table] == ["O", "?", "?"] and {row["amber"] for row in table} == {"X"}
    code, _, err = curate(*(words.get(word, word) for word in drawn.strip("`").split()[1:]))
    assert code == 0, err
    cases = tmp_path / "figures" / file.strip("`")
    assert pl.read_csv(cases).columns == of_file.split(", ")
    assert all(cases.with_suffix(suffix).stat().st_size > 500 for suffix in (".svg", ".pdf", ".html"))


@pytest.fixture
def captioned(tmp_path):
    """A store with an item that has a caption for its instruction and a generic one."""
    store = visit_bench(tmp_path / "store", {"seer": "A cup."}, 1)
    store.replace("generic_captions", store.read("captions").with_columns(text=pl.lit("Some things.")))
    return store


@pytest.fixture
def reader(http_server, monkeypatch, tmp_path):
    """A models file with one model, which answers by the captions that it reads."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    http_server.answer(Reply(said_by(lambda text: "A table." if "Some things." in text else "A cup.")))
    return models_file(tmp_path, http_server.url, "reader")


@pytest.mark.usefixtures("prefect_server")
def test_the_command_on_answers_from_captions_gives_the_columns_that_the_page_names(
    captioned, reader, curate, tmp_path
):
    words = {"STORE": captioned.root, "BENCH": "b"}
    asked = ("--store", captioned.root, "--bench", "b")
    for captions in ("instruction", "generic"):
        chosen = ("--set", "evaluate.answer_from=captions", "--set", f"evaluate.captions={captions}")
        code, _, err = curate("judge", "answer", *asked, "--models", reader, *chosen)
        assert code == 0, err
    code, _, err = curate("review", "out", "caption_answers", *asked, "--out", tmp_path / "sheet")
    assert code == 0, err
    lines = list(csv.DictReader((tmp_path / "sheet/sheet.csv").read_text(encoding="utf-8").splitlines()))
    with (tmp_path / "filled.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, lines[0])
        writer.writeheader()
        writer.writerows(
            line | {"verdict": "right" if line["answer"] == "A cup." else "wrong", "reviewer": "ann"} for line in lines
        )
    code, _, err = curate("review", "in", "caption_answers", tmp_path / "filled.csv", *asked)
    assert code == 0, err
    ((_, command, columns, *_),) = _rows(CAPTIONED)
    code, out, err = curate(*(words.get(word, word) for word in command.strip("`").split()[1:]), "--json")
    assert code == 0, err
    rows = [json.loads(line) for line in out.splitlines()]
    assert all({*columns.split(", ")} <= row.keys() for row in rows)
    assert [(row["captions"], row["share"]) for row in rows] == [("instruction", 1.0), ("generic", 0.0)]


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--set", "evaluate.answer_from=captions"), "give --bench NAME"),
        (("--bench", "b", "--set", "evaluate.answer_from=captions"), "none of its items has instruction captions"),
    ],
)
def test_models_without_captions_to_read_are_one_line_without_a_call(
    captioned, reader, refused, http_server, options, told
):
    captioned.replace("captions", captioned.empty("captions"))
    assert told in refused("judge", "answer", *options, "--models", reader, "--store", captioned.root)
    assert http_server.requests == []


@pytest.mark.parametrize(
    ("benches", "told"),
    [
        (("scenes", "scenes"), "--bench 'scenes' is given twice"),
        (("none",), "has no benchmark of this name; it has plain, scenes"),
    ],
)
def test_benchmarks_whose_texts_cannot_be_drawn_are_one_line_and_make_no_folder(
    on_demand, refused, tmp_path, benches, told
):
    given = [word for name in benches for word in ("--bench", name)]
    assert told in refused("bench", "figures", "--store", on_demand.root, *given, "--out", tmp_path / "new")
    assert not (tmp_path / "new").exists()
