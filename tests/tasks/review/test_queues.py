"""What people say of tags and of detectors' findings becomes labels, precision with intervals, and kappa."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from benchmarks.privacy_unseen import labels
from flows.commands.review.kinds import OF_EVERY_STORE, figures_of, queues_of
from flows.commands.tag_sources import sides_to_compare
from schemas.errors import BadInput
from schemas.items.review import Draws, Review
from schemas.settings import Settings
from tasks.review.alarms import FacesQueue, PersonalDataQueue, text_hash
from tasks.review.battles import experts_of
from tasks.review.reviewed_report import reviewed_part
from tasks.storage.content_id import text_id
from tasks.storage.reviews import add_reviews, reviews_of
from tasks.storage.tables import Store
from tests.builders import NOON, facts_frame
from tests.looked_store import EMAIL, strict
from tests.reviewed_store import reviewing, shown_of
from tests.voted_store import MODELS


def queues(store, sample=10):
    """Everything that is asked when nothing is named."""
    return queues_of(OF_EVERY_STORE, Draws(store=store.root, sample=sample))


def test_findings_are_masked_until_asked_and_verdicts_become_a_precision_with_its_interval(store, looked, curate):
    ada = reviewing(store, queues=queues(store), figures=figures_of)
    path, fields, html = ada.page("text_pii")
    strict(html)
    assert EMAIL not in html and "<mark>email</mark>" in html and "of type email?" in html
    assert "as email, with confidence 1.00" in html  # why it was found
    opened = ada.client.post(f"{path}/open", data=fields).text
    assert f"<mark>{EMAIL}</mark>" in opened and "Write to " in opened
    ada.give("false_alarm", "text_pii")
    path, fields, html = ada.page("faces")
    strict(html)
    assert f"/images/{looked.faces}" in html and "?opened=1" not in html and "Found: face 0.90" in html
    assert "Who is this?" not in html  # the image alone
    assert "?opened=1" in ada.client.post(f"{path}/open", data=fields).text
    ada.give("confirmed", "faces")
    found = {row.type: row for row in figures_of(store).precisions}
    assert (found["face"].confirmed, found["face"].reviewed, found["email"].precision) == (1, 1, 0.0)
    assert (found["face"].ci95_low, found["face"].ci95_high) == pytest.approx((0.025, 1.0))  # Clopper-Pearson, 1 of 1
    assert "0.025 to 1.000" in ada.client.get("/review").text
    part = reviewed_part(store)
    assert part.table["type"].to_list() == ["face", "email"] and part.table["confirmed"].to_list() == [1, 0]
    code, out, _ = curate("review", "results", "alarms", "--store", store.root, "--json")
    assert code == 0 and [json.loads(line)["type"] for line in out.splitlines()] == ["face", "email"]
    file = Path(store.root).parent / "labels.csv"
    assert curate("review", "results", "alarms", "--store", store.root, "--out", file)[0] == 0
    assert EMAIL not in file.read_text()
    item = next(iter(ada.session.items("text_pii").values()))
    texts = {t["text_id"]: t["content"] for row in store.read("conversations")["turns"] for t in row}
    start, end = (int(place) for place in item.item_id.split(":")[1].split("-"))
    assert labels(file) == {text_hash(texts[item.content_id]): [(start, end, False)]}, "as the benchmark reads it"


def test_what_was_read_in_an_image_is_asked_about_beside_it_and_counts_apart(store, looked):
    text = f"RECEIPT {EMAIL} total 9"
    read = facts_frame("image_text", {looked.plain: {"text": text}})
    store.replace("signals/image_text", read)
    span = {"type": "email", "start": 8, "end": 8 + len(EMAIL), "confidence": 1.0}
    both = [
        *store.read("signals/text_pii").to_dicts(),
        *facts_frame("text_pii", {text_id(text): {"spans": [span], "types": ["email"]}}).to_dicts(),
    ]
    store.replace("signals/text_pii", pl.DataFrame(both, schema=store.read("signals/text_pii").schema))
    ada = reviewing(store, queues=queues(store), figures=figures_of)
    (item,) = ada.session.items("image_text_pii").values()
    assert item.image_ids == (looked.plain,) and item.content_id == text_id(text)
    path, fields, html = ada.page("image_text_pii")
    strict(html)
    assert EMAIL not in html and "RECEIPT" in html and f"/images/{looked.plain}" in html
    assert EMAIL in ada.client.post(f"{path}/open", data=fields).text
    ada.give("confirmed", "image_text_pii")
    found = {row.detector: (row.type, row.confirmed, row.reviewed) for row in figures_of(store).precisions}
    assert found == {"image_text_pii": ("email", 1, 1)}


def test_reviewers_who_disagree_about_a_finding_do_not_count_in_its_precision(store):
    for reviewer, verdict in (("Ada", "confirmed"), ("Bob", "false_alarm")):
        reviewing(store, reviewer, queues(store)).give(verdict, "faces")
    assert figures_of(store).precisions == []
    add_reviews(store, [_review(store, "Bob", "confirmed")])
    (row,) = figures_of(store).precisions
    assert (row.reviewed, row.confirmed, row.disagreed) == (1, 1, 0)


def _review(store: Store, reviewer: str, verdict: str) -> Review:
    row = reviews_of(store).filter(reviewer=reviewer).row(0, named=True)
    return Review(**row | {"verdict": verdict, "reviewed_at": datetime(2100, 1, 1, tzinfo=UTC)})


def test_a_neighbour_of_the_asked_stretch_stays_masked_also_where_the_window_cuts_it(store, monkeypatch):
    turn = store.read("conversations").filter(conversation_id="personal")["turns"][0][0]
    spans = [
        {"type": kind, "start": start, "end": end, "confidence": 1.0}
        for kind, start, end in (("person", 0, 5), ("email", 9, 9 + len(EMAIL)))
    ]
    rows = [
        row | ({"spans": spans} if row["content_id"] == turn["text_id"] else {})
        for row in store.read("signals/text_pii").to_dicts()
    ]
    store.replace("signals/text_pii", pl.DataFrame(rows, schema=store.read("signals/text_pii").schema))
    for characters, before in ((200, [("", ""), ("[person]", "")]), (6, [("", ""), ("[person]", "")])):
        monkeypatch.setattr("tasks.review.alarms.CONTEXT_CHARACTERS", characters)
        (email,) = (each for each in PersonalDataQueue(9, 0).waiting(store) if each.item_id.endswith(":email"))
        shown = [(each.text, each.hidden) for each in email.texts[0].stretches]
        assert shown == [*before, (turn["content"][5:9], ""), (EMAIL, "email"), (", please"[:characters], "")]


def test_a_value_that_stands_again_beside_a_finding_is_masked_there_too(store):
    text = f"Mail Jane Kowalski at {EMAIL}; Jane Kowalski answers"
    conversations, found = store.read("conversations").to_dicts(), store.read("signals/text_pii").to_dicts()
    turn = next(each for row in conversations for each in row["turns"] if EMAIL in each["content"])
    changed, at = turn["text_id"], text.index(EMAIL)
    for each in (each for row in conversations for each in row["turns"] if each["text_id"] == changed):
        each["content"] = text
    spans = [(5, 18, "person"), (at, at + len(EMAIL), "email")]
    for row in (row for row in found if row["content_id"] == changed):
        row["spans"] = [{"start": a, "end": b, "type": kind, "confidence": 1.0} for a, b, kind in spans]
    store.replace("conversations", pl.DataFrame(conversations, schema=store.read("conversations").schema))
    store.replace("signals/text_pii", pl.DataFrame(found, schema=store.read("signals/text_pii").schema))
    (email,) = (each for each in PersonalDataQueue(9, 0).waiting(store) if each.item_id.endswith(":email"))
    assert [each.text for each in email.texts[0].stretches] == [
        "Mail ", "[person]", " at ", EMAIL, "; ", "[person]", " answers"
    ]  # fmt: skip


def test_an_image_below_the_policys_threshold_is_no_finding(store):
    assert len(FacesQueue(9, 0).waiting(store)) == 1
    faces = store.read("signals/faces").with_columns(pl.col("confidence_max") * pl.lit(0.4, pl.Float32))
    store.replace("signals/faces", faces)
    assert FacesQueue(9, 0).waiting(store) == []


def test_reviewed_tags_are_a_reference_for_any_tagger(store, tmp_path):
    ada = reviewing(store, queues=queues(store, 2))
    path, fields, html = ada.page("tags")
    assert html.count('type="checkbox"') == 7 and "checked" not in html
    ada.client.post(path, data=fields | {"verdict": ["ocr", "humor"]})
    first = reviews_of(store).row(0, named=True)
    assert first["verdict"] == "humor ocr"  # in the order of the tags
    path, fields, _ = ada.page("tags")
    ada.client.post(path, data=fields)
    assert set(reviews_of(store)["verdict"]) == {"humor ocr", "none"}
    labels = tmp_path / "labels.csv"
    documents = reviews_of(store).sort("verdict")["item_id"].to_list()
    labels.write_text("id,ocr,humor\n" + "".join(f"{each},true,false\n" for each in documents))
    sides = sides_to_compare((str(labels), "reviews"), (), "categories", None, 9, Settings(store=store.root)).sides(
        NOON
    )
    assert sides.reference[first["item_id"]]["ocr"] is True and sides.reference[first["item_id"]]["diagram"] is False
    add_reviews(store, [Review(**first | {"reviewer": "Bob", "verdict": "humor"})])
    sides = sides_to_compare((str(labels), "reviews"), (), "categories", None, 9, Settings(store=store.root)).sides(
        NOON
    )
    assert sides.reference[first["item_id"]]["ocr"] is None and sides.reference[first["item_id"]]["humor"] is True
    for signal, of, told in (("categories", "", "people reviewed, in"), ("criteria", store.root, "categories only")):
        with pytest.raises(BadInput, match=told):
            sides_to_compare(("embedded", "reviews"), (), signal, None, 9, Settings(store=of))


def test_experts_see_no_model_and_no_vote_and_their_verdicts_are_about_the_battles_own_sides(asking, curate):
    store = asking("battles")
    page = reviewing(store, "Eve", queues_of(["battles"], Draws(store=store.root)))
    items = page.session.items("sheet")
    assert len(items) == len(MODELS) and {item.swapped for item in items.values()} == {True, False}
    for key, item in items.items():
        html = page.client.get(f"/review/sheet/{key}").text
        assert not re.search(rf"\b(ant|bee|cat|preferred|{item.battle_id})\b", html)
        assert (html.index("=left") > re.search(r"Right \d", html).start()) is item.swapped
        fields = page.page("sheet")[1] | {"shown": shown_of(html), "verdict": "left"}
        page.client.post(f"/review/sheet/{key}", data=fields)
    (sheet,) = experts_of(store, [item.item_id for item in items.values()])
    told = dict(sheet.rows.select("item", "label").iter_rows())
    assert told == {each.item_id: "right" if each.swapped else "left" for each in items.values()}
    code, out, err = curate("review", "results", "battles", "--store", store.root, "--json")
    found = list(map(json.loads, out.splitlines()))
    assert (code, found[0]["b"], found[0]["items"]) == (0, "Eve", len(MODELS)), err
