"""A release under `redact`, measured by the embedded providers: nothing that was taken out is anywhere in it."""

import io
from datetime import timedelta
from pathlib import Path

import PIL.Image
import PIL.ImageDraw
import polars as pl
import pyarrow.parquet as pq
import pytest

from flows.products import item_findings, item_ids, problems_of, report_sections
from schemas.release import CONFIGS
from schemas.settings import BenchSettings, Settings
from schemas.tables import TABLES
from tasks.bench.steps import draw_bench
from tasks.drawing.photographs import photographs, view
from tasks.images.decode import DecodedImage, open_image
from tasks.leaderboard.steps import rate_models
from tasks.policy.redact import ROUNDS
from tasks.policy.steps import decide_items, find_near_images, redact_items
from tasks.providers import Providers
from tasks.release.gather import Gathered
from tasks.release.steps import build_release, seal_release
from tasks.report.steps import report_release
from tasks.signals.steps import catch_up_images, measure_documents, measure_redacted, measure_texts, signal_versions
from tasks.topics.steps import find_topics
from tests.builders import NOON, battle, conversation, drawn_image, image, sides, store_with
from tests.small_store import USER

SECRETS = ("zoe.quist@example.org", "4111 1111 1111 1111", "+49 30 901820", "kurt.baum@example.net", "Oskar Lindqvist")


def encoded(drawn: PIL.Image.Image, file_format: str = "PNG") -> DecodedImage:
    sink = io.BytesIO()
    drawn.save(sink, file_format)
    return open_image(sink.getvalue())


def card() -> DecodedImage:
    drawn = PIL.Image.new("RGB", (480, 240), "white")
    for row, line in enumerate(("MEMBER CARD", "zoe.quist@example.org", "Valid in all shops")):
        PIL.ImageDraw.Draw(drawn).text((20, 20 + 70 * row), line, fill="black", font_size=32)
    return encoded(drawn)


CARD, FACE = card(), encoded(view(photographs("faces")[0]).image, "JPEG")
GREY = drawn_image(5, (64, 64))


def _conversations():
    told = f"Write to {SECRETS[3]}, says {SECRETS[4]}."
    chats = [
        conversation("card", "What does the card say?", "It is a card of ZOE.", image_ids=[CARD.image_id]),
        conversation("face", "Describe the person, please.", "Someone in a suit.", image_ids=[FACE.image_id]),
        conversation("told", f"My card is {SECRETS[1]}, call {SECRETS[2]}.", told),
        conversation(
            "clean",
            "Which colours do you see here?",
            "Mostly a dark grey.",
            image_ids=[drawn_image(5, (64, 64)).image_id],
        ),
    ]
    voted = sides("vote", f"Draft a letter to {SECRETS[0]} about the picture", "Dear all", image_ids=[CARD.image_id])
    later = [
        each.model_copy(update={"tstamp": NOON + timedelta(hours=n), "user_id": USER}) for n, each in enumerate(chats)
    ]
    return later, tuple(side.model_copy(update={"user_id": USER}) for side in voted)


def _decide(settings: Settings, providers: Providers) -> int:
    """`flows/decide.py` without the server; returns the model calls of proving."""
    versions, calls = signal_versions(providers), 0
    find_near_images.fn(settings, versions)
    for _ in range(ROUNDS):
        redact_items.fn(settings, versions, item_findings)
        calls += sum(measure_redacted.fn(settings, providers).model_calls.values())
    decide_items.fn(settings, versions, item_findings)
    return calls


@pytest.fixture(scope="module")
def redacted(tmp_path_factory):
    chats, voted = _conversations()
    images = [image(CARD), image(FACE), image(GREY)]
    conversations = [*chats, *voted]
    store = store_with(
        tmp_path_factory.mktemp("redacted"), conversations=conversations, battles=[battle(*voted)], images=images
    )
    providers = Providers()
    settings = Settings(store=store.root, policy="redact", workers=1, bench=BenchSettings(size=1, hidden_size=0))
    versions = signal_versions(providers)
    catch_up_images.fn(settings, providers)
    measure_texts.fn(settings, providers, "screen_texts", kept_only=False)
    first = _decide(settings, providers)
    measure_texts.fn(settings, providers, "describe_texts", kept_only=True)
    measure_documents.fn(settings, providers)
    find_topics.fn(settings, providers, versions)
    draw_bench.fn(settings, versions)
    built = build_release.fn(settings, versions, item_ids(store), ())
    rate_models.fn(settings, versions, built.staging)
    report_release.fn(settings, providers, built.staging, built.tallies, report_sections, ())
    result = seal_release.fn(settings, providers, versions, built, ()).result
    return store, Path(store.root) / result, settings, providers, first


