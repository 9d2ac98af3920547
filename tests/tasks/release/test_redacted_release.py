"""A release under `redact`: nothing that was taken out is in it; what its rows tell together is counted."""

import io
import shutil
from collections import Counter
from datetime import timedelta
from pathlib import Path

import PIL.Image
import PIL.ImageDraw
import polars as pl
import pyarrow.parquet as pq
import pytest

from flows.products import item_findings, item_ids, problems_of, report_sections
from schemas.policy import Linkage, policy_hash
from schemas.release import CONFIGS, ROW_KEYS
from schemas.settings import BenchSettings, Settings
from schemas.tables import TABLES
from tasks.bench.steps import draw_bench
from tasks.drawing.canvas import photographs, view
from tasks.images.decode import DecodedImage, open_image
from tasks.leaderboard.steps import rate_models
from tasks.policy.redact import REDACTION_ROUNDS
from tasks.policy.steps import decide_items, find_near_images, redact_items
from tasks.providers import Providers
from tasks.release.dataset_card import JOINABLE, ROW_FIGURES
from tasks.release.gather import Gathered
from tasks.release.shards import RELEASE_LAYOUT
from tasks.release.steps import build_release, seal_release
from tasks.report.steps import report_release
from tasks.signals.steps import catch_up_images, measure_documents, measure_redacted, measure_texts, signal_versions
from tasks.storage.tables import Store
from tasks.topics.steps import find_topics
from tests.builders import NOON, battle, conversation, drawn_image, gathered_rows, image, sides, store_with
from tests.small_store import POLICY, USER, make_release, small_store
from tests.tampered_release import BATTLE, CHAT, card_says, change_row, rewrite, section_problems

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
    """`flows/stages.py` without the server; returns the model calls of proving."""
    versions, calls = signal_versions(providers), 0
    find_near_images.fn(settings, versions)
    for _ in range(REDACTION_ROUNDS):
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


def test_everything_is_kept_every_redaction_is_on_record_and_in_blocks_too(redacted):
    decisions = redacted[0].read("decisions").filter(item_kind="conversation")
    assert decisions.filter(~pl.col("keep")).select("item_id", "reasons").rows() == []
    done = {row["item_id"]: {r["type"] for r in row["redactions"]} for row in decisions.to_dicts()}
    assert done["clean"] == set()
    assert done["face"] == {"face"}
    assert "email" in done["card"] and "email" in done["vote"] and {"card", "phone", "email"} <= done["told"]
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


def test_the_finders_find_nothing_in_what_is_released_and_topics_are_of_that(redacted):
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
    store = redacted[0]
    documents = set(store.read("redacted_conversations")["document_id"])
    originals = set(store.read("conversations")["document_id"])
    assert documents & set(store.read("topics")["document_id"])
    assert set(store.read("signals/categories")["content_id"]) & (originals - documents) <= {
        row["document_id"] for row in store.read("conversations").filter(conversation_id="clean").to_dicts()
    }


def test_the_release_passes_its_check_and_deciding_again_asks_no_model(redacted):
    assert "placeholders such as `<EMAIL_1>`" in (redacted[1] / "README.md").read_text()
    page = (redacted[1] / "report" / "index.html").read_text()
    assert "What was redacted" in page and (redacted[1] / "report" / "tables" / "redactions.csv").is_file()
    assert problems_of(redacted[1]) == []
    store, _, settings, providers, first = redacted
    assert first > 0
    before = {table: store.parts(table) for table in TABLES}
    assert _decide(settings, providers) == 0
    assert {table: store.parts(table) for table in TABLES} == before


DAY_SECONDS = 86_400


def _under(store: Store, linkage: Linkage) -> Store:
    """The store, decided by a policy with this linkage."""
    policy = POLICY.model_copy(update={"linkage": linkage})
    store.replace("decisions", store.read("decisions").with_columns(policy_hash=pl.lit(policy_hash(policy))))
    store.write_bytes(f"policies/{policy_hash(policy)}.json", policy.model_dump_json().encode())
    return store


@pytest.fixture(scope="module")
def coarse(tmp_path_factory) -> Path:
    """A release whose policy leaves days, and nobody's hash. Do not write to it."""
    store = _under(small_store(tmp_path_factory.mktemp("coarse")), Linkage(times="day", users=False))
    return Path(store.root) / make_release(store, release="coarse").result


@pytest.fixture
def own_coarse(coarse, tmp_path) -> Path:
    return Path(shutil.copytree(coarse, tmp_path / "coarse"))


def _figures(release: Path) -> dict[str, list[str]]:
    section = (release / "README.md").read_text(encoding="utf-8").partition("## What a stranger could join")[2]
    rows = [line.strip("| ").split(" | ") for line in section.partition("\n## ")[0].splitlines() if "| " in line]
    return {name: cells for name, *cells in rows}


