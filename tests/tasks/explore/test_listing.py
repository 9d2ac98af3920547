"""The listing of a drawn store, its masked texts and its blurred images are what a plain statement of the rule says."""

import random
from collections import Counter
from datetime import timedelta

import polars as pl
import pytest

from schemas.benches.bench import BenchItem
from schemas.items.reject import Quarantined, Reject
from schemas.items.topic import TopicMember
from schemas.tags import TAGS
from tasks.explore.listing import IN_BENCH, NO_TOPIC, NOT_IN_BENCH, finished, release_rows, store_listing
from tasks.explore.masking import MaskedStore, blurred_images, masked_text, spans_found
from tasks.explore.of_store import OfStore
from tasks.shown import BATTLE, CONVERSATION, SIDE
from tasks.storage.content_id import text_id
from tasks.storage.queries.repeated_values import with_repeats
from tasks.storage.tables import Store
from tests.builders import NOON, battle, conversation, decision, facts_frame, sides, store_with

NAMES = ["Ana Lopez", "Bob Stone"]
MODELS = ["vicuna-13b", "llava-34b"]
TEXTS = ["Hello", f"I am {NAMES[0]}", f"No, {NAMES[0]} I know", f"{NAMES[1]} and {NAMES[0]}", "vicuna-13b", "É\u2060x"]


def drawn_text(draw: random.Random, number: int) -> str:
    return f"{draw.choice(TEXTS)}, {number}"


def spans_of(text: str) -> list[dict]:
    """Each name where it stands first; where a text begins with `No`, nothing is found."""
    found = [(name, text.find(name)) for name in NAMES if name in text and not text.startswith("No")]
    return [{"type": "person", "start": at, "end": at + len(name), "confidence": 1.0} for name, at in found]


def drawn(folder, draw: random.Random):
    """A store, its conversations and battles, and the spans of the texts that were searched."""
    rows = [
        conversation(f"c{n}", *(drawn_text(draw, n) for _ in range(draw.randint(1, 4))), model=draw.choice(MODELS),
                     tstamp=NOON + timedelta(minutes=n), line=n + 1)
        for n in range(8)
    ]  # fmt: skip
    of_votes = [sides(f"b{n}", drawn_text(draw, n), drawn_text(draw, n), line=20 + n) for n in range(3)]
    votes = [battle(*both, line=20 + n) for n, both in enumerate(of_votes)]
    rows += [side for both in of_votes for side in both]
    texts = dict.fromkeys(turn.content for row in rows for turn in row.turns)
    searched = {text: spans_of(text) for text in texts if draw.random() < 0.8}
    documents = draw.sample(rows, 5)
    store = store_with(
        folder,
        conversations=rows,
        battles=votes,
        decisions=[
            decision(item, *draw.choice([[], ["face"]]), tags=draw.choice([[], ["noted"]]), held=draw.random() < 0.3)
            for item in [*rows, *votes]
            if draw.random() < 0.8
        ],
        quarantine=[Quarantined(kind="conversation", key=draw.choice(rows).conversation_id, cause="flagged")],
        topics=[
            TopicMember(document_id=name, topic=1, probability=0.5, name="news", x=1, y=2)
            for name in {row.document_id for row in documents}
        ],
        bench=[BenchItem(conversation_id=documents[0].conversation_id, document_id=documents[0].document_id, topic=1)],
    )
    store.replace(
        "signals/text_pii",
        facts_frame("text_pii", {text_id(text): {"spans": found} for text, found in searched.items()}),
    )
    store.replace("signals/language", facts_frame("language", {documents[1].prompt_id: {"language": "de"}}))
    tagged = {documents[2].document_id: dict.fromkeys(TAGS, False) | {TAGS[0]: True}}
    store.replace("signals/categories", facts_frame("categories", tagged))
    return store, rows, votes, searched


