"""`curate subject` writes out all that is held of a person, and nothing of anybody else."""

import io
import json
import random
import sys
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from PIL import Image

from flows.commands.pipeline import export_released
from schemas.items.reject import TakenDownKind
from schemas.publication import Compat, ExportKind
from schemas.row import Held
from schemas.run import StageReport
from schemas.settings import Settings
from schemas.tables import TABLES
from schemas.upkeep import Audited
from tasks.export.destination import record_export
from tasks.export.published_ids import judge_name
from tasks.storage.keyed_ids import UNFINISHED, Pseudonyms, store_key
from tasks.storage.records import audit_entries
from tasks.storage.tables import Store
from tasks.takedown.subject import ANOTHERS
from tasks.takedown.take_down import take_down
from tests.builders import NOON, image_bytes
from tests.disk_steps import full_at
from tests.small_store import make_release
from tests.tampered_release import BATTLE, rewrite
from tests.tasks.ingest.logs import chat, conv_id, image_name, ingested, served, write
from tests.tasks.takedown.conftest import ANN, BOB, OWN, SECRET, user_of
from tests.tasks.takedown.test_every_table import PLANTED, about, ids_of

STRANGER = "192.0.2.77"


@pytest.fixture
def subject(curate, store):
    """Run `curate subject` on the store: (exit status, stdout, stderr)."""
    return partial(curate, "subject", "--store", store.root)


def rows_in(folder: Path, table: str) -> list[dict]:
    """The rows of a table in a person's folder."""
    is_in_tables = not table.startswith(("releases/", "exports/"))
    file = folder / "tables" / f"{table}.jsonl" if is_in_tables else folder / f"{table}.jsonl"
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []


def words_in(folder: Path) -> str:
    """All text of a person's folder."""
    return "".join(path.read_text("utf-8") for path in sorted(folder.rglob("*")) if path.suffix in (".html", ".jsonl"))


def export(store: Store) -> None:
    """Write the release with a published dataset's columns, too; votes get an image, as there are no others there."""
    picture = {"bytes": image_bytes(0), "path": f"{OWN}.png"}
    release = Path(store.root) / "releases" / "1.0.0"
    rewrite(release, BATTLE, lambda rows: [row | {"images": [picture]} for row in rows])
    reports = [StageReport(stage="release", result="releases/1.0.0")]
    export_released(Settings(store=store.root), reports, Compat.VISIONARENA)


def test_a_person_gets_texts_votes_images_and_released_rows_and_nothing_of_others(subject, store, tmp_path):
    export(store)
    out = tmp_path / "ann"
    code, said, err = subject(ANN, "--out", str(out))
    assert (code, err) == (0, "") and ANN not in said
    page, words = (out / "index.html").read_text("utf-8"), words_in(out)
    for text in (f"{SECRET} one?", "secret answer one", f"{SECRET} two?", f"{SECRET} why"):
        assert text in page
    assert {row["conversation_id"] for row in rows_in(out, "conversations")} == {
        conv_id(name) for name in ("ann", "left", "right")
    }
    assert [row["question_id"] for row in rows_in(out, "releases/1.0.0/battle/data/train-00000-of-00001")] == [
        conv_id("left")
    ]
    (vote,) = rows_in(out, "exports/1.0.0-visionarena/battle/data/train-00000-of-00001")
    assert (vote["question_id"], vote["judge"]) == (conv_id("left"), judge_name(user_of(store, "left")))
    assert vote["images"][0]["bytes"].startswith("images/")
    assert "bob" not in words and conv_id("bob") not in words
    assert Pseudonyms(store_key(store)).user_id(BOB) not in words
    assert ANN not in words
    pictures = [Image.open(path).convert("RGB").tobytes() for path in (out / "images").iterdir()]
    assert len(pictures) >= 2 and all(f"images/{path.name}" in words for path in (out / "images").iterdir())
    assert "the raw logs had 4 lines of this person" in said