def test_the_card_counts_what_a_stranger_could_join(release):
    chat = pl.read_parquet(release / CHAT)
    pairs = Counter(zip(chat["language"], chat["model"], strict=True))
    prompts = Counter("\n\n".join(t["content"] for t in row if t["role"] == "user") for row in chat["conversation"])
    rows_of_people = Counter(chat["user_id"].drop_nulls())
    few = {2, 3, 4, 5}
    expected = {
        "people": len(rows_of_people),
        "people with one row": sum(count == 1 for count in rows_of_people.values()),
        "people with two to 5 rows": sum(count in few for count in rows_of_people.values()),
        "rows with a time that no other row has": sum(count == 1 for count in Counter(chat["tstamp"]).values()),
        "rows of a language and a model with at most 5 rows": sum(n for n in pairs.values() if n <= 5),
        "rows with a prompt that no other row has": sum(count == 1 for count in prompts.values()),
    }
    told = _figures(release)
    assert {name: told[name][0] for name in expected} == {name: f"{count:,}" for name, count in expected.items()}


@pytest.mark.parametrize("what", ["people", "rows with a prompt that no other row has"])
def test_a_figure_that_is_not_that_of_the_rows_is_found(own_release, what):
    cells = _figures(own_release)[what]
    card_says(own_release, f"| {what} | {cells[0]} |", f"| {what} | {int(cells[0]) + 1} |")
    (problem,) = problems_of(own_release)
    assert "its section about what a stranger could join is not what a count of the rows says" in problem


def test_a_policy_makes_times_coarse_and_takes_people_out_and_the_release_is_whole(coarse):
    for shard, person, key in ((CHAT, "user_id", "conversation_id"), (BATTLE, "judge", "question_id")):
        rows = pl.read_parquet(coarse / shard)
        assert rows[person].null_count() == rows.height
        assert (rows["tstamp"] % DAY_SECONDS == 0).all()
        assert rows[key].to_list() == rows.sort("tstamp", key)[key].to_list(), "the order tells no time of day"
    assert problems_of(coarse) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"tstamp": 1_726_600_000.5}, "chat: a time is finer than to the day"),
        ({"user_id": USER}, "chat: user_id is there, and the policy says that it is not"),
    ],
)
def test_a_row_that_tells_more_than_its_policy_says_is_found(own_coarse, change, told):
    change_row(own_coarse, CHAT, **change)
    assert any(told in problem for problem in problems_of(own_coarse))


@pytest.mark.parametrize("times", ["hour", "day", "month"])
def test_coarse_times_are_told_by_no_order_of_blocks(tmp_path, times):
    store = small_store(tmp_path)
    shuffled = pl.col("tstamp").shuffle(seed=5)  # so that ids say nothing of times
    undated = pl.when(pl.int_range(pl.len()) % 5 == 0).then(pl.col("tstamp").dt.offset_by("-40y"))
    for table in ("conversations", "battles"):
        rows = store.read(table).with_columns(shuffled)
        store.replace(table, rows.with_columns(undated.otherwise("tstamp").alias("tstamp")))
    _under(store, Linkage(times=times))
    whole = gathered_rows(store).rows
    for block_rows in (1, 3):
        in_blocks = gathered_rows(store, block_rows=block_rows).rows
        for config, key in ROW_KEYS.items():
            assert in_blocks[config].equals(whole[config]), config
            if "tstamp" in whole[config].columns:
                assert whole[config][key].to_list() == whole[config].sort("tstamp", key)[key].to_list()


def test_rows_in_another_order_than_by_coarse_time_are_found(own_coarse):
    def swapped(rows):
        first = next(n for n, row in enumerate(rows[:-1]) if row["tstamp"] == rows[n + 1]["tstamp"])
        return [*rows[:first], rows[first + 1], rows[first], *rows[first + 2 :]]

    rewrite(own_coarse, CHAT, swapped)
    told = "chat: its rows are in another order than by day and id, which may tell finer times"
    assert told in problems_of(own_coarse)


def test_the_card_of_an_earlier_layout_may_lack_what_was_not_counted_then(release, tmp_path):
    own = Path(shutil.copytree(release, tmp_path / "release"))
    card = (own / "README.md").read_text(encoding="utf-8")
    (own / "README.md").write_text(card.replace(JOINABLE, "What could be joined"), encoding="utf-8")
    told = {layout: [*section_problems(own, 1, ROW_FIGURES, layout)] for layout in (5, RELEASE_LAYOUT)}
    about_it = [line for line in told[RELEASE_LAYOUT] if "what a stranger could join" in line]
    assert len(about_it) == 1 and about_it[0] not in told[5]
