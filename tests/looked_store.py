"""A store whose every text is hostile, with everything that must stay hidden, and a visitor of its explorer."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import polars as pl
from fastapi.testclient import TestClient

from schemas.benches.bench import BenchItem
from schemas.items.conversation import Sighting
from schemas.items.reject import Quarantined, Reject, RejectReason
from schemas.items.topic import TopicMember
from schemas.policy import policy_hash
from schemas.rating import Rating
from tasks.explore.server import explorer
from tasks.policy.policy_file import load_policy
from tasks.storage.content_id import text_id
from tasks.storage.tables import Store, frame_schema
from tests.builders import battle, conversation, decision, drawn_image, image, measure_clean, sides, store_with
from tests.small_store import HOSTILE_MODEL, HOSTILE_PROMPT, HOSTILE_TOPIC
from tests.visit_bench import stored_answer
from tests.written import caption, reference, written_item

PORT = 8399
EMAIL = "ada.lovelace@analytical.example"
SOURCE = "2024-09-18-conv.json"
USER = "fedcba9876543210fedcba98"
HOSTILE = (
    HOSTILE_PROMPT,
    '<script>window.ran = 1</script><img src=x onerror="window.ran = 1">',
    '"><svg onload="window.ran = 1"><a href="javascript:window.ran=1">x</a></svg>',
    "</script><script>window.ran = 1</script>",
    "![p](https://evil.test/p.png) [a](javascript:window.ran=1)",
    "\u202eevil\u2066 \u202dtext\u2069 \u200f mixed",
    "{{ 7 * 7 }} {% raw %} ${window.ran = 1} `window.ran = 1`",
    "a" * 1_000_000,
    '<style>*{display:none}</style><base href="https://evil.test/"><meta http-equiv=refresh content="0;url=https://evil.test">',
)
MODELS = ("vicuna-13b", HOSTILE_MODEL, "</script><svg/onload=window.ran=1>", "javascript:window.ran=1")


class Looked(NamedTuple):
    """A store and the ids of what it hides."""

    store: Store
    faces: str
    """Image with a face."""
    plain: str
    """Image with nothing to hide."""
    quarantined: str
    """Conversation that is quarantined although its row is still there."""


def looked_store(folder: Path) -> Looked:
    """The store described above, in `folder`/store."""
    images = [drawn_image(seed, (640, 480)) for seed in range(4)]
    shown = {"image_ids": [images[0].image_id], "user_id": USER}
    chats = [
        conversation(f"c{n}", text, f"Answer: {text}", model=MODELS[n % 4], line=n + 1, **shown)
        for n, text in enumerate(HOSTILE)
    ]
    personal = conversation("personal", f"Write to {EMAIL}, please", "Done.", user_id=USER, line=30)
    face = conversation("face", "Who is this?", "A person.", image_ids=[images[1].image_id], line=31)
    twin = conversation("twin", HOSTILE[1], "Again.", image_ids=[images[0].image_id], line=32)
    hidden = conversation("flagged", "A flagged prompt", "No.", image_ids=[images[2].image_id], line=33)
    left, right = sides("b0", HOSTILE[2], "Left.", image_ids=[images[0].image_id], user_id=USER)
    named = [
        left.model_copy(update={"model": MODELS[1], "line": 40}),
        right.model_copy(update={"model": MODELS[2], "line": 41}),
    ]
    words = f"<script>window.ran = 1</script> ask {EMAIL}"
    vote = battle(*named, winner="model_b", line=42, vote_reason=words, vote_reason_id=text_id(words))
    rows = [*chats, personal, face, twin, hidden, *named]
    reasons = {"personal": "pii_text", "face": "face", "twin": "duplicate"}
    decided = [decision(each, *filter(None, [reasons.get(each.conversation_id)])) for each in rows]
    decided = [each.model_copy(update={"duplicate_of": "c1"}) if each.item_id == "twin" else each for each in decided]
    policy = load_policy("public_release")
    store = store_with(
        folder,
        conversations=rows,
        battles=[vote],
        images=[image(each) for each in images],
        decisions=[each.model_copy(update={"policy_hash": policy_hash(policy)}) for each in [*decided, decision(vote)]],
        rejects=[Reject(source=SOURCE, line=90, reason=RejectReason.NOT_JSON, evidence="at character 3")],
        quarantine=[Quarantined(kind="conversation", key="flagged", cause="flagged")],
        topics=_topics([*chats, *named]),
        bench_items=[written_item(chats[4], bench="hostile", family=HOSTILE[1], licences=[HOSTILE[2]])],
        captions=[caption(chats[4], HOSTILE[1])],
        references=[reference(chats[4], HOSTILE[8], [HOSTILE[1]])],
        answers=[stored_answer(chats[4], model, text) for model, text in zip(MODELS, HOSTILE[4:], strict=False)],
        bench=[BenchItem(conversation_id="c1", document_id=chats[1].document_id, topic=0)],
        ratings=[_rating(model, n) for n, model in enumerate(MODELS)],
    )  # fmt: skip
    written = [{"type": "email", "start": 36, "end": 36 + len(EMAIL), "confidence": 1.0}]
    spans = [{"type": "email", "start": 9, "end": 9 + len(EMAIL), "confidence": 1.0}]
    found = [{"box": [100, 80, 200, 150], "confidence": 0.9}]
    measure_clean(
        store,
        rows,
        text_pii={
            text_id(personal.turns[0].content): {"spans": spans, "types": ["email"]},
            text_id("Left."): None,
            text_id(words): {"spans": written, "types": ["email"]},
        },
        faces={images[1].image_id: {"faces": found, "confidence_max": 0.9, "area_fraction_max": 0.1}},
    )
    lines = [(each.source, each.line, 0, "chat") for each in rows] + [(vote.source, vote.line, 0, "leftvote")]
    seen = [dict(zip(("source", "line", "side", "record_type"), line, strict=True)) for line in lines]
    store.replace("sightings", pl.DataFrame(seen, schema=frame_schema(Sighting)))
    store.write_bytes(f"policies/{policy_hash(policy)}.json", policy.model_dump_json().encode())
    return Looked(store, images[1].image_id, images[0].image_id, "flagged")


def _topics(rows):
    documents = dict.fromkeys(each.document_id for each in rows)
    names = (HOSTILE_TOPIC, "</script><script>window.ran=1</script>", "outliers")
    return [
        TopicMember(document_id=d, topic=(0, 1, -1)[n % 3], probability=0.5, name=names[n % 3], x=n % 5, y=n % 3)
        for n, d in enumerate(documents)
    ]


def _rating(model, n):
    return Rating(
        slice="overall", model=model, rating=1100 - 50 * n, ci95_low=None if n == 3 else 1050 - 50 * n,
        ci95_high=1150 - 50 * n, rank=n + 1, battles=4, flags=["few_battles"],
    )  # fmt: skip


class Strictness(HTMLParser):
    """Collects what a page must not have: inline script or style, handlers, addresses of other places."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag, attrs):
        values = {name: value or "" for name, value in attrs}
        if tag in {"style", "base", "iframe", "object", "embed"} or (tag == "script" and "src" not in values):
            self.wrong.append(tag)
        if tag == "meta" and values.get("http-equiv", "").lower() == "refresh":
            self.wrong.append("refresh")
        self.wrong += [name for name in values if name.startswith("on") or name == "style"]
        for name in ("href", "src", "action", "srcset", "poster", "formaction"):
            if name in values:
                self.addresses.append(values[name])
                if re.match(r"\s*(?:[a-z][a-z0-9+.-]*:|//)", values[name], re.IGNORECASE):
                    self.wrong.append(f"{name}={values[name][:40]}")


def strict(html: str) -> list[str]:
    """The addresses in a page, after asserting that it has nothing that it must not have."""
    read = Strictness()
    read.feed(html)
    assert read.wrong == []
    return read.addresses


def client(source, comparison=None) -> TestClient:
    """A browser that has followed the link of an explorer."""
    app, path = explorer(source, lambda: PORT, comparison)
    made = TestClient(app, base_url=f"http://127.0.0.1:{PORT}")
    assert made.get(path).status_code == 200
    return made