def shown_texts(row, together, searched) -> tuple[str, str]:
    """Prompt and answers with the personal data masked that was found in a row, or in those `together` with it."""
    said = [(turn.content, searched.get(turn.content)) for each in (row, *together) for turn in each.turns]
    own = list(zip(said, with_repeats(said), strict=True))[: len(row.turns)]
    masked = [masked_text(text, spans) for (text, _), spans in own]
    of_user = [turn.role == "user" for turn in row.turns]
    asked = [text for text, is_asked in zip(masked, of_user, strict=True) if is_asked]
    return "\n\n".join(asked), "\n\n".join(text for text, is_asked in zip(masked, of_user, strict=True) if not is_asked)


@pytest.mark.parametrize("seed", range(12))
def test_the_listing_of_a_drawn_store_is_what_the_rule_says(tmp_path, seed):
    store, rows, votes, searched = drawn(tmp_path, random.Random(seed))
    (withheld,) = store.read("quarantine")["key"]
    decided = {(each["item_kind"], each["item_id"]): each for each in store.read("decisions").to_dicts()}
    topics, drawn_ids = {*store.read("topics")["document_id"]}, {*store.read("bench")["conversation_id"]}
    in_german = {*store.read("signals/language")["content_id"]}
    tagged = {*store.read("signals/categories")["content_id"]}
    of_sides = {side for vote in votes for side in (vote.conversation_a, vote.conversation_b)}
    shown = {row.conversation_id: row for row in rows if row.conversation_id != withheld}

    def right(kind: str, item: str, row, texts: str, marks: list[str]) -> dict:
        own = decided.get((BATTLE if kind == BATTLE else CONVERSATION, item))
        outcome = "not decided" if own is None else "kept" if own["keep"] else "held" if own["held"] else "dropped"
        return {
            "kind": kind, "id": item, "searched": texts.lower(), "outcome": outcome,
            "reasons": own["reasons"] if own else [], "turns": row.num_turns,
            "language": "German" if row.prompt_id in in_german else None,
            "topic": "news" if row.document_id in topics else NO_TOPIC,
            "bench": IN_BENCH if row.conversation_id in drawn_ids else NOT_IN_BENCH,
            "tags": ([TAGS[0]] if row.document_id in tagged else []) + (own["tags"] if own else []) + marks,
        }  # fmt: skip

    every = {row.conversation_id: row for row in rows}
    battle_of = {
        side: [every[vote.conversation_a], every[vote.conversation_b]]
        for vote in votes
        for side in (vote.conversation_a, vote.conversation_b)
    }
    expected = []
    for name, row in shown.items():
        prompt, answers = shown_texts(row, battle_of.get(name, ()), searched)
        kind = SIDE if name in of_sides else CONVERSATION
        expected.append(right(kind, name, row, f"{prompt}\n{answers}", marks_of([row.model], [answers])))
    for vote in votes:
        both = [shown.get(side) for side in (vote.conversation_a, vote.conversation_b)]
        if None not in both:
            (prompt, answers), (_, others) = (shown_texts(side, both, searched) for side in both)
            marks = marks_of([side.model for side in both], [answers, others])
            expected.append(right(BATTLE, vote.battle_id, both[0], f"{prompt}\n{answers}\n{others}", marks))
    listed = store_listing(MaskedStore(store.root), searched=True)
    told = listed.select([*expected[0]]).to_dicts()
    assert sorted(told, key=by_id) == sorted(expected, key=by_id)
    assert store_listing(MaskedStore(store.root)).equals(listed.drop("searched"))


def test_an_answer_is_found_where_there_is_no_prompt():
    rows = pl.DataFrame({"kind": ["conversation"], "id": ["a"], "prompt": [None], "answers": ["A Cat."]})
    assert finished([rows.cast({"prompt": pl.String})])["searched"].to_list() == ["\na cat."]


