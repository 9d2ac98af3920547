"""A small measured, decided, sampled and rated store, built from rows without any model, and releases made from it.

Twelve direct chats and six battles are kept; a face, an e-mail address, a duplicate and a vote between equals are
dropped; three lines are rejected and one was replaced. Names and texts are as hostile as a log may hold.
"""

import json
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import polars as pl

from flows.products import item_ids, judge_stand_ins, left_out_items, parts_of_store, report_sections
from schemas.benches.bench import BenchDraw, BenchItem, Failure
from schemas.items.conversation import Battle, Conversation, Sighting
from schemas.items.decision import ALL_DROPS, Decision, RuleParity
from schemas.items.reject import Reject, RejectReason
from schemas.items.topic import FittedDocument, TopicFit, TopicMember, TopicMerge
from schemas.policy import policy_hash
from schemas.rating import RankChange, Rating, StyleCoefficient, VoteShare
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.images.decode import DecodedImage
from tasks.leaderboard.steps import rate_models
from tasks.policy.policy_file import load_policy
from tasks.providers import Providers
from tasks.release.registered import is_benchmark_alone
from tasks.release.steps import build_release, seal_release
from tasks.report.steps import report_release
from tasks.storage.queries.released import mark_decided
from tasks.storage.tables import Store, frame_schema
from tests.builders import (
    NOON,
    VERSIONS,
    battle,
    conversation,
    counted_tokens,
    decision,
    drawn_image,
    image,
    measure_clean,
    sides,
    store_with,
)

HOSTILE_MODEL = '<script src="https://evil.test/m.js"></script>|$x_1$ \u202e`\n---\nlicense: mit\n../../x"\''
HOSTILE_TOPIC = '=1+1"><img src=x onerror=alert(1)> & [a](javascript:b) |\n---\nconfigs: []\n'
HOSTILE_PROMPT = "</style></script><script>alert(2)</script> | ![x](https://evil.test/p.png)"
MODELS = ("vicuna-13b", "llava-34b", HOSTILE_MODEL)
SOURCE = "2024-09-18-conv.json"
USER = "0123456789abcdef01234567"
POLICY = load_policy("public_release")


def small_store(folder: Path) -> Store:
    """The store described above, in `folder`/store."""
    images = [drawn_image(seed) for seed in range(6)]
    kept, dropped = _chats(images), _dropped(images)
    pairs, battles = _battles(images)
    both = [side for pair in pairs for side in pair]
    conversations = [*kept, *(each for each, _ in dropped), *both]
    store = store_with(
        folder,
        conversations=conversations,
        battles=battles,
        images=[image(each) for each in images],
        decisions=_decisions(kept, dropped, both, battles),
        rejects=_rejects(),
        **_sampled(kept, both),
        **_rated(),
    )
    store.replace("sightings", _sightings([*conversations, *battles]))
    languages = {each.prompt_id: {"language": ("en", "de", "unknown")[n % 3]} for n, each in enumerate(kept)}
    measure_clean(store, conversations, language=languages, tokens=counted_tokens(conversations))
    store.write_bytes(f"policies/{policy_hash(POLICY)}.json", POLICY.model_dump_json().encode())
    mark_decided(store)
    return store


def _battles(images: list[DecodedImage]) -> tuple[list[list[Conversation]], list[Battle]]:
    """The sides of all battles, and the battles; the last one is between a model and itself."""
    votes = _votes(images)
    same = [
        side.model_copy(update={"line": 90 + n, "model": MODELS[0]})
        for n, side in enumerate(sides("b9", image_ids=[images[0].image_id], user_id=USER))
    ]
    battles = [battle(*pair, winner=winner, line=100 + n) for n, (pair, winner) in enumerate(votes)]
    return [*(pair for pair, _ in votes), same], [*battles, battle(*same, line=199)]


