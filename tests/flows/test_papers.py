"""docs/papers.md: the figures that it promises of a store are made by its command, with the columns that it names."""

import csv
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import httpx
import polars as pl
import pytest

from flows.products import keyed_items
from schemas.asked_model import AskedModel
from schemas.benches.judging import Verdict
from schemas.settings import EvaluateSettings
from tasks.judging.answers import ask_models
from tasks.judging.sources import bench_of
from tasks.providers.embedded.known_tags import SWITCHED_ON
from tasks.shown import item_key
from tasks.storage.tables import Store, frame_of
from tests.asked_bench import benched, models_file, said_by
from tests.builders import conversation, decision, facts_frame, store_with, verdict
from tests.failed_store import NEW, failed_store, say
from tests.generated_bench import decided, settings_for
from tests.http_server import Reply
from tests.places import PUBLISHED
from tests.visit_bench import visit_bench
from tests.voted_store import voted

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
OTHERS = "By other commands"
ON_DEMAND = "From benchmarks made on demand"
FAILED = "From failures"
CAPTIONED = "From answers written from captions"
MADE = ("From logs, by one command", OTHERS, ON_DEMAND, FAILED, CAPTIONED)


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


def _asked(curate, store, kind, folder, verdict, *options, bench=BENCHES["BENCH"]):
    """Type the commands that ask a rater on a sheet and take it in; returns its lines."""
    asked = ("--store", store.root, "--bench", bench)
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


ANSWERED = ("base", "m", "n")
"""Models that answered the drawn benchmark of `judged`."""


def _file(path, *lines):
    """The name of a new text file of these lines."""
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def _typed(command, words):
    """The words of a command of the page after `curate`, with what this user has in place of its capitals."""
    return [str(words.get(word, word)) for word in command.strip("`").split()[1:]]


@pytest.fixture
def demo(curated):
    """The demo's store."""
    return {"STORE": curated.store.root}


@pytest.fixture
def released(curated, tmp_path):
    """A copy of the demo's release, to which pages may be added."""
    copy = shutil.copytree(curated.release, tmp_path / "release" / curated.release.name)
    return {"RELEASE": copy, "DIR": tmp_path / "pages"}


@pytest.fixture
def named(curated, curate, tmp_path):
    """A copy of the demo's store, decided on by a policy that says which version one of its models is."""
    store = shutil.copytree(curated.store.root, tmp_path / "store", ignore=shutil.ignore_patterns("releases"))
    model = curated.store.read("conversations", ["model"])["model"].unique().sort()[0]
    facts = {"version": f"{model}-2024-05-13", "provider": "A maker", "licence": "proprietary", "since": "2024-05-13"}
    policy = {"name": "named", "extends": "public_release", "models": {model: facts}}
    code, _, err = curate("decide", "--store", store, "--policy", _file(tmp_path / "named.yaml", json.dumps(policy)))
    assert code == 0, err
    return {"STORE": store}


@pytest.fixture
def judged(tmp_path):
    """A drawn benchmark with the answers of three models, verdicts on them, and the board of people."""
    store = benched(tmp_path / "store", answers={name: f"An answer of {name}." for name in ANSWERED})
    questions = store.read("bench")["conversation_id"].to_list()
    (version,) = store.read("answers")["version"].unique()
    labels = {"m": ("B>A", "B>>A", "A=B", "A>B"), "n": ("A>B", "A>>B", "A>B", "B>A")}
    rows = [
        verdict(question_id=question, model_b=model, label=label, answer_a=version, answer_b=version)
        for model, of_model in labels.items()
        for question, label in zip(questions, of_model, strict=True)
    ]
    store.replace("verdicts", frame_of(Verdict, rows))
    people = ("model,rating,ci95_low,ci95_high", "base,1000,990,1010", "m,1100,1090,1110", "n,900,890,910")
    return {"STORE": store.root, "BOARD": _file(tmp_path / "board.csv", *people)}


@pytest.fixture
def tagged(monkeypatch, tmp_path):
    """Kept prompts, and people's labels of them."""
    monkeypatch.setenv(SWITCHED_ON, "captioning")
    texts = {"c0": "Describe this image.", "c1": "Write a poem about a lamp.", "c2": "Describe this picture."}
    chats = [conversation(name, text, "Answer.") for name, text in texts.items()]
    store = store_with(tmp_path / "store", conversations=chats, decisions=[decision(chat) for chat in chats])
    lines = [json.dumps({"id": chat.document_id, "captioning": chat.conversation_id != "c1"}) for chat in chats]
    return {"STORE": store.root, "TAGGER": "embedded", "LABELS": _file(tmp_path / "people.jsonl", *lines)}


def _preferred(text):
    """A judge's reply: of two answers from captions the blue one, of a battle the left side but for one prompt."""
    if "Response A:" not in text:
        return "[[right]]" if "Prompt 1?" in text else "[[left]]"
    first = text.split("Response A:")[1].split("Response B:")[0]
    return json.dumps({"reasons": "It sees more.", "better": "A" if "blue" in first else "B"})