def test_all_that_a_takedown_removes_is_written_out_first(subject, store, tmp_path):
    out = tmp_path / "ann"
    assert subject(ANN, "--out", str(out))[0] == 0
    removed = take_down(store, [], [ANN], NOON, dry_run=True).rows
    held_by_nobody = {"signals/text_pii": 1}  # the replaced text that `fill` measured was never Ann's
    short = {
        table: (rows, len(rows_in(out, table)))
        for table, rows in removed.items()
        if len(rows_in(out, table)) < rows - held_by_nobody.get(table, 0)
    }
    assert not short


@pytest.mark.parametrize("table", random.Random(66).sample(PLANTED, 24))
def test_a_row_of_any_table_is_found_by_any_id_of_theirs_and_no_row_of_others(subject, store, tmp_path, table):
    declared = TABLES[table]
    theirs, others = ids_of(store, "ann", OWN), ids_of(store, "bob", image_name("other"))
    for kinds in (theirs, others):
        kinds |= {Held.LINE: kinds[Held.CONVERSATION], Held.PLACE: kinds[Held.IMAGE_NAME]}
        kinds |= {Held.WITHHELD: kinds[Held.CONVERSATION]}
    others |= {Held.IMAGE: "9" * 32, Held.CONTENT: "9" * 32}  # Bob's image is Ann's, too
    store.replace(table, pl.concat([about(declared, theirs), about(declared, others)]))
    out = tmp_path / "ann"
    assert subject(ANN, "--out", str(out))[0] == 0
    rows = rows_in(out, table)
    assert len(rows) == 1 and ANOTHERS not in json.dumps(rows)


def test_ids_of_others_in_a_row_of_theirs_are_not_told(subject, store, tmp_path):
    out = tmp_path / "ann"
    assert subject(ANN, "--out", str(out))[0] == 0
    assert [row["conversation_a"] for row in rows_in(out, "near_prompts")] == [ANOTHERS]
    named = set(rows_in(out, "topic_names")[0]["document_ids"])
    assert named == {row["document_id"] for row in rows_in(out, "conversations")}
    assert all("reviewer" not in row for row in rows_in(out, "reviews"))


def test_somebody_without_an_address_who_shows_the_same_image_is_not_told(curate, tmp_path):
    logs = tmp_path / "logs"
    write(
        logs,
        "vision-tmp-2024-06-20-conv.json",
        chat("mine", "words of one person", "an answer", ip=ANN, images=[OWN]),
        chat("theirs", "words of a stranger", "another answer", ip=None, images=[OWN]),
    )
    store = ingested(served(logs, OWN), tmp_path / "two")
    out = tmp_path / "ann"
    assert curate("subject", ANN, "--store", store.root, "--out", str(out))[0] == 0
    words = words_in(out)
    assert "words of one person" in words and "stranger" not in words and conv_id("theirs") not in words
    assert len(list((out / "images").iterdir())) == 1


def test_two_people_under_one_conversation_id_get_their_own_lines(curate, tmp_path):
    logs = tmp_path / "logs"
    write(
        logs,
        "vision-tmp-2024-06-20-conv.json",
        chat("same", "first persons words", "an answer", ip=ANN, images=[OWN]),
        chat("same", "second persons words", "another answer", ip=BOB, images=[image_name("other")]),
    )
    store = ingested(served(logs, OWN, image_name("other")), tmp_path / "two")
    for person, mine, not_mine in ((ANN, "first persons", "second persons"), (BOB, "second persons", "first persons")):
        out = tmp_path / person
        assert curate("subject", person, "--store", store.root, "--out", str(out))[0] == 0
        words = words_in(out)
        assert mine in words and not_mine not in words
        assert len(list((out / "images").iterdir())) == 1


