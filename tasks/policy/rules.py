"""Policy rules: the columns and parts of items that they can use, and which items each rule fires on.

In: the rules of a policy, facts of conversations and battles, and ids of their parts (`logged_parts`). Out: a row for
each rule and item it fires on (`fired`), and the reasons of each item (`reasons_of`). Every threshold comes from the
policy. A rule over another fact of an item is an entry in CONVERSATION_COLUMNS (in TEXT_COLUMNS, too, if it needs the
texts) or BATTLE_COLUMNS; over another kind of part, a column of `_IDS_OF_PARTS` and an entry of `_PARTS`; another
comparison is a case in `fires`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache

import polars as pl

from schemas.items.conversation import Battle, Conversation
from schemas.items.review import HeldVerdict, QueueName
from schemas.policy import Action, OnMissing, Over, Policy, Rule
from schemas.signals import MeasuredOn
from schemas.tables import SIGNAL_ENTRIES
from tasks.runtime.times import IS_DATED
from tasks.storage.content_id import combined_id, number_of
from tasks.storage.parquet import compact
from tasks.storage.queries.conversation_features import answers_of, names_model, unseen_marks
from tasks.storage.queries.released import renamed
from tasks.storage.reviews import reviews_of
from tasks.storage.tables import Store, frame_of

_LENGTHS = pl.element().struct.field("content").str.len_chars()

TEXT_COLUMNS: dict[str, pl.Expr] = {
    "empty_message": pl.col("turns").list.eval(pl.element().struct.field("content").str.strip_chars() == "").list.any(),
    "ends_with_user": pl.col("turns").list.last().struct.field("role") == "user",
    "prompt_characters": pl.col("turns")
    .list.eval(pl.element().filter(pl.element().struct.field("role") == "user").struct.field("content").str.len_chars())
    .list.sum(),
    "shortest_message_characters": pl.col("turns").list.eval(_LENGTHS).list.min(),
    "single_turn_prompt_characters": pl.when(pl.col("num_turns") == 1).then(
        pl.col("turns").list.eval(_LENGTHS).list.first()
    ),
    "names_its_model": names_model(pl.col("model"), answers_of(pl.col("turns"))).fill_null(False),
    "unseen_marks": unseen_marks(answers_of(pl.col("turns"))).fill_null(False),
}
"""Policy name -> expression over a conversation with its texts; the other columns need none."""

_KIND = pl.element()
_KINDS_OF_PARTS = (
    pl.when(_KIND.str.contains("video"))
    .then(pl.lit("video"))
    .when(_KIND.str.contains("audio"))
    .then(pl.lit("audio"))
    .when(_KIND.str.contains(r"tool|function_call"))
    .then(pl.lit("tool"))
    .when(_KIND.str.contains(r"image|picture"))
    .then(pl.lit("image"))
    .when(_KIND.str.contains(r"pdf|file|document|attachment"))
    .then(pl.lit("document"))
    .when(_KIND.is_in(["text", "thinking", "search_results"]))
    .then(_KIND)
    .otherwise(pl.lit("other"))
)
"""Kind of a part, in each spelling of a vendor (`input_audio`, `image_file`), -> the kind that rules know; what a file
holds comes before that it is a file."""

CONVERSATION_COLUMNS: dict[str, pl.Expr] = {
    "num_turns": pl.col("num_turns"),
    "has_image": pl.col("image_ids").list.len() > 0,
    "image_problems": pl.col("image_problems"),
    "unread_parts": pl.col("unread_parts").fill_null(pl.lit([], dtype=pl.List(pl.String))),
    "unread_kinds": pl.col("unread_parts")
    .fill_null(pl.lit([], dtype=pl.List(pl.String)))
    .list.eval(_KINDS_OF_PARTS)
    .list.unique(),
    **{name: pl.col(name) for name in TEXT_COLUMNS},
    "null_message": pl.col("null_turns").list.len() > 0,
    "unanswered": pl.col("ends_with_user") & ~pl.col("is_item"),
    "item_unchecked": pl.col("item_unchecked"),
    "item_incorrect": pl.col("item_incorrect"),
    "item_harmful": pl.col("item_harmful"),
    "undated": ~IS_DATED,
    "feedback": pl.col("feedback"),
    "is_preset": pl.col("preset_dataset").is_not_null(),
    "model_excluded": pl.col("model_excluded"),
    "user_banned": pl.col("user_banned"),
}
"""Policy name -> expression over a conversation. single_turn_prompt_characters is null for several turns.