def _decisions(
    kept: list[Conversation], dropped: list[tuple[Conversation, str]], both: list[Conversation], battles: list[Battle]
) -> list[Decision]:
    """Everything is kept but the dropped chats and the last battle."""
    made = [decision(each) for each in [*kept, *both, *battles[:-1]]]
    made += [decision(each, reason) for each, reason in dropped] + [decision(battles[-1], "same_model")]
    return [each.model_copy(update={"policy_hash": policy_hash(POLICY)}) for each in made]


def _sampled(kept: list[Conversation], both: list[Conversation]) -> dict[str, list]:
    """The tables of topics and the benchmark, whose only item is the first chat."""
    topics = _topics([*kept, *both])
    failed = next(side for side in both if side.conversation_id == "b3")
    fitted = [
        FittedDocument(**each.model_dump(exclude={"name"}), model="a fit", reach=0.1, vector="0" * 16)
        for each in topics
    ]
    return {
        "topics": topics,
        "topic_model": fitted,
        "topic_fits": [
            TopicFit(
                model="a fit",
                fit_day=NOON.date(),
                drift_day=NOON.date(),
                asked="",
                decided_by="",
                policy_hash=policy_hash(POLICY),
                in_use=True,
            )
        ],
        "topic_tree": [TopicMerge(node=2, left=0, right=1, distance=0.5, documents=4)],
        "bench_draws": [BenchDraw(drawn_from="", policy_hash=policy_hash(POLICY), prompts=1)],
        "bench": [BenchItem(conversation_id="c00", document_id=kept[0].document_id, topic=0)],
        "failures": [
            Failure(
                document_id=failed.document_id,
                conversation_id=failed.conversation_id,
                judges=2,
                both_bad=2,
                models=[*MODELS],
                failure_type="hallucination",
                reviewed=True,
                drawn=True,
            )
        ],
    }


def _rated() -> dict[str, list]:
    """The tables of ratings, and of agreement with upstream's rules."""
    shares = {"battles": 6, "decisive_fraction": 0.5, "tie_fraction": 0.3, "both_bad_fraction": 0.2, "flags": []}
    style = {"slice": "overall", "coefficient": 0.2, "ci95_low": 0.1, "ci95_high": 0.3, "preset": "fastchat"}
    counts = {"ours": 3, "upstream": 4, "both": 2, "only_ours": 1, "only_upstream": 2}
    return {
        "ratings": [rating for name in ("overall", "style_control", "category:ocr") for rating in _ratings(name)],
        "vote_shares": [VoteShare(slice=name, **shares) for name in ("overall", "language:German")],
        "style_coefficients": [
            StyleCoefficient(covariate=name, battles=6, flags=[], **style) for name in ("entities", "tokens")
        ],
        "rank_changes": [_rank_change(model, n) for n, model in enumerate(MODELS, 1)],
        "rule_parity": [
            RuleParity(item_kind=kind, reason=reason, **counts)
            for kind in ("battle", "conversation")
            for reason in ("leaked_identity", ALL_DROPS)
        ],
    }


def _rank_change(model: str, rank: int) -> RankChange:
    rating = 1200.0 - rank
    return RankChange(
        slice="overall", model=model, rank=rank, rank_style=rank, rank_change=0, rating=rating, rating_style=rating
    )


def _rejects() -> list[Reject]:
    reasons = (RejectReason.NOT_JSON, RejectReason.NOT_JSON, RejectReason.BLANK_LINE)
    return [Reject(source=SOURCE, line=600 + n, reason=reason, evidence="") for n, reason in enumerate(reasons)]


def _chats(images: list[DecodedImage]) -> list[Conversation]:
    texts = [(f"What is in picture {n}?", f"Thing {n}.") for n in range(12)]
    texts[4] = ("What is in picture four?", "Thing 4.")  # the hash of "image 4?" would reserve it
    texts[1] = (HOSTILE_PROMPT, "I see.", "And now?", "The same.")
    return [
        conversation(
            f"c{n:02d}",
            *texts[n],
            model=MODELS[n % 3],
            image_ids=[images[n % 6].image_id],
            tstamp=NOON + timedelta(hours=10 * n, milliseconds=1),
            user_id=USER if n % 4 else None,
            line=1 + n,
        )
        for n in range(12)
    ]