def test_a_user_id_and_standard_input_name_the_same_person(subject, store, tmp_path, monkeypatch):
    user_id = Pseudonyms(store_key(store)).user_id(ANN)
    assert subject(user_id, "--out", str(tmp_path / "by_id"))[0] == 0
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{ANN}\n"))
    assert subject("-", "--out", str(tmp_path / "by_address"))[0] == 0
    told = [
        {path.relative_to(tmp_path / name): path.read_bytes() for path in (tmp_path / name).rglob("*.jsonl")}
        for name in ("by_id", "by_address")
    ]
    assert told[0] == told[1] and told[0]


@pytest.mark.parametrize("person", [STRANGER, "0" * 24, conv_id("ann"), "", "keyed:0:1"])
def test_a_person_whom_the_store_never_had_is_one_line(subject, store, tmp_path, person):
    before = list(audit_entries(store))
    code, out, err = subject(person, "--out", str(tmp_path / "nobody"))
    assert (code, out, err.count("\n")) == (2, "", 1) and "no line of that person" in err
    assert not (person and person in err) and not (tmp_path / "nobody").exists()
    assert list(audit_entries(store)) == before


def test_nothing_is_written_over_and_nothing_while_a_takedown_is_unfinished(subject, store, tmp_path):
    (tmp_path / "there").mkdir()
    assert subject(ANN, "--out", str(tmp_path / "there"))[0] == 2
    store.write_bytes(UNFINISHED, b"")
    code, out, err = subject(ANN, "--out", str(tmp_path / "ann"))
    assert (code, out, err.count("\n"), (tmp_path / "ann").exists()) == (2, "", 1, False)


def test_it_is_audited_without_the_person_and_only_the_owner_can_read_it(subject, store, tmp_path):
    assert subject(ANN, "--out", str(tmp_path / "ann"))[0] == 0
    entry = list(audit_entries(store))[-1]
    assert (entry.what, entry.counts, entry.about) == (Audited.HANDED_OUT, {"people": 1, "conversations": 3}, "")
    assert (tmp_path / "ann").stat().st_mode & 0o077 == 0


def test_copies_for_which_there_is_no_room_leave_no_half_of_them(subject, tmp_path):
    with full_at(f"^{tmp_path}/ann/index.html"):
        code, _, err = subject(ANN, "--out", str(tmp_path / "ann"))
    assert (code, "no room left" in err, (tmp_path / "ann").exists()) == (2, True, False)
    assert subject(ANN, "--out", str(tmp_path / "ann"))[0] == 0


def test_copies_outside_of_the_store_are_named_to_the_operator_and_not_their_places_to_the_person(
    subject, store, tmp_path
):
    make_release(store, reported=False, release="2.0.0")
    record_export(store, str(tmp_path / "exported"), ExportKind.SFT, "2.0.0", True, NOON)
    code, said, _ = subject(ANN, "--out", str(tmp_path / "ann"))
    assert code == 0 and f"perhaps in: training data 2.0.0 at {tmp_path / 'exported'}" in said
    page = (tmp_path / "ann" / "index.html").read_text("utf-8")
    assert "training data of version 2.0.0" in page and str(tmp_path) not in page


def test_an_answer_from_the_tables_of_the_store_is_named_to_the_operator(subject, store, tmp_path):
    record_export(store, str(tmp_path / "rows.parquet"), ExportKind.ANSWER, "", True, NOON)
    code, said, _ = subject(ANN, "--out", str(tmp_path / "ann"))
    assert code == 0 and f"perhaps in: answer to a question at {tmp_path / 'rows.parquet'}" in said


def test_after_a_takedown_nothing_is_left_to_hand_out(subject, store, tmp_path):
    take_down(store, [], [ANN], NOON, dry_run=False)
    assert Store(store.root).read("takedowns").filter(kind=TakenDownKind.USER.value).height == 1
    code, said, _ = subject(ANN, "--out", str(tmp_path / "ann"))
    assert code == 0 and "0 rows, 0 images" in said
    assert not (tmp_path / "ann" / "tables" / "conversations.jsonl").exists()
