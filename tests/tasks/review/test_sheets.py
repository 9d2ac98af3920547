"""Sheets of every kind: written, filled in, and read back; also those of earlier versions, and those that are bad."""

import csv
import json
from itertools import pairwise

import polars as pl
import pytest

from flows.commands.review.kinds import REVIEW_KINDS, queues_of
from schemas.items.review import Choice, Draws, Waiting
from tasks.judging.agreement.choices import is_swapped
from tasks.judging.battles_queue import item_of
from tasks.providers import Providers
from tasks.review.sheets import read_sheets, sheet_csv
from tasks.review_queue import ReviewQueue, plain
from tasks.signals.steps import signal_versions
from tasks.storage.reviews import reviews_of
from tests.builders import NOON, conversation, facts_frame, store_with
from tests.generated_bench import NAME
from tests.looked_store import EMAIL
from tests.visit_bench import HIDDEN
from tests.voted_store import MODELS, SECRETS

HELD = "conversation_id,content_id,reasons,verdict"
ITEMS = "item,reference_id,rater,correct,fault,harmful"
GENERATED = "item_id,guideline,description_fits,question_fits"
BATTLES = [f"b{n}" for n in range(len(MODELS))]
OPTIONS = {
    "items": ("--bench", "b"),
    "preferences": ("--bench", "b"),
    "caption_answers": ("--bench", "b"),
    "generated": ("--bench", NAME),
}


def rows_of(file):
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def filled(rows, file, **cells):
    """A file with these rows, in which some cells are filled in; a cell may be a function of its row."""
    told = [row | {name: cell(row) if callable(cell) else cell for name, cell in cells.items()} for row in rows]
    with file.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.DictWriter(lines, told[0])
        writer.writeheader()
        writer.writerows(told)
    return file


@pytest.fixture
def sheet(asking, curate, tmp_path):
    """A function that writes the sheet of a kind: its store and its rows."""

    def written(kind, *options):
        store, out = asking(kind), tmp_path / "sheet"
        code, printed, err = curate("review", "out", kind, "--store", store.root, "--out", out, *options)
        assert (code, printed.strip()) == (0, str(out / "sheet.csv")), err
        return store, rows_of(out / "sheet.csv")

    return written


@pytest.fixture
def take(curate):
    """A function that runs `curate review in` on the benchmark of the kind's store."""
    return lambda store, kind, *files: curate(
        "review", "in", kind, *files, "--store", store.root, *OPTIONS.get(kind, ())
    )


@pytest.mark.parametrize("kind", REVIEW_KINDS)
def test_a_sheet_comes_back_as_verdicts_on_what_was_shown(sheet, take, curate, tmp_path, kind):
    store, rows = sheet(kind, *OPTIONS.get(kind, ()))
    waiting = queues_of([kind], Draws(store=store.root, bench=dict([OPTIONS.get(kind, ("", None))]).get("--bench")))
    choice = {queue.name: queue.choices[-1].verdict for queue in waiting}
    assert rows and all(row["verdict"] == row["reviewer"] == "" for row in rows)
    assert all((tmp_path / "sheet" / "images" / name).is_file() for row in rows for name in row["images"].split())
    file = filled(rows, tmp_path / "ann.csv", verdict=lambda row: choice[row["queue"]].upper(), reviewer="Ann")
    code, out, err = take(store, kind, file)
    assert code == 0 and out.startswith(f"{len(rows)} verdicts") and out.endswith(f"; {REVIEW_KINDS[kind].next}\n"), err
    given = reviews_of(store)
    assert sorted(given["verdict"]) == sorted(choice[row["queue"]] for row in rows)
    assert set(given["queue"]) == {row["queue"] for row in rows} <= {*REVIEW_KINDS[kind].queues}
    asked = {(item.item_id, item.content_id, item.reasons) for queue in waiting for item in queue.waiting(store)}
    rows = given.select("item_id", "content_id", "reasons").iter_rows()
    assert {(item, content, tuple(reasons)) for item, content, reasons in rows} <= asked
    hashed = kind in ("items", "generated")
    assert {len(name) for name in given["reviewer"]} == {24 if hashed else 3}
    code, _, err = curate("review", "out", kind, "--store", store.root, "--out", tmp_path / "sheet")
    assert code == 2 and ("may be filled in" in err or "--bench" in err)


