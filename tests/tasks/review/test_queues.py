"""What people say of tags, findings, answers and items becomes labels, precision, kappa, verdicts and battles."""

import json
import random
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from benchmarks.privacy_unseen import labels
from flows.commands.review.kinds import OF_EVERY_STORE, figures_of, queues_of
from flows.commands.tag_sources import sides_to_compare
from schemas.errors import BadInput
from schemas.items.review import Draws, QueueName, Review, Waiting
from schemas.settings import Settings
from schemas.tags import TAGS
from tasks.generated_bench.items import generated_reviews, kept_items
from tasks.judging.battles_queue import experts_of
from tasks.report.content import reviewed_part
from tasks.review.alarms import FacesQueue, ImageTextsQueue, PersonalDataQueue, alarm_labels, text_hash
from tasks.review.tags import reviewed_tags
from tasks.storage.content_id import text_id
from tasks.storage.reviews import add_reviews, reviews_of
from tasks.storage.tables import Store
from tasks.written_bench.findings import finding_tables, item_checks
from tests.builders import NOON, conversation, facts_frame, store_with
from tests.generated_bench import NAME
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


@pytest.mark.parametrize("seed", range(10))
def test_a_drawn_finding_is_asked_about_in_the_first_conversation_that_shows_it(tmp_path, seed):
    chance = random.Random(seed)
    texts, images = [f"text {number}" for number in range(12)], [text_id(f"image {number}") for number in range(6)]
    logged = []
    for number in chance.sample(range(20), 20):
        messages, hour = chance.choices(texts[:8], k=chance.randint(1, 4)), NOON + timedelta(hours=chance.randrange(6))
        shown = chance.sample(images, chance.randint(0, 2))
        logged.append(conversation(f"c{number:02}", *messages, image_ids=shown, tstamp=hour))
    logged.sort(key=lambda each: (each.tstamp, each.conversation_id))
    store = store_with(tmp_path, conversations=logged)
    span = {"start": 0, "end": 4, "type": "person", "confidence": 1.0}
    found = chance.sample(texts, 9)
    store.replace("signals/text_pii", facts_frame("text_pii", {text_id(text): {"spans": [span]} for text in found}))
    # What was read in an image counts as it was read last.
    readings = [
        facts_frame("image_text", {image: {"text": chance.choice(["", *texts])} for image in images}, f"{time}")
        .with_columns(measured_at=NOON + timedelta(days=time))
        for time in chance.sample(range(3), 3)
    ]  # fmt: skip
    store.replace("signals/image_text", pl.concat(readings))
    last_readings = max(readings, key=lambda rows: rows["measured_at"][0])
    text_of = dict(last_readings.select("content_id", "text").iter_rows())

    def shown_first(text, of_conversation):
        return next((each.conversation_id for each in logged if text in of_conversation(each)), None)

    def read_in(each):
        return {text_of[image] for image in each.image_ids}

    in_messages = {text_id(text): shown_first(text, lambda each: {t.content for t in each.turns}) for text in found}
    in_images = {text_id(text): shown_first(text, read_in) for text in found}
    asked = {each.content_id: each.conversation_id for each in PersonalDataQueue(99, 0).waiting(store)}
    assert asked == {name: first for name, first in in_messages.items() if first}
    of_images = ImageTextsQueue(99, 0).waiting(store)
    asked = {each.content_id: each.conversation_id for each in of_images}
    assert asked == {name: first for name, first in in_images.items() if first}
    assert all(text_id(text_of[each.image_ids[0]]) == each.content_id for each in of_images)
    add_reviews(store, [_confirmed(each) for each in of_images])
    labelled = {text_hash(text) for text in found if in_images[text_id(text)]}
    assert {*alarm_labels(store)["text"]} == labelled


def _confirmed(item: Waiting) -> Review:
    subject = {"conversation_id": item.conversation_id, "content_id": item.content_id, "item_id": item.item_id}
    return Review(
        **subject, reasons=[], verdict="confirmed", queue=ImageTextsQueue.name, reviewer="Ada", reviewed_at=NOON
    )


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
    assert html.count('type="checkbox"') == len(TAGS) and "checked" not in html
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
    # Eve gave hers before the queue asked about instruction following
    add_reviews(store, [Review(**first | {"reviewer": "Eve", "verdict": "humor", "reasons": []})])
    assert reviewed_tags(store)[first["item_id"]]["instruction_following"] is False
    store.replace("reviews", reviews_of(store).filter(reviewer="Eve"))
    assert reviewed_tags(store)[first["item_id"]]["instruction_following"] is None
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


TABLE_3 = {
    "LLaVA (13B)": (64, 244, 26.23), "LlamaAdapter-v2 (7B)": (71, 259, 27.41), "mPLUG-Owl (7B)": (32, 214, 14.95),
    "InstructBLIP (13B)": (24, 194, 12.37), "MiniGPT-4 (7B)": (44, 299, 14.72), "PandaGPT (13B)": (24, 229, 10.48),
}  # fmt: skip
"""VisIT-Bench, Table 3: model -> wins against the reference, ratings, printed percent."""