def _dropped(images: list[DecodedImage]) -> list[tuple[Conversation, str]]:
    reasons = ("face", "pii_text", "duplicate")
    return [
        (conversation(f"d{n}", image_ids=[images[n].image_id], user_id=USER, line=50 + n), reason)
        for n, reason in enumerate(reasons)
    ]


def _votes(images: list[DecodedImage]) -> list[tuple[list[Conversation], str]]:
    """Six battles, every kind of verdict; the first is about the benchmark's prompt."""
    winners = ("model_a", "model_b", "tie", "tie_bothbad", "model_a", "model_b")
    votes = []
    for n, winner in enumerate(winners):
        texts = ("What is in picture 0?", "Thing 0.") if n == 0 else (f"Which is larger, {n} or 3?", "Three.")
        left, right = sides(f"b{n}", *texts, image_ids=[images[n].image_id], user_id=USER)
        named = [
            side.model_copy(update={"model": MODELS[(n + place) % 3], "line": 60 + 2 * n + place})
            for place, side in enumerate((left, right))
        ]
        votes.append((named, winner))
    return votes


def _topics(kept: list[Conversation]) -> list[TopicMember]:
    """Topics 0 and 1, and outliers: one row for each distinct document."""
    documents = dict.fromkeys(each.document_id for each in kept)
    names = {0: "picture, thing", 1: HOSTILE_TOPIC, -1: "outliers"}
    numbers = [(0, 0, 1, -1)[n % 4] for n in range(len(documents))]
    return [
        TopicMember(document_id=document, topic=number, probability=0.5, name=names[number], x=n % 5, y=n % 3)
        for n, (document, number) in enumerate(zip(documents, numbers, strict=True))
    ]


def _ratings(name: str) -> list[Rating]:
    return [
        Rating(
            slice=name,
            model=model,
            rating=1100.0 - 100 * n,
            ci95_low=1040.0 - 100 * n,
            ci95_high=1160.0 - 100 * n,
            rank=n + 1,
            battles=4,
            flags=["few_battles"],
        )
        for n, model in enumerate(MODELS)
    ]


def _sightings(items: list[Conversation | Battle]) -> pl.DataFrame:
    """The log lines of the items, and one line that a later line replaced; the funnel counts them."""
    lines = [(item.source, item.line, "leftvote" if isinstance(item, Battle) else "chat") for item in items]
    rows = [{"source": s, "line": n, "side": 0, "record_type": kind} for s, n, kind in [*lines, (SOURCE, 500, "chat")]]
    return pl.DataFrame(rows, schema=frame_schema(Sighting))


def make_release(store: Store, rated: bool = True, reported: bool = False, **settings: object) -> StageReport:
    """Build, rate unless told not to, seal and place a release of the store, as `flows/release.py` does.

    Its report is half of the work, and is made only where it is asked for.
    """
    chosen, providers = Settings(store=store.root, **settings), Providers()
    built = build_release.fn(chosen, VERSIONS, item_ids(store), left_out_items(store))
    if rated:
        with patch("tasks.leaderboard.agreement.SAMPLES", 10):  # of 100, a third of the time
            rate_models.fn(chosen, VERSIONS, built.staging)
    if reported:
        alone, of_judges = is_benchmark_alone(built.staging), judge_stand_ins(store)
        report_release.fn(chosen, providers, built.staging, built.tallies, report_sections, of_judges, alone)
    return seal_release.fn(chosen, providers, VERSIONS, built, parts_of_store(store))


def manifest_of(release: Path) -> dict:
    """The manifest of a release on disk."""
    return json.loads((release / "manifest.json").read_text(encoding="utf-8"))