def test_an_empty_verdict_is_none_and_a_later_one_replaces_an_earlier_one(sheet, take, tmp_path):
    store, rows = sheet("held")
    code, out, _ = take(store, "held", filled(rows, tmp_path / "open.csv"))
    assert code == 0 and f"{len(rows)} left open" in out and reviews_of(store).is_empty()
    for verdict in ("release", "drop"):
        take(store, "held", filled(rows[:1], tmp_path / "ann.csv", verdict=verdict, reviewer="Ann"))
    assert reviews_of(store)["verdict"].to_list() == ["drop"]


@pytest.mark.parametrize(
    ("kind", "named", "line", "verdict", "who"),
    [
        ("held", HELD, "c0,{content_id},odd_image,DROP", "drop", ""),
        ("failures", "document_id,conversation_id,verdict", "{item},x,Safety", "safety", ""),
        ("battles", "item,images,prompt,left,right,label", "{item},,,,,both  BAD", "both bad", "ann"),
        ("preferences", "item,images,prompt,left,right,label", "{item},,,,,Left", "left", "ann"),
        ("preferences", "item,label,rater", "{item},right,Bob", "right", "Bob"),
        ("items", ITEMS, "{item},{content_id},bea,yes,,", "none", None),
        ("items", ITEMS, "{item},{content_id},b,n,Caption,y", "caption harmful", None),
        ("generated", f"{GENERATED},reviewer", "{item},Read,Yes,no,cid", "description_fits", None),
    ],
)  # fmt: skip
def test_a_filled_in_sheet_of_an_earlier_version_is_read(sheet, take, tmp_path, kind, named, line, verdict, who):
    store, rows = sheet(kind, *OPTIONS.get(kind, ()))
    file = tmp_path / "ann.csv"
    file.write_text(f"{named}\n{line.format(**rows[0])}\n", encoding="utf-8-sig")
    code, _, err = take(store, kind, file)
    assert code == 0, err
    (row,) = reviews_of(store).to_dicts()
    assert row["verdict"] == verdict and row["reviewer"] == (row["reviewer"] if who is None else who)
    assert row["content_id"] == (rows[0]["content_id"] if "{content_id}" in line else row["content_id"])
    assert row["reasons"] == {"held": ["odd_image"], "generated": ["guided"]}.get(kind, [])


@pytest.mark.parametrize(("guideline", "guided"), [("Name colours.", [True, False]), (" ", [True, True])])
def test_a_guided_rater_of_an_earlier_sheet_stays_guided_where_the_aspect_has_no_guideline(
    sheet, take, tmp_path, guideline, guided
):
    store, rows = sheet("generated", *OPTIONS["generated"])
    aspects = store.read("generated_aspects")
    store.replace("generated_aspects", aspects.with_columns(guideline=pl.lit(guideline)))
    lines = [f"{rows[0]['item']},Read,yes,no,cid", f"{rows[1]['item']},,yes,no,cid"]
    file = tmp_path / "cid.csv"
    file.write_text("\n".join([f"{GENERATED},reviewer", *lines, ""]), encoding="utf-8")
    code, _, err = take(store, "generated", file)
    assert code == 0, err
    reasons = dict(reviews_of(store).select("item_id", "reasons").iter_rows())
    assert [reasons[row["item"]] == ["guided"] for row in rows[:2]] == guided


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        ("held", "id,verdict\nc0,drop\n", "line 1: lacks the column item"),
        ("held", '{"verdict": "release"}\n', "line 1: lacks the column item"),
        ("held", "", "line 1: lacks the column item"),
        ("held", "conversation_id\nc0\n", "line 2: the sheet lacks the column verdict"),
        ("held", f"{HELD}\nc0,x\n", "line 2: has not as many cells as line 1"),
        ("held", f"{HELD}\nc0,x,y,maybe\n", "line 2: unknown verdict 'maybe'. Known: drop, release."),
        ("held", f"{HELD}\nc0,x,y,drop\n", "line 2: content_id was changed"),
        ("held", f"{HELD}\nnone,x,y,drop\n", "line 2: this item is not in store"),
        ("held", "queue,item,verdict\ntags,c0,ocr\n", "line 2: queue 'tags'. Known: held."),
        ("failures", "document_id,verdict\nx,ugly\n", "line 2: unknown verdict 'ugly'"),
        ("battles", f"item,label\n{item_of('b0')},lefft\n", "unknown verdict 'lefft'. Known: NA, both bad, left"),
        ("preferences", "item,label\n0123,tie\n", "unknown verdict 'tie'. Known: left, right."),
        ("tags", "item,verdict\nx,ocr none\n", "unknown verdict 'none'"),
        ("generated", f"{GENERATED}\nx,,maybe,no\n", "2: description_fits 'maybe'"),
        ("generated", "item,verdict\nx,none\n", "line 2: no reviewer; write who"),
        ("items", f"{ITEMS}\ni0,{'0' * 32},bea,perhaps,,\n", "line 2: correct 'perhaps'; give yes or no"),
        ("items", f"{ITEMS}\ni0,{'0' * 32},bea,yes,caption,\n", "line 2: a correct item has no fault"),
        ("items", f"{ITEMS}\ni0,{'0' * 32},bea,no,capt,\n", "line 2: fault 'capt'"),
        ("items", f"{ITEMS}\ni0,{'0' * 31},bea,no,,\n", "line 2: content_id was changed"),
        ("items", f"{ITEMS}\n" + f"i0,{'0' * 32},bea,no,,\n" * 2, "line 3: 'bea' has this item in sheet"),
    ],
)
def test_a_bad_line_is_one_clear_error_and_stores_nothing(asking, refused, tmp_path, kind, text, told):
    store, file = asking(kind), tmp_path / "bad.csv"
    file.write_text(text)
    assert told in refused("review", "in", kind, file, "--store", store.root, *OPTIONS.get(kind, ()))
    assert reviews_of(store).is_empty()