unread_parts: kinds of parts that were not read, as their programs spell them. unread_kinds: the same as video, audio,
tool, document, image, text, thinking, search_results or other.
names_its_model: an answer holds the name of its own model as the log has it, but for case and signs, if the name has a
digit and at least six letters and digits.
unseen_marks: an answer holds characters that show nothing and that no script needs there, as hidden watermarks do.
unanswered: ends_with_user, but for items of a written benchmark, which nobody answers. item_incorrect, item_harmful: at
least half of those who checked its reference say so; item_unchecked: an item that nobody has checked.
"""

ITEM_COLUMNS = ("is_item", "item_unchecked", "item_incorrect", "item_harmful")
"""Columns about a conversation as an item of a written benchmark; false for all others."""

BATTLE_COLUMNS: dict[str, pl.Expr] = {
    "anonymous": pl.col("anonymous"),
    "same_model": pl.col("model_a") == pl.col("model_b"),
    "unequal_turns": pl.col("turns_a") != pl.col("turns_b"),
    "winner": pl.col("winner"),
}
"""Policy name -> expression over a battle."""

_PARTS = {
    MeasuredOn.IMAGES: (Over.IMAGES,),
    MeasuredOn.MESSAGES: (Over.MESSAGES, Over.USER_MESSAGES, Over.ASSISTANT_MESSAGES, Over.IMAGE_TEXTS),
    MeasuredOn.ASSISTANT_MESSAGES: (Over.ASSISTANT_MESSAGES,),
    MeasuredOn.PROMPT: (Over.PROMPT,),
    MeasuredOn.DOCUMENTS: (Over.DOCUMENT,),
}

MEASURED_ON = {name: _PARTS[entry.on] for name, entry in SIGNAL_ENTRIES.items() if entry.screens}
"""Signals that are measured before decisions -> the parts they are measured on."""
DESCRIBED_ON = {
    name: tuple(over for over in _PARTS[entry.on] if over is not Over.IMAGE_TEXTS)
    for name, entry in SIGNAL_ENTRIES.items()
    if not entry.screens and entry.on in _PARTS
}
"""Signals that are measured on what the rules about the others keep -> the parts they are measured on."""
Signals = Callable[[str], pl.DataFrame]
"""Signal name -> its values: `content_id` and the value columns."""
FactsReader = Callable[[str, Mapping[str, pl.Expr]], pl.DataFrame]
"""Signal name and expressions over its values -> `content_id`, as in parts, and the expressions."""

STOPS = (Action.DROP.value, Action.HOLD.value)
"""Actions that keep an item from being released."""


class Step(StrEnum):
    """Steps of a decision. Reasons are listed in this order, and those of one step by their rule's place."""

    SCREENING = "screening"
    """Rules of the first pass."""
    REDACTION = "redaction"
    """The proof that a redacted form holds nothing any more."""
    BATTLE = "battle"
    """Rules over battles."""
    SET = "set"
    """Rules over the whole set: duplicates, near prompts, hot prompts."""
    DESCRIPTION = "description"
    """Rules of the second pass."""


FIRED = pl.Schema(
    [("item_id", pl.String), ("step", pl.Enum(Step)), ("place", pl.Int64), ("reason", pl.String), ("action", pl.String)]
)
"""One row for a rule that fires on an item; `place` is its place among the rules of the step."""


def redact_rules(policy: Policy) -> list[Rule]:
    """The policy's rules that redact."""
    return [rule for rule in policy.rules if rule.action is Action.REDACT]


def describes(rule: Rule) -> bool:
    """Whether the rule belongs to the second pass, because its signal is measured on what the first pass keeps."""
    return rule.signal.partition(".")[0] in DESCRIBED_ON


