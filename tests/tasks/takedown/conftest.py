"""Two strangers' conversations, a vote and three images in a store that went through ingest, with a release of it."""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from schemas.benches.agreement import JudgeVote
from schemas.benches.bench import BenchItem, CaseReference, Failure, FailureRate
from schemas.benches.certificate import Suspect
from schemas.benches.generated import Alignment, GeneratedImage, GeneratedItem, GeneratedQuestion
from schemas.benches.generated_results import AuditAnswer
from schemas.benches.judge_release import JudgeCard, ScreenedText
from schemas.benches.judging import Answer, AnswerState
from schemas.benches.written import Split, WrittenItem
from schemas.items.conversation import Conversation, RedactedConversation
from schemas.items.decision import NearPrompt
from schemas.items.image import NearImage, RedactedImage, SearchedImage, SemanticImage
from schemas.items.reject import Removed
from schemas.items.review import Review
from schemas.items.topic import FittedDocument, KeptTopicName, TopicMember
from schemas.policy import policy_hash
from schemas.rating import OutlierJudge
from schemas.row import Row
from schemas.tables import TABLES
from tasks.images.decode import open_image
from tasks.storage.content_id import text_id
from tasks.storage.keyed_ids import KEY_VARIABLE
from tasks.storage.queries.released import mark_decided
from tasks.storage.tables import Store, frame_of
from tasks.takedown.take_down import take_down
from tests.builders import (
    NOON,
    battle,
    counted_tokens,
    decision,
    facts_frame,
    image,
    image_bytes,
    measure_clean,
    verdict,
)
from tests.small_store import POLICY, make_release
from tests.tasks.ingest.logs import DAY, chat, conv_id, image_name, ingested, served, state, vote, write
from tests.written import caption, reference

ANN, BOB = "198.51.100.23", "203.0.113.99"
OWN, SHARED, OTHER = image_name("own"), image_name("shared"), image_name("other")
REDACTED = "5" * 32
CARD_IDS = {"answer_a": "1" * 32, "answer_b": "2" * 32, "verdict_id": "3" * 32}
SECRET = "annes secret question"
LINES = [
    chat("ann", f"{SECRET} one?", "secret answer one", ip=ANN, images=[OWN, SHARED]),
    chat("bob", "bobs question?", "bobs answer", ip=BOB, images=[SHARED]),
    chat("left", f"{SECRET} two?", "secret left answer", ip=ANN, model="x"),
    chat("right", f"{SECRET} two?", "secret right answer", ip=ANN, model="y"),
    vote(state("left", f"{SECRET} two?", "secret left answer", model_name="x"),
         state("right", f"{SECRET} two?", "secret right answer", model_name="y"),
         at=20, ip=ANN, reason=f"{SECRET} why"),
    chat("bob2", "another question of bobs?", "and its answer", ip=BOB, images=[OTHER]),
    b"{broken",
]  # fmt: skip


@pytest.fixture(autouse=True)
def key(monkeypatch):
    """One key for every store."""
    monkeypatch.setenv(KEY_VARIABLE, "the key of every store here")


@pytest.fixture(scope="session")
def arena(tmp_path_factory) -> Path:
    """The raw logs."""
    folder = tmp_path_factory.mktemp("arena") / "logs"
    write(folder, DAY, *LINES)
    return served(folder, OWN, SHARED, OTHER)