def test_everything_is_kept_and_every_redaction_is_on_record(redacted):
    decisions = redacted[0].read("decisions").filter(item_kind="conversation")
    assert decisions.filter(~pl.col("keep")).select("item_id", "reasons").rows() == []
    done = {row["item_id"]: {r["type"] for r in row["redactions"]} for row in decisions.to_dicts()}
    assert done["clean"] == set()
    assert done["face"] == {"face"}
    assert "email" in done["card"] and "email" in done["vote"] and {"card", "phone", "email"} <= done["told"]


def test_what_is_redacted_is_redacted_in_blocks_too(redacted):
    store, _, settings, providers, _ = redacted
    versions = signal_versions(providers)
    whole, single = (Gathered(store, versions, settings.bench, item_ids(store), (), size) for size in (1_000, 1))
    for config in CONFIGS:
        assert pl.concat(single.rows(config)).equals(pl.concat(whole.rows(config)))


def test_nothing_of_the_originals_is_in_any_file_of_the_release(redacted):
    _, release, *_ = redacted
    taken_out = [*SECRETS, CARD.image_id, FACE.image_id]
    for path in release.rglob("*.*"):
        content = path.read_bytes() if path.suffix != ".parquet" else str(pq.read_table(path).to_pylist()).encode()
        assert [secret for secret in taken_out if secret.encode() in content] == [], path.name
    stored = [CARD.encoded, FACE.encoded]
    for config in ("chat", "battle", "bench"):
        for images in pl.read_parquet(release / config / "data" / "*.parquet")["images"]:
            assert not [shown for shown in images if shown["bytes"] in stored]


def test_the_finders_find_nothing_in_the_released_images_and_texts(redacted):
    _, release, _, providers, _ = redacted
    for config, column in (("chat", "conversation"), ("battle", "conversation_a"), ("bench", "turns")):
        rows = pl.read_parquet(release / config / "data" / "*.parquet")
        assert rows.height > 0
        texts = [turn["content"] for turns in rows[column] for turn in turns]
        images = [open_image(shown["bytes"]) for images in rows["images"] for shown in images]
        texts += [read.text for read in providers["image_text"].read(images)]
        assert [spans for spans in providers["text_pii"].find_pii(texts) if spans] == []
        strongest = [max((f.confidence for f in found), default=0) for found in providers["faces"].find_faces(images)]
        assert [confidence for confidence in strongest if confidence >= 0.5] == []


def test_topics_and_features_are_those_of_what_is_released(redacted):
    store = redacted[0]
    documents = set(store.read("redacted_conversations")["document_id"])
    originals = set(store.read("conversations")["document_id"])
    assert documents & set(store.read("topics")["document_id"])
    assert set(store.read("signals/categories")["content_id"]) & (originals - documents) <= {
        row["document_id"] for row in store.read("conversations").filter(conversation_id="clean").to_dicts()
    }


def test_card_and_report_say_that_there_are_redactions(redacted):
    assert "placeholders such as `<EMAIL_1>`" in (redacted[1] / "README.md").read_text()
    page = (redacted[1] / "report" / "index.html").read_text()
    assert "What was redacted" in page and (redacted[1] / "report" / "tables" / "redactions.csv").is_file()


def test_the_release_passes_its_own_check(redacted):
    assert problems_of(redacted[1]) == []


def test_deciding_again_asks_no_model_and_changes_nothing(redacted):
    store, _, settings, providers, first = redacted
    assert first > 0
    before = {table: store.parts(table) for table in TABLES}
    assert _decide(settings, providers) == 0
    assert {table: store.parts(table) for table in TABLES} == before