def _choices(rows, raters):
    """Verdicts of raters who like cups; also one on answers that the store does not have."""
    for name, cups in rows.items():
        for rater in range(raters):
            yield Review(
                conversation_id="i0", content_id=name, reasons=[], verdict=cups, queue=QueueName.PREFERENCES.value,
                item_id=name, reviewer=f"rater{rater}", reviewed_at=NOON,
            )  # fmt: skip


def test_a_forced_choice_of_several_raters_becomes_battles_without_their_names(asking, curate, tmp_path):
    from flows.commands.review.kinds import queues_of

    store = asking("preferences")
    (queue,) = queues_of(["preferences"], Draws(store=store.root, bench="b", tuples=12, hidden=False))
    said = {item.item_id: [text.stretches[0].text for text in item.texts] for item in queue.waiting(store)}
    cups = {name: "left" if "cup" in left or "plate" in right else "right" for name, (left, right) in said.items()}
    assert {*cups.values()} == {"left", "right"}  # sides by hash
    add_reviews(store, [*_choices(cups, 5), *_choices({"0123": "left"}, 1)])
    battles = tmp_path / "battles.csv"
    options = ("review", "results", "preferences", "--store", store.root, "--bench", "b")
    code, out, err = curate(*options, "--out", battles)
    assert (code, out.strip()) == (0, str(battles)), err
    assert f"{5 * len(cups)} choices; pairs by number of choices: {len(cups)} with 5; 1 on other answers" in err
    found = pl.read_csv(battles)
    assert found["judge"].n_unique() == 5 and "rater" not in "".join(found["judge"])
    won = found.select(pl.when(pl.col("winner") == "model_a").then("model_a").otherwise("model_b")).to_series()
    assert won.filter((found["model_a"] != "reference") & (found["model_b"] != "reference")).unique().to_list() == ["x"]
    code, _, err = curate(*options, "--out", tmp_path / "none" / "battles.csv")
    assert code == 2 and "cannot be written (No such file or directory)" in err
    code, printed, _ = curate("rate", battles, "--json")
    assert code == 0 and json.loads(printed.splitlines()[0])["model"] == "x"


def test_win_rates_against_the_reference_are_those_of_the_published_table(tmp_path, curate):
    rows = [
        ("reference", model, "model_b" if n < wins else "model_a")
        for model, (wins, ratings, _) in TABLE_3.items()
        for n in range(ratings)
    ]
    file = tmp_path / "votes.csv"
    file.write_text("\n".join(["model_a,model_b,winner", *map(",".join, rows)]))
    code, out, err = curate("rate", file, "--table", "win_rates", "--reference", "reference", "--json")
    assert code == 0, err
    found = {row["model"]: row for row in map(json.loads, out.splitlines())}
    columns = ("wins_vs_reference", "battles_vs_reference", "win_rate_vs_reference")
    for model, (wins, ratings, percent) in TABLE_3.items():
        assert [found[model][name] for name in columns] == [wins, ratings, pytest.approx(percent / 100, abs=5e-5)]


def _asked(store, name):
    return [each for each in queues_of(OF_EVERY_STORE, Draws(store=store.root, sample=5)) if each.name == name]


def _marked(store, name, marks):
    """Three reviewers mark the same item; returns its page as the first one saw it."""
    (path, seen) = "", ""
    for reviewer, marked in marks.items():
        pages = reviewing(store, reviewer, _asked(store, name))
        path = path or pages.page(name)[0]
        html = pages.client.get(path).text
        strict(html)
        fields = dict(re.findall(r'name="(token|shown)" value="([^"]*)"', html))
        assert pages.client.post(path, data=fields | {"verdict": marked}, follow_redirects=False).status_code == 303
        seen = seen or html
    pages.session.take_in()
    return seen


def test_what_reviewers_mark_of_a_written_item_is_counted_as_on_a_sheet(asking):
    written = asking("items")
    html = _marked(written, "written", {"Ada": ["caption", "harmful"], "Bob": ["caption"], "Cat": []})
    assert "<h3>Reference</h3>" in html and "<h3>Caption" in html and html.count('type="checkbox"') == 4
    found = item_checks(written).sort("rater")
    assert found["rater"].to_list() == ["Ada", "Bob", "Cat"] and found["correct"].to_list() == [False, False, True]
    assert found["fault"].to_list() == ["caption", "caption", None]
    assert found["harmful"].to_list() == [True, False, False]
    every = finding_tables(written, "b")["yield"].filter(part="all").row(0, named=True)
    assert (every["items"], every["correct"], every["caption"], every["harmful"]) == (1, 0, 1, 0)


def test_what_most_reviewers_find_unfit_leaves_a_generated_bench(asking):
    store = asking("generated")
    items = kept_items(store, NAME).items
    both = ["description_fits", "question_fits"]
    html = _marked(store, QueueName.GENERATED.value, {"Ada": [], "Bob": both[:1], "Cat": both})
    assert "<h3>Guideline</h3>" in html and "<h3>Key</h3>" in html
    found = generated_reviews(store).sort("rater")
    assert found["guided"].all() and found["description_fits"].to_list() == [False, True, True]
    assert found["question_fits"].to_list() == [False, False, True]
    assert kept_items(store, NAME).dropped == {"people": 1} and len(kept_items(store, NAME).items) == len(items) - 1