def of_models(hits: pl.DataFrame, rules: Sequence[Rule], conversations: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """The rows of FIRED of conversations with a model that the rule is about. `place` is the rule's among `rules`."""
    about = {place: rule.models == "open" for place, rule in enumerate(rules) if rule.models}
    if not about:
        return hits
    named = [conversations, renamed(conversations, policy.renames)]
    ids = pl.concat(frame.filter(pl.col("model").is_in(policy.open_models))["conversation_id"] for frame in named)
    is_about_open = pl.col("place").replace_strict(about, default=None, return_dtype=pl.Boolean)
    return hits.filter(is_about_open.is_null() | (pl.col("item_id").is_in(ids.unique().implode()) == is_about_open))


def conversation_columns(conversations: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """`item_id` and one column for each of CONVERSATION_COLUMNS.

    `conversations` has `preset_dataset`, the models' names from the log, and ITEM_COLUMNS where it may hold written
    items; `excluded_models` may use those names or the renamed ones. It has TEXT_COLUMNS or `turns`.
    """
    model = pl.col("model").is_in(policy.excluded_models)
    renamed_model = renamed(conversations, policy.renames).select(model).to_series()
    listed = conversations.with_columns(
        model_excluded=model | renamed_model,
        user_banned=pl.col("user_id").is_in(policy.banned_users).fill_null(False),
        **{name: pl.lit(False) for name in ITEM_COLUMNS if name not in conversations.columns},
        **{name: expression for name, expression in TEXT_COLUMNS.items() if name not in conversations.columns},
    )
    return listed.select(item_id="conversation_id", **CONVERSATION_COLUMNS)


def battle_columns(battles: pl.DataFrame) -> pl.DataFrame:
    """`item_id` and one column for each of BATTLE_COLUMNS. Models have the names of the policy."""
    return battles.select(item_id="battle_id", **BATTLE_COLUMNS)


@cache
def stated_types() -> dict[str, pl.Schema]:
    """`conversation` and `battle` -> schema of their policy columns."""
    conversations = frame_of(Conversation, []).with_columns(preset_dataset=pl.lit(None, pl.String))
    return {
        "conversation": conversation_columns(conversations, Policy(name="none", rules=[])).drop("item_id").schema,
        "battle": battle_columns(frame_of(Battle, [])).drop("item_id").schema,
    }


_IDS_OF_PARTS = """
    -- a row is one conversation, and of each kind of its parts the content ids
    SELECT
        conversation_id AS item_id,
        image_ids AS images,
        said_by('user', "turns.text_id", "turns.role") AS user_messages,
        said_by('assistant', "turns.text_id", "turns.role") AS assistant_messages,
        [prompt_id] AS prompt,
        [document_id] AS document
    FROM {conversations}
"""
_THOUGHTS = """
    -- a row is one conversation, and the content ids of what its model thought before its answers
    SELECT conversation_id AS item_id, "served.thinking_id" AS thoughts FROM conversations
"""


def logged_parts(store: Store) -> dict[Over, pl.DataFrame]:
    """The parts of conversations as they were logged, but for the texts in images, which `image_text_parts` gives.

    For each kind of part, one row per part of a conversation: `item_id` and `content_id` (`number_of`).
    """
    return _with_messages(_parts(store.batches(_IDS_OF_PARTS.format(conversations="conversations"))))


def parts_as_redacted(store: Store, policy_hash: str) -> dict[Over, pl.DataFrame]:
    """The parts, as in `logged_parts`, of conversations as redacted by this policy."""
    redacted = _IDS_OF_PARTS.format(conversations="redacted_conversations WHERE policy_hash = $policy_hash")
    return _with_messages(_parts(store.batches(redacted, policy_hash=policy_hash)))


def thought_parts(store: Store) -> pl.DataFrame:
    """Parts of conversations: what their models thought before they answered."""
    return _parts(store.batches(_THOUGHTS))["thoughts"]


def _with_messages(parts_by_kind: Mapping[str, pl.DataFrame]) -> dict[Over, pl.DataFrame]:
    """The parts of each kind, and as `Over.MESSAGES` those of users and models together."""
    messages = pl.concat([parts_by_kind[Over.USER_MESSAGES], parts_by_kind[Over.ASSISTANT_MESSAGES]])
    return {Over.MESSAGES: messages, **{Over(kind): rows for kind, rows in parts_by_kind.items()}}


def _parts(conversations: Iterable[pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Kind -> parts, of conversations with a list of content ids for each kind."""
    frames: dict[str, list[pl.DataFrame]] = {}
    for rows in conversations:  # at least one frame, which may be empty, so that every kind is there
        items = compact(rows.select("item_id"))  # the parts of a conversation share one copy of its id
        for kind in rows.drop("item_id"):
            # A row is one part of this kind of one conversation.
            of_kind = items.with_columns(content_id=kind).explode("content_id").drop_nulls("content_id")
            frames.setdefault(kind.name, []).append(of_kind.with_columns(number_of(pl.col("content_id"))))
    return {kind: pl.concat(parts_of_kind) for kind, parts_of_kind in frames.items()}


def image_text_parts(images: pl.DataFrame, texts: pl.DataFrame) -> pl.DataFrame:
    """The texts in the images that are parts of conversations, as parts.

    `texts` has, for the content_id of each image that was read, the text_id of what was read, null for an image
    without text. An image that was not read has a null part, which counts as not measured.
    """
    read = images.join(texts.with_columns(read=True), on="content_id", how="left", maintain_order="left")
    there = read.filter(pl.col("read").is_null() | pl.col("text_id").is_not_null())
    return there.select("item_id", content_id="text_id")


def fires(rule: Rule, value: pl.Expr) -> pl.Expr:
    """Whether the rule fires on a value; null where there is none."""
    if rule.at_least is not None:
        return value >= rule.at_least
    if rule.at_most is not None:
        return value <= rule.at_most
    if rule.equals is not None:
        return value == rule.equals
    if rule.other_than is not None:
        values = pl.concat_list(value)  # of a text, a list of it alone
        return values.list.eval(~pl.element().is_in(rule.other_than)).list.any()
    if rule.contains_any:
        return value.list.eval(pl.element().is_in(rule.contains_any)).list.any()
    return value.list.len() > 0


def fired(
    rules: Iterable[Rule],
    parts: Mapping[Over, pl.DataFrame],
    facts: FactsReader,
    stated: Mapping[Over, pl.DataFrame],
    step: Step = Step.SCREENING,
) -> pl.DataFrame:
    """One row of FIRED per rule and item it fires on.

    A rule over parts fires when it fires on any part. A part without a value fires the reason
    `unmeasured_<signal>` with action drop, unless the rule says to ignore it.
    `stated` has the table columns of whole conversations and battles, one row per item.
    """
    frames, of_signal = [pl.DataFrame(schema=FIRED)], dict[str, list[tuple[int, Rule]]]()
    for place, rule in enumerate(rules):
        if rule.over in stated or not parts[rule.over].is_empty():
            of_signal.setdefault(rule.signal.partition(".")[0], []).append((place, rule))
    for signal, rules_of_signal in of_signal.items():
        questions = {name: fact for place, rule in rules_of_signal for name, fact in _asked(place, rule).items()}
        signal_answers = (
            pl.DataFrame() if all(rule.over in stated for _, rule in rules_of_signal) else facts(signal, questions)
        )
        for place, rule in rules_of_signal:
            hit, unknown = _hit_and_unknown(place, rule, parts, signal_answers, stated)
            frames.append(_hits(hit, hit_columns(step, place, rule.reason, rule.action)))
            if rule.on_missing is OnMissing.DROP:
                frames.append(_hits(unknown, hit_columns(step, place, f"unmeasured_{signal}", Action.DROP)))
    return pl.concat(frames)


def _asked(place: int, rule: Rule) -> dict[str, pl.Expr]:
    """Questions of a rule about values of a signal, bool: whether it fires, and whether there is one."""
    value = pl.col(rule.signal.partition(".")[2])
    return {f"fires_{place}": fires(rule, value).fill_null(False), f"known_{place}": value.is_not_null()}


def _hit_and_unknown(
    place: int,
    rule: Rule,
    parts: Mapping[Over, pl.DataFrame],
    signal_answers: pl.DataFrame,
    stated: Mapping[Over, pl.DataFrame],
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The items, once for each part, on which a rule fires and for which it has no value."""
    questions = _asked(place, rule)
    does_fire, has_value = questions  # the names of its two columns
    if rule.over in stated:
        answers = stated[rule.over].select("item_id", **questions)
        return answers.filter(does_fire), answers.filter(~pl.col(has_value))
    of_items = parts[rule.over]
    hit = of_items.join(signal_answers.filter(does_fire), on="content_id", how="semi")
    return hit, of_items.join(signal_answers.filter(has_value), on="content_id", how="anti")


def hit_columns(step: Step, place: int, reason: str, action: Action) -> dict[str, pl.Expr]:
    """The columns of FIRED beside `item_id`."""
    values = {"step": step.value, "place": place, "reason": reason, "action": action.value}
    return {name: pl.lit(value, FIRED[name]) for name, value in values.items()}


def _hits(items: pl.DataFrame, columns: Mapping[str, pl.Expr]) -> pl.DataFrame:
    return items.select("item_id").unique().with_columns(**columns)


def reasons_of(fired_rules: pl.DataFrame, item_ids: pl.Series) -> pl.DataFrame:
    """`item_id`, `reasons`, `tags` and `held` of every item; the lists in the policy's order and without repeats."""
    ordered = fired_rules.sort("step", "place", "reason")
    stops = pl.col("action").is_in(STOPS)
    lists = ordered.group_by("item_id").agg(
        reasons=pl.col("reason").filter(stops).unique(maintain_order=True),
        tags=pl.col("reason").filter(~stops).unique(maintain_order=True),
        held=(pl.col("action") == Action.HOLD.value).any() & (pl.col("action") != Action.DROP.value).all(),
    )
    empty = pl.lit([], dtype=pl.List(pl.String))
    return (
        pl.DataFrame({"item_id": item_ids})
        .join(lists, on="item_id", how="left", maintain_order="left")
        .with_columns(pl.col("reasons", "tags").fill_null(empty), pl.col("held").fill_null(False))
    )


_CONTENTS = """
    -- a row is one of the wanted conversations, and the content ids of all its messages and images
    SELECT conversation_id, "turns.text_id" || image_ids AS content_ids
    FROM conversations SEMI JOIN wanted USING (conversation_id)
"""


def reviewed_contents(store: Store, conversation_ids: Iterable[str]) -> dict[str, str]:
    """conversation_id -> content id of all its messages and images; a new turn changes it."""
    id_frame = pl.DataFrame({"conversation_id": pl.Series([*conversation_ids], dtype=pl.String)})
    contents = pl.concat(store.batches(_CONTENTS, wanted=id_frame))
    return {conversation_id: combined_id("reviewed", ids) for conversation_id, ids in contents.iter_rows()}


def present_verdicts(store: Store) -> pl.DataFrame:
    """Verdicts on what held conversations are now: item_id, reason, and `dropped`, true if any reviewer says so."""
    reviews = reviews_of(store).filter(queue=QueueName.HELD.value)
    content = reviewed_contents(store, reviews["conversation_id"].unique())
    valid = reviews.filter(
        pl.col("content_id") == pl.col("conversation_id").replace_strict(content, default=None, return_dtype=pl.String)
    )
    seen = valid.explode("reasons").select("verdict", item_id="conversation_id", reason="reasons")
    return seen.group_by("item_id", "reason").agg(dropped=(pl.col("verdict") == HeldVerdict.DROP.value).any())


def reviewed(hits: pl.DataFrame, verdicts: pl.DataFrame) -> pl.DataFrame:
    """Apply `present_verdicts` to fired rules: a released hold becomes a tag, a dropped hold becomes a drop."""
    is_hold = pl.col("action") == Action.HOLD.value
    verdict = pl.when("dropped").then(pl.lit(Action.DROP.value)).otherwise(pl.lit(Action.TAG.value))
    action = pl.when(is_hold & pl.col("dropped").is_not_null()).then(verdict).otherwise("action")
    judged = hits.join(verdicts, on=["item_id", "reason"], how="left", maintain_order="left")
    return judged.with_columns(action=action).select(hits.columns)