@pytest.fixture
def judge(http_server, monkeypatch, tmp_path):
    """A models file with a judge."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    http_server.answer(Reply(said_by(_preferred)))
    return models_file(tmp_path, http_server.url, "judge")


@pytest.fixture
def voting(judge, prefect_server, tmp_path):
    """Battles on which people voted, and a judge."""
    return {"STORE": voted(tmp_path / "store").root, "JUDGE": judge}


@pytest.fixture
def judgements(tmp_path):
    """Judgements of a model beside a baseline as WildVision-Bench writes them, and the answers of both."""
    labels = ("[[B>A]]", "[[B>>A]]", "[[A>B]]", "[[A=B]]")
    games = [
        {"question_id": f"q{place}", "model": "m", "judge": "gpt-4o", "games": [{"judgment": label}]}
        for place, label in enumerate(labels)
    ]
    answers = [
        {"question_id": f"q{place}", "model": model, "token_len": 10}
        for place in range(len(labels))
        for model in ("base", "m")
    ]
    return {
        "JUDGEMENTS": _file(tmp_path / "m.jsonl", *map(json.dumps, games)),
        "ANSWERS": _file(tmp_path / "answers.jsonl", *map(json.dumps, answers)),
        "MODEL": "base",
    }


@pytest.fixture
def boards(tmp_path):
    """Two published boards that have models in common."""
    (board, scores) = (PUBLISHED / f"visionarena-table{number}.csv" for number in (7, 8))
    return {"BOARD": board, "SCORES": scores, "MAP": tmp_path / "map.svg"}


@pytest.fixture
def written(judge, tmp_path):
    """A written benchmark that two models answered, a judge, people's votes, and answers of a third model."""
    store = visit_bench(tmp_path / "store", {"x": "A cup of {}.", "y": "A plate."})
    seen = {image_id: {"names": ["cup"]} for image_id in store.read("images")["image_id"]}
    store.replace("signals/objects", facts_frame("objects", seen))
    votes = [f"i{place},x,y,model_a,{rater}" for place in range(3) for rater in range(5)]
    answers = [f"i{place},{text}" for place, text in enumerate(("A blue cup.", "A blue cup.", "A bowl."))]
    return {
        "STORE": store.root,
        "BENCH": "b",
        "DIR": tmp_path / "sheet",
        "JUDGE": judge,
        "VOTES": _file(tmp_path / "votes.csv", "item,model_a,model_b,winner,rater", *votes),
        "ANSWERS": _file(tmp_path / "answers.csv", "item_id,prediction", *answers),
        "MODEL": "new",
    }


@pytest.fixture
def rated(written, curate, tmp_path):
    """The same, whose references a rater calls right."""
    _asked(curate, Store(written["STORE"]), "items", tmp_path / "ann", "none", bench=written["BENCH"])
    return written


@pytest.fixture
def asked(written, prefect_server):
    """The same, for a command that asks the judge."""
    return written


@pytest.fixture
def examined(on_demand, tmp_path):
    """A copy of the benchmark made on demand with its answers, and the models that are asked again."""
    models = [{"name": name, "vendor": "embedded", "model": name} for name in ("scene-viewer", "blind")]
    return {
        "STORE": shutil.copytree(on_demand.root, tmp_path / "store"),
        "BENCH": BENCHES["BENCH"],
        "MODELS": _file(tmp_path / "models.yaml", json.dumps({"models": models})),
        "MAP": tmp_path / "map.svg",
    }


@pytest.fixture
def audited(examined, prefect_server):
    """The same, for a command that asks the models."""
    return examined


@pytest.fixture
def small(prefect_server, monkeypatch, tmp_path):
    """A folder whose settings make a benchmark of one item."""
    monkeypatch.chdir(tmp_path)
    _file(tmp_path / "curate.yaml", json.dumps({"generate": {"general": 1, "fine": 1, "per_aspect": 1}}))
    return {"STORE": tmp_path / "store", "BENCH": "new", "CAPABILITY": "spatial"}


PREPARED = {
    "VA Fig. 1, 10": "released",
    "VA Fig. 4": "demo",
    "VA Table 7, 8": "judged",
    "VA Table 4": "judged",
    "VA Table 1, 9": "named",
    "VA Table 5": "tagged",
    "WV Fig. 6": "voting",
    "WV Table 4": "judgements",
    "WV Fig. 7": "boards",
    "VB Table 2": "rated",
    "VB Fig. 16": "asked",
    "VB Fig. 8": "asked",
    "VB ": "written",
    "verbs and objects": "written",
    "AB Fig. 3, 5, 8, 9": "small",
    "AB Table 6": "audited",
    "AB ": "examined",
}
"""Beginning of the first cell of a row -> the fixture with what its command needs; the first that fits."""
PLACED = re.compile(r"`([^/`][^`]*)`(?:: (.+))?")
"""A cell of columns that are not printed: the file, or the table of the store, that has them."""