def test_what_is_not_in_the_store_any_more_is_left_out_and_told(sheet, take, tmp_path):
    store, rows = sheet("held")
    gone = rows[1] | {"item": "gone"}
    code, out, err = take(store, "held", filled([rows[0], gone], tmp_path / "ann.csv", verdict="drop"))
    assert code == 0 and out.startswith("1 verdicts (0 release, 1 drop)")
    assert "1 lines are on items that the store does not have, or not any more: " in err and "line 3" in err


def test_a_verdict_on_what_is_no_longer_held_is_stored_all_the_same(sheet, take, tmp_path):
    store, rows = sheet("held")
    store.replace("decisions", store.read("decisions").filter(~store.read("decisions")["held"]))
    take(store, "held", filled(rows, tmp_path / "bob.csv", verdict="drop"))
    assert reviews_of(store).height == len(rows)


def test_a_sheet_for_experts_shows_no_model_no_vote_and_no_battle_that_a_release_lacks(sheet, tmp_path):
    _, rows = sheet("battles")
    assert len(rows) == len(MODELS) and {is_swapped(row["item"]) for row in rows} == {True, False}
    for row in rows:
        n = int(row["prompt"].split()[1][0])
        sides = ["'=left", "Right"]  # a cell that a spreadsheet takes for a formula is guarded
        assert [row[side].split()[0] for side in ("left", "right")] == sides[:: -1 if is_swapped(row["item"]) else 1]
        assert row["item"] == item_of(f"b{n}") and len(row["images"].split()) == 2
    text = (tmp_path / "sheet" / "sheet.csv").read_text(encoding="utf-8")
    assert not any(word in text for word in ("ant,", "bee", "model_", *SECRETS))


def test_a_sheet_of_preferences_shows_no_model_and_no_hidden_item(sheet, tmp_path):
    _, rows = sheet("preferences", "--bench", "b", "--tuples", "4")
    text = (tmp_path / "sheet" / "sheet.csv").read_text(encoding="utf-8")
    assert len(rows) == 4 and HIDDEN not in text and "reference," not in text
    assert {row["left"].split()[1] == "cup" for row in rows} == {True, False}  # sides by hash


def test_personal_data_is_on_a_sheet_only_where_it_is_asked_for(asking, curate, tmp_path):
    store = asking("alarms")
    code, masked, _ = curate("review", "out", "alarms", "--store", store.root)
    assert code == 0 and "⟦email⟧" in masked and EMAIL not in masked
    out = tmp_path / "open"
    curate("review", "out", "alarms", "--store", store.root, "--out", out, "--unmasked")
    assert f"⟦{EMAIL}⟧" in (out / "sheet.csv").read_text() and len(list((out / "images").iterdir())) == 1


