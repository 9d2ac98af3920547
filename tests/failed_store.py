"""A store with four prompts that two people each saw two models fail, one of them hidden; a new model answered them."""

from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from schemas.benches.bench import HiddenItem
from schemas.benches.judging import Answer
from schemas.items.conversation import Conversation, RedactedConversation
from schemas.items.decision import Decision, ItemKind, Redaction
from schemas.items.image import RedactedImage
from schemas.policy import policy_hash
from schemas.settings import Settings
from tasks.bench.steps import find_failures
from tasks.providers import Providers
from tasks.review.failures import FailureAnswersQueue
from tasks.review_queue import review_of
from tasks.signals.steps import signal_versions
from tasks.storage.queries.failures import failure_cases
from tasks.storage.queries.released import mark_decided
from tasks.storage.reviews import add_reviews
from tasks.storage.tables import Store, frame_of
from tests.builders import NOON, battle, conversation, decision, drawn_image, image, measure_clean, sides, store_with
from tests.small_store import POLICY

MODELS = ("amber", "birch")
NEW = "new-model"
PROMPTS = (
    "How many cups are there?", "What is to the left of the cup?", "Who is <b>this</b>?",
    "What does the hidden sign say?",
)  # fmt: skip
HIDDEN = 3
"""Place of the prompt that is in the hidden split."""


class Failed(NamedTuple):
    """The store, and what stands in it."""

    store: Store
    questions: list[str]
    """Conversation of each prompt of `PROMPTS`."""
    documents: list[str]
    """Document id of each prompt."""


def failed_store(folder: Path, **other) -> Failed:
    """The store after `find_failures`. `other`: signal -> content id -> another value than a harmless one."""
    picture = drawn_image(1, (64, 48))
    pairs, votes = list[tuple[Conversation, Conversation]](), []
    for place, prompt in enumerate(PROMPTS):
        # two people voted both bad, a third one found the left answer better
        for number, winner in enumerate(("tie_bothbad", "tie_bothbad", "model_a")):
            when = {"tstamp": NOON + timedelta(minutes=10 * place + number), "image_ids": [picture.image_id]}
            left, right = sides(f"f{place}{number}", prompt, f"I see {place} cups.", **when)
            models = MODELS if number < 2 else ("cedar", "birch")
            pair = tuple(side.model_copy(update={"model": m}) for side, m in zip((left, right), models, strict=True))
            pairs.append(pair)
            votes.append(battle(*pair, winner, judge=f"person {number}"))
    conversations = [side for pair in pairs for side in pair]
    first = [pairs[3 * place][0] for place in range(len(PROMPTS))]
    answers = [
        Answer(
            question_id=each.conversation_id, model=NEW, state="complete", text=f"There are {place + 4} of them.",
            version="1", tokens=5, document_id=each.document_id,
        )
        for place, each in enumerate(first)
    ]  # fmt: skip
    hidden = HiddenItem(
        document_id=first[HIDDEN].document_id, topic=0, first_month="2024-09", last_month="2024-11", drawn=True
    )
    decided = {"policy_hash": policy_hash(POLICY)}
    store = store_with(
        folder,
        conversations=conversations,
        battles=votes,
        decisions=[decision(each, **decided) for each in (*conversations, *votes)],
        images=[image(picture)],
        answers=answers,
        hidden=[hidden],
    )
    versions = signal_versions(Providers())
    measure_clean(store, conversations, versions, **other)
    store.write_bytes(f"policies/{policy_hash(POLICY)}.json", POLICY.model_dump_json().encode())
    mark_decided(store)
    find_failures.fn(Settings(store=store.root), versions)
    return Failed(store, [each.conversation_id for each in first], [each.document_id for each in first])


MASK = drawn_image(5, (64, 48))
"""Picture in place of that of a redacted prompt."""


def redact_first(failed: Failed, text: str, placeholder: str) -> None:
    """Make the conversations on the first prompt redacted ones, with a placeholder for a text and another picture."""
    store, versions = failed.store, signal_versions(Providers())
    every = [Conversation(**row) for row in store.read("conversations").iter_rows(named=True)]
    redacted = list[RedactedConversation]()
    for row in every:
        if row.conversation_id.startswith("f0"):
            texts = [turn.content.replace(text, placeholder) for turn in row.turns]
            masked = conversation(
                row.conversation_id, *texts, model=row.model, image_ids=[MASK.image_id], tstamp=row.tstamp
            )
            done = Redaction(reason="pii_text", part="message", place=0, type="email", count=1)
            values = dict(masked) | {"redactions": [done], "left_names": [], "policy_hash": policy_hash(POLICY)}
            redacted.append(RedactedConversation(**values))
    store.replace("redacted_conversations", frame_of(RedactedConversation, redacted))
    source = store.read("images")["image_id"][0]
    stored = RedactedImage(**dict(image(MASK)), boxes=[], source_image_id=source)
    store.replace("redacted_images", frame_of(RedactedImage, [stored]))
    names = [row.conversation_id for row in redacted]
    decisions = [Decision(**row) for row in store.read("decisions").iter_rows(named=True)]
    marked = [
        row.model_copy(update={"redactions": redacted[0].redactions}) if row.item_id in names else row
        for row in decisions
        if row.item_kind == ItemKind.CONVERSATION
    ]
    others = [row for row in decisions if row.item_kind != ItemKind.CONVERSATION]
    store.replace("decisions", frame_of(Decision, [*marked, *others]))
    measure_clean(store, [*every, *redacted], versions)
    find_failures.fn(Settings(store=store.root), versions)


def measured_too(store: Store, *texts: str) -> None:
    """Store a harmless value of every signal of these texts, too, as a message and an answer."""
    said = [conversation(f"said {number}", "Say it.", text) for number, text in enumerate(texts)]
    rows = [Conversation(**row) for row in store.read("conversations").iter_rows(named=True)]
    measure_clean(store, [*rows, *said], signal_versions(Providers()))


def say(failed, model, place, *verdicts):
    """Reviewers say of a model's answer to a prompt whether it is right."""
    case = next(each for each in failure_cases(failed.store) if each.question_id == failed.questions[place])
    answer = next(each for each in case.answers if each.model == model)
    queue = FailureAnswersQueue()
    item = next(each for each in queue.waiting(failed.store) if each.item_id == answer.content_id)
    given = [review_of(queue, item, verdict, f"person {n}", NOON) for n, verdict in enumerate(verdicts)]
    add_reviews(failed.store, given)