@pytest.fixture(scope="session")
def curated_once(arena, tmp_path_factory) -> Path:
    """A store of the logs with something in every table, and a release. Do not write to it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY_VARIABLE, "the key of every store here")
        store = ingested(arena, tmp_path_factory.mktemp("once") / "store")
        fill(store)
        make_release(store, reported=True, release="1.0.0")
        store.write_bytes("runs/20240620T120000Z.json", json.dumps({"funnel": {}, "stages": []}).encode())
    return Path(store.root)


@pytest.fixture
def store(curated_once, tmp_path) -> Store:
    """A copy of it."""
    return Store(str(shutil.copytree(curated_once, tmp_path / "store")))


def fill(store: Store) -> None:
    """Facts, decisions, topics, bench and the rest, as the later stages would write them."""
    rows = [Conversation.model_validate(row) for row in store.read("conversations").to_dicts()]
    by_id = {row.conversation_id: row for row in rows}
    images = [i for row in rows for i in row.image_ids]
    measure_clean(
        store, rows, tokens=counted_tokens(rows), image_text={i: {"text": f"writing in {i[:8]}"} for i in images}
    )
    left, right, bob = by_id[conv_id("left")], by_id[conv_id("right")], by_id[conv_id("bob")]
    decisions = [decision(row) for row in rows] + [decision(battle(left, right))]
    decisions[-2] = decisions[-2].model_copy(update={"duplicate_of": conv_id("ann"), "keep": False, "reasons": ["d"]})
    tables = {
        "decisions": [each.model_copy(update={"policy_hash": policy_hash(POLICY)}) for each in decisions],
        "topics": [TopicMember(document_id=d, topic=0, probability=1, name="t", x=0, y=0) for d in _documents(rows)],
        "topic_model": [
            FittedDocument(model="m", document_id=d, topic=0, probability=1, x=0, y=0, reach=0.5, vector="0" * 16)
            for d in _documents(rows)
        ],
        "topic_names": [
            KeptTopicName(evidence="e", version="1", name=f"{SECRET} topic", document_ids=_documents(rows))
        ],
        "bench": [BenchItem(conversation_id=bob.conversation_id, document_id=bob.document_id, topic=0)],
        "failures": [
            Failure(
                document_id=row.document_id,
                conversation_id=row.conversation_id,
                judges=2,
                both_bad=2,
                models=["x"],
                failure_type=None,
                reviewed=False,
                drawn=True,
            )
            for row in rows
        ],
        "failure_rates": [FailureRate(model="x", failure_type="all", battles=2, both_bad=2, error_rate=1)],
        "near_images": [
            NearImage(**dict.fromkeys(NearImage.model_fields, 1) | {"image_a": a, "image_b": b})
            for a, b in zip(sorted(set(images)), sorted(set(images))[1:], strict=False)
        ],
        "semantic_images": [
            SemanticImage(image_a=a, image_b=b, cosine=1)
            for a, b in zip(sorted(set(images)), sorted(set(images))[1:], strict=False)
        ],
        "searched_vectors": [SearchedImage(image_id=i, search="s") for i in sorted(set(images))],
        "near_prompts": [NearPrompt(conversation_a=conv_id("bob"), conversation_b=conv_id("ann"), jaccard=0.9)],
        "redacted_conversations": [
            RedactedConversation(**dict(row) | {"image_ids": [REDACTED]}, redactions=[], left_names=[], policy_hash="0")
            for row in rows
            if row.conversation_id in (conv_id("ann"), conv_id("bob"))
        ],
        "redacted_images": [
            RedactedImage(
                **dict(image(open_image(image_bytes(1)))) | {"image_id": REDACTED},
                boxes=[],
                source_image_id=open_image(image_bytes(1)).image_id,
            )
        ],
        "reviews": [
            Review(conversation_id=conv_id(name), content_id="7" * 32, reasons=["x"], verdict="release")
            for name in ("ann", "bob")
        ],
        "answers": [
            Answer(question_id=conv_id(name), model="m", state=AnswerState.COMPLETE, text=text, version="1", tokens=2)
            for name, text in (("ann", f"{SECRET} one"), ("bob", "an answer"))
        ],
        "verdicts": [verdict(question_id=conv_id("ann"), text=f"{SECRET} one"), verdict(question_id=conv_id("bob"))],
        "judge_votes": [
            JudgeVote(
                battle_id=left.conversation_id,
                conversation_a=left.conversation_id,
                conversation_b=right.conversation_id,
                shown="0" * 32,
                label="tie",
                judge="judge",
                judge_version="1",
                tokens=None,
                text=f"{SECRET} two",
            )
        ],
        "judge_cards": [
            JudgeCard(question_id=conv_id(name), label=None, **dict.fromkeys(("model_a", "model_b"), "m"), **CARD_IDS)
            for name in ("ann", "bob")
        ],
        "screened_texts": [
            ScreenedText(item_id="i", question_id=conv_id(name), reasons=[], text=text, policy_hash="0")
            for name, text in (("ann", f"{SECRET} one"), ("bob", "an answer"))
        ],
        "bench_items": [
            WrittenItem(
                item_id=conv_id(name),
                bench="b",
                family="f",
                images=1,
                licences=[""],
                authors=[author],
                origin="",
                split=Split.HIDDEN,
            )
            for name, author in (("ann", f"{SECRET} author"), ("bob", "bobs friend"))
        ],
        "captions": [caption(by_id[conv_id("ann")], f"{SECRET} caption"), caption(bob, "a caption")],
        "references": [
            reference(by_id[conv_id("ann")], f"{SECRET} answer", ["c"]),
            reference(bob, "a reference", ["c"]),
        ],
        "case_references": [
            CaseReference(
                document_id=each.document_id, conversation_id=each.conversation_id, text=text, written_at=NOON
            )
            for each, text in ((by_id[conv_id("ann")], f"{SECRET} right"), (bob, "right"))
        ],
        **_generated(by_id),
        "outlier_judges": [OutlierJudge(judge=str(left.user_id), votes=9, evidence=99.0)],
        "suspects": [
            Suspect(
                judge=str(left.user_id),
                model="m",
                **dict.fromkeys(
                    ("votes", "for_model", "against_model", "pull", "p_history", "p_pull", "p_focus", "p_joint"), 1
                ),
                **dict.fromkeys(("p_fast", "p_identity", "group", "group_voters", "group_shares")),
                p_value=0.01,
            )
        ],
    }
    for name, of_table in tables.items():
        store.replace(name, frame_of(TABLES[name].row, of_table))
    measured = ("0" * 32, text_id(f"{SECRET} why"), text_id("an answer"))  # replaced, of a vote, of the benchmark
    store.append("signals/text_pii", facts_frame("text_pii", {name: {} for name in measured}))
    store.write_bytes(f"policies/{policy_hash(POLICY)}.json", POLICY.model_dump_json().encode())
    mark_decided(store)


def _generated(by_id: dict[str, Conversation]) -> dict[str, list[Row]]:
    """What a benchmark made on demand has about two conversations: Ann's, which may go, and Bob's second one."""
    tables: dict[str, list[Row]] = {}
    for place, name in enumerate(("ann", "bob2")):
        item_id, image_id = conv_id(name), by_id[conv_id(name)].image_ids[0]
        image = {"description_id": f"{place}" * 32, "image_id": image_id, "attempt": 0, "version": "1"}
        text = {"aspect": "a", "general": "g", "level": "easy", "kind": "colour", "question": "q", "options": []}
        rows: dict[str, Row] = {
            "generated_images": GeneratedImage(**image, name=image_name(name), told="t", state="drawn", reason=""),
            "alignments": Alignment(**image, score=1.0, answers=[]),
            "generated_questions": GeneratedQuestion(**image, kind="k", question="q", options=[], problem=""),
            "generated_items": GeneratedItem(
                item_id=item_id, image_id=image_id, bench="b", description_id=image["description_id"], number=place,
                key="A", prompt="p", name=image_name(name), **text,
            ),
            "audit_answers": AuditAnswer(
                item_id=item_id, model="m", mode="blind", key="A", letter="A", text="A", version="1"
            ),
        }  # fmt: skip
        for table, row in rows.items():
            tables.setdefault(table, []).append(row)
    return tables


def _documents(rows: list[Conversation]) -> list[str]:
    return sorted({row.document_id for row in rows})


def user_of(store: Store, name: str) -> str:
    """The user id of a conversation."""
    return store.read("conversations").filter(conversation_id=conv_id(name))["user_id"].item()


def take(store: Store, *asked: str, users: Sequence[str] = (), dry_run: bool = False) -> Removed:
    """What a takedown of these ids and users removes."""
    return take_down(store, asked, users, NOON, dry_run)


def everything(store: Store) -> Iterator[tuple[str, bytes]]:
    """(file, all that it says) of every file of a store: raw bytes, and what Parquet's compression hides."""
    for path in sorted(Path(store.root).rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            if path.suffix == ".parquet":
                content += repr(pq.read_table(path).to_pylist()).encode()
            yield path.relative_to(store.root).as_posix(), content


def files_with(store: Store, *needles: str | bytes) -> list[str]:
    """Files of a store that hold one of the needles."""
    wanted = [needle.encode() if isinstance(needle, str) else needle for needle in needles]
    return [name for name, content in everything(store) if any(needle in content for needle in wanted)]