def test_nothing_that_is_quarantined_is_on_a_sheet(asking, curate):
    store = asking("tags")
    _, out, _ = curate("review", "out", "tags", "--store", store.root)
    assert out.count("tags,") > 3 and "A flagged prompt" not in out
    store.replace("quarantine", store.read("quarantine").clear())
    assert "A flagged prompt" in curate("review", "out", "tags", "--store", store.root)[1]


def test_a_sheet_says_what_is_asked_beside_the_items_own_question(sheet):
    _, (row, *_) = sheet("generated", "--bench", NAME, "--set", "guided=no")
    assert row["asked"] == "What fits?" and row["question"] not in ("", row["asked"])
    assert "guideline" not in row and row["reasons"] == ""


def test_battles_are_drawn_evenly_of_one_language_and_of_one_slice(asking, curate):
    store = asking("battles")
    read = lambda *options: curate("review", "out", "battles", "--store", store.root, *options)  # noqa: E731
    counts = [read("--per-pair", per_pair)[1].count("sheet,") for per_pair in (1, 2, 9)]
    assert counts[0] == 3 and counts[-1] == len(MODELS) and all(a <= b for a, b in pairwise(counts))
    prompts = store.read("conversations").filter(pl.col("conversation_id").is_in(BATTLES[:2]))["prompt_id"]
    spoken = {prompt: {"language": "de"} for prompt in prompts}
    store.replace("signals/language", facts_frame("language", spoken, signal_versions(Providers())["language"]))
    assert read("--language", "de")[1].count("sheet,") == 2
    assert read("--slice", "exclude_ties")[1].count("sheet,") == 4
    for wrong in (("--language", "Klingon"), ("--slice", "category:x")):
        code, out, err = read(*wrong)
        assert (code, out, err.count("\n")) == (2, "", 1) and f"{wrong[1]}'. Known: " in err


def shown_as(row, vote):
    """A vote on a battle as an expert gives it, who may see the sides exchanged."""
    return {"left": "right", "right": "left"}.get(vote, vote) if is_swapped(row["item"]) else vote


def test_experts_are_held_against_the_people_and_each_other(sheet, take, curate, tmp_path):
    store, rows = sheet("battles")
    votes = dict(zip(map(item_of, BATTLES), ("left", "right", "tie", "both bad", "left", "left"), strict=True))
    ann = filled(rows, tmp_path / "ann.csv", verdict=lambda row: shown_as(row, votes[row["item"]]))
    first = item_of(BATTLES[0])
    bob = filled(rows, tmp_path / "bob.csv", verdict=lambda row: (row["item"] != first and shown_as(row, "left")) or "")
    take(store, "battles", ann, bob)
    _, out, err = curate("review", "results", "battles", "--store", store.root, "--json")
    found = list(map(json.loads, out.splitlines()))
    table = {(row["a"], row["b"]): (row["items"], row["accuracy"]) for row in found[:3]}
    assert table == {("people", "ann"): (6, 1.0), ("people", "bob"): (5, 0.4), ("ann", "bob"): (5, 0.4)}, err
    assert (found[3]["raters"], found[3]["agreeing"], found[-1]["board"]) == (2, 2, "experts")


def test_raters_who_miss_known_answers_are_left_out(sheet, curate, tmp_path):
    store, rows = sheet("items", "--bench", "b")
    known = tmp_path / "known.csv"
    known.write_text("item,correct\ni0,yes\n")
    good = filled(rows, tmp_path / "good.csv", verdict="none", reviewer="ann")
    careless = filled(rows, tmp_path / "careless.csv", verdict="incorrect harmful", reviewer="dan")
    code, out, err = curate("review", "in", "items", good, careless, "--store", store.root, "--qualification", known)
    assert code == 0 and f"{len(rows)} verdicts of 1 reviewer on {len(rows)} items, 1 rater left out;" in out, err
    code, _, err = curate("review", "in", "held", good, "--store", store.root, "--qualification", known)
    assert code == 2 and "--qualification is for the kind items" in err
    known.write_text("item,correct\ni0,maybe\n")
    code, _, err = curate("review", "in", "items", good, "--store", store.root, "--qualification", known)
    assert code == 2 and "line 2: correct 'maybe'; give yes or no" in err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("out", "tag"), "kind 'tag'. Known: alarms"),
        (("results", "items"), "give --bench NAME"),
        (("results", "preferences", "--bench", "b"), "--out FILE"),
        (("results", "battles"), "no expert reviewed a battle"),
        (("out", "preferences"), "give --bench NAME"),
        (("in", "held", "none.csv"), "cannot be read"),
        (("out", "battles", "--out", __file__), "give another path"),
        (("results", "alarms", "--out", f"{__file__}/labels.csv"), "cannot be written"),
    ],
)
def test_a_command_that_cannot_be_used_is_one_line(asking, refused, arguments, told):
    assert told in refused("review", *arguments, "--store", asking("battles").root)