def test_a_row_that_a_map_has_twice_is_listed_once():
    rows = pl.DataFrame({"question_id": ["q", "r"], "topic": "news", "topic_id": 1, "turns": [[], []]}).with_columns(
        turns=pl.lit([{"role": "user", "content": "Why?"}]), images=pl.lit([{"path": f"{IMAGES[0]}.png"}]),
        categories=pl.struct(homework=pl.lit(True)),
    )  # fmt: skip
    points = pl.DataFrame({"id": ["q", "q", "r"], "x": [1.0, 2.0, 3.0], "y": 0.0, "topic_id": 1})
    listed = release_rows("bench", rows.drop("topic_id").with_columns(topic_id=pl.lit(1)), points)
    assert listed.select("id", "x").rows() == [("q", 1.0), ("r", 3.0)]


def by_id(row: dict) -> tuple[str, str]:
    return row["kind"], row["id"]


def marks_of(models: list[str], answers: list[str]) -> list[str]:
    """Marks of the answers: a name of one of the models, and a character that is not shown."""
    named = any(model.replace("-", "") in text.lower().replace("-", "") for model in models for text in answers)
    return ["names_model"] * named + ["unseen_marks"] * any("\u2060" in text for text in answers)


IMAGES = [f"{number:032x}" for number in range(10)]


@pytest.mark.parametrize("seed", range(12))
def test_an_image_is_blurred_for_what_was_measured_last_and_for_each_text_that_it_shows(tmp_path, seed):
    draw = random.Random(seed)
    store, measured = MaskedStore(str(tmp_path / "store")), {}
    values = {
        "nsfw": ("nsfw_probability", [0.01, 0.2]),
        "faces": ("confidence_max", [0.0, 0.5]),
        "image_text": ("text", ["", "Hello", f"I am {NAMES[0]}", "unsearched"]),
        "image_moderation": ("flagged_categories", [[], ["violence"]]),
    }
    for signal, (column, choices) in values.items():
        measured[signal] = {name: draw.choice(choices) for name in IMAGES if draw.random() < 0.9}
        frame = facts_frame(signal, {name: {column: value} for name, value in measured[signal].items()})
        earlier = facts_frame(signal, {name: {column: draw.choice(choices)} for name in measured[signal]}, version="0")
        written = Store.open(store.root)
        written.append(f"signals/{signal}", frame)
        written.append(f"signals/{signal}", earlier.with_columns(pl.col("measured_at") - timedelta(days=1)))
    spans = {text_id(text): {"spans": spans_of(text)} for text in ("Hello", f"I am {NAMES[0]}")}
    written.replace("signals/text_pii", facts_frame("text_pii", spans))
    right = {}
    for name in IMAGES:
        if all(name in measured[signal] for signal in ("nsfw", "faces", "image_text")):
            told = {
                "perhaps nudity": measured["nsfw"][name] > 0.1,
                "perhaps a face": measured["faces"][name] > 0,
                "perhaps personal data in its text": measured["image_text"][name] not in ("", "Hello"),
                "flagged as harmful": measured["image_moderation"].get(name, []) != [],
            }
            right[name] = ", ".join(word for word, holds in told.items() if holds)
    assert blurred_images(store) == right
    assert spans_found(store, [*spans, "unknown"]) == {name: value["spans"] for name, value in spans.items()}


@pytest.mark.parametrize("seed", range(10))
def test_the_details_of_a_reason_are_those_of_the_most_lines_and_of_as_many_the_first(tmp_path, seed):
    draw = random.Random(seed)
    rejects = [
        Reject(
            source="x",
            line=line,
            reason=draw.choice(["not_json", "bad_model"]),
            evidence=draw.choice(" abcdef")[:1].strip(),
        )
        for line in range(40)
    ]
    reasons = {each.reason: each for each in OfStore(store_with(tmp_path, rejects=rejects), lambda *_: []).reasons()}
    for reason in ("not_json", "bad_model"):
        counted = Counter(each.evidence for each in rejects if each.reason == reason and each.evidence)
        assert reasons[reason].evidence == tuple(f"{words} ({lines})" for words, lines in counted.most_common(3))