def _other(of):
    """The rows of other commands that print their columns, that write them (`placed`), or that serve pages."""
    kinds = {"printed": [], "placed": [], "served": []}
    for row in _rows(OTHERS):
        kind = "served" if row[2].startswith("`/") else "placed" if PLACED.fullmatch(row[2]) else "printed"
        kinds[kind].append(pytest.param(*row[:3], id=row[0]))
    return kinds[of]


@pytest.fixture
def words(request, figure):
    """What the command of a row needs: the page's word -> this user's."""
    return request.getfixturevalue(next(name for start, name in PREPARED.items() if figure.startswith(start)))


@pytest.mark.parametrize(("figure", "command", "columns"), _other("printed"))
def test_every_other_command_prints_the_columns_that_the_page_names(figure, command, columns, words, curate):
    code, out, err = curate(*_typed(command, words), "--json")
    assert code == 0, err
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    with_columns = [row for row in rows if {*columns.split(", ")} <= row.keys()]
    assert with_columns, {name for row in rows for name in row}
    # of several tables with these columns the page means the one with the fewest others
    of_table = [row for row in with_columns if len(row) == min(map(len, with_columns))]
    assert [name for name in columns.split(", ") if all(row[name] is None for row in of_table)] == []


@pytest.mark.parametrize(
    ("figure", "command"), [row.values[:2] for row in _other("printed") if " MAP`" in row.values[1]]
)
def test_every_other_command_with_a_map_draws_it(figure, command, words, curate):
    code, _, err = curate(*_typed(command, words))
    assert code == 0, err
    assert words["MAP"].stat().st_size > 500


@pytest.mark.parametrize(("figure", "command", "columns"), _other("placed"))
def test_every_other_command_writes_the_columns_that_the_page_names(figure, command, columns, words, curate):
    code, _, err = curate(*_typed(command, words))
    assert code == 0, err
    place, named = PLACED.fullmatch(columns).groups()
    tables = [columns_of_table.split(", ") for columns_of_table in named.split("; ")] if named else [[]]
    assert [table for table in tables if not _is_written(words, place, table)] == []


def _is_written(words, place, columns):
    """Whether a file of DIR, the card of the release, or a table of the store has these columns and a row."""
    if place == "README.md":
        (card,) = words["STORE"].glob("releases/*/README.md")
        return f"| {' | '.join(columns)} |" in card.read_text(encoding="utf-8")
    if "." in place:
        files = [*words["DIR"].glob(place.replace("KEY", "*"))]
        return bool(files) and (not columns or {*columns} <= {*pl.read_csv(files[0], infer_schema=False).columns})
    table = Store(str(words["STORE"])).read(place)
    return table.height > 0 and {*columns} <= {*table.columns}


@contextmanager
def _served(command, words):
    """A browser of the pages that a command serves, and the command's link."""
    typed = [sys.executable, "-c", "from flows.commands import main; main()", *_typed(command, words)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(typed, stdout=subprocess.PIPE, text=True, cwd=root) as running:
        link = running.stdout.readline().strip()
        try:
            with httpx.Client(base_url=link.partition("?")[0], follow_redirects=True, timeout=60) as browser:
                assert browser.get(link).status_code == 200
                yield browser
        finally:
            running.terminate()


def _served_row(start):
    """Command and pages of a row whose first cell starts so."""
    (row,) = (row for row in _rows(OTHERS) if row[0].startswith(start))
    return row[1], re.findall(r"`([^`]+)`", row[2])


def test_the_arena_of_the_page_serves_its_kinds_of_talk(tmp_path):
    command, pages = _served_row("VA Fig. 22, 23")
    models = [{"name": name, "base_url": "http://127.0.0.1:1/v1", "vision": True} for name in ("a", "b")]
    words = {"MODELS": _file(tmp_path / "models.yaml", json.dumps({"models": models})), "LOGS": tmp_path / "logs"}
    with _served(command, words) as browser:
        assert {page: browser.get(page).status_code for page in pages} == dict.fromkeys(pages, 200)


def test_the_page_of_a_prompt_of_the_benchmark_has_the_answers_of_all_models(judged):
    command, (page,) = _served_row("WV Table 3")
    question = Store(judged["STORE"]).read("bench")["conversation_id"][0]
    with _served(command, judged) as browser:
        shown = browser.get(page.replace("KEY", item_key("conversation", question))).text
    assert [model for model in ANSWERED if f"An answer of {model}." not in shown] == []


def test_every_row_of_pages_is_tried():
    assert [row.id for row in _other("served")] == ["VA Fig. 22, 23, WV Fig. 1, 8", "WV Table 3"]


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