def test_a_sheet_asks_only_about_the_ids_of_a_file(asking, curate, tmp_path):
    store = asking("held")

    def lines(*options):
        code, printed, err = curate("review", "out", "held", "--store", store.root, *options)
        assert code == 0, err
        return list(csv.DictReader(printed.splitlines()))

    every = lines()
    file = tmp_path / "selection.csv"
    text = f"kind,id\nconversation,{every[0]['item']}\nconversation,unknown\n"
    for delimiter in ",;\t":
        file.write_text(text.replace(",", delimiter))
        assert len(every) > 1 and lines("--among", file) == every[:1]


@pytest.mark.parametrize(
    ("content", "says"),
    [("kind,name\na,b\n", "lacks a column `id`; its columns are kind, name"), (None, "cannot be read as CSV")],
)
def test_a_file_without_ids_is_refused_in_one_line(asking, curate, tmp_path, content, says):
    file = tmp_path / "selection.csv"
    if content:
        file.write_text(content)
    code, _, err = curate("review", "out", "held", "--store", asking("held").root, "--among", file)
    assert code == 2 and says in err and len(err.strip().splitlines()) == 1


@pytest.mark.parametrize("delimiter", [";", "\t", ","])
def test_a_sheet_that_a_spreadsheet_saved_with_its_own_delimiter_is_read(sheet, take, tmp_path, delimiter):
    store, rows = sheet("tags")
    file = tmp_path / "ann.csv"
    with file.open("w", encoding="utf-8-sig", newline="") as lines:
        writer = csv.DictWriter(lines, rows[0], delimiter=delimiter)
        writer.writeheader()
        writer.writerows(row | {"verdict": "ocr", "reviewer": "Ann; B, C"} for row in rows)
    code, out, err = take(store, "tags", file)
    assert code == 0 and out.startswith(f"{len(rows)} verdicts"), err
    assert set(reviews_of(store)["reviewer"]) == {"Ann; B, C"}


class _Asked(ReviewQueue):
    """A queue of one item, whose texts have these headings; an earlier sheet of it says yes in the column `fine`."""

    name, title, about, tables = "asked", "Asked", "Is it?", ("conversations",)
    choices = (Choice("y", "yes", "Yes"), Choice("n", "no", "No"))
    headings = ()
    sheets: list[list[dict]] = []

    def waiting(self, store, among=None):
        texts = tuple(plain(heading, f"text {number}") for number, heading in enumerate(self.headings))
        return [Waiting(f"i{number}", "0" * 32, "c", "Is it?", texts=texts) for number in range(2)]

    def earlier(self, store, cells, sheet):
        self.sheets.append([dict(line) for line in sheet])
        return {"verdict": cells["fine"], "reasons": ""}


@pytest.mark.parametrize(
    "headings", [("Answer", "Answer"), ("Item", "Verdict", "Images"), ("Answer 2", "Answer", "Answer")]
)
def test_every_text_of_an_item_has_a_column_whatever_its_heading(tmp_path, headings):
    queue = _Asked()
    queue.headings = headings
    store = store_with(tmp_path, conversations=[conversation("c")])
    (row, _) = csv.DictReader(sheet_csv(store, [queue]).splitlines())
    assert (row["item"], row["verdict"], row["images"]) == ("i0", "", "")
    assert {f"text {number}" for number in range(len(headings))} <= {*row.values()}


def test_an_earlier_sheet_is_handed_on_as_people_wrote_it_for_each_of_its_lines(tmp_path):
    queue, file = _Asked(), tmp_path / "ann.csv"
    queue.sheets = []
    store = store_with(tmp_path, conversations=[conversation("c")])
    file.write_text("item_id,rater,fine\ni0,Ann,yes\ni1,Ann,no\n")
    read = read_sheets(store, [queue], [file], "", NOON)
    assert [review.verdict for review in read.reviews] == ["yes", "no"]
    first, second = queue.sheets
    assert first == second and all("verdict" not in line for line in first)
