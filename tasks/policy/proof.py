"""The proof of a redaction: the finders have looked again at what is released, and no redact rule fires any more."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import polars as pl

from schemas.policy import Action, Over, Policy
from tasks.policy.redact import ROLES, exercise_names_in, findings, redact_rules, redact_texts, spans_of
from tasks.policy.redact_text import without_left
from tasks.policy.rules import FIRED, Facts, Signals, Step, fired, hit_columns
from tasks.storage.content_id import text_id

Conversations = Callable[[Sequence[str], Sequence[str] | None], Iterable[pl.DataFrame]]
"""Conversation ids and columns, None for all -> their rows, with texts."""


def unproven(
    hits: pl.DataFrame,
    redacted: pl.DataFrame,
    named: pl.DataFrame,
    parts: Mapping[Over, pl.DataFrame],
    facts: Facts,
    signals: Signals,
    policy: Policy,
) -> pl.DataFrame:
    """Drop reasons of conversations whose redaction is not proven; `parts` are those of the redacted forms.

    `redacted` has their ids, and `named` is those in which names stay, with texts.
    `redaction_failed`: a redact rule still fires. `unmeasured_redaction`: there is no redacted form yet.
    """
    left = fired(redact_rules(policy), parts, facts, {}, Step.REDACTION)
    found = pl.col("action") == Action.REDACT.value
    left = left.join(_of_left_names(named, signals, policy), on=["item_id", "place", "action"], how="anti")
    left = left.with_columns(
        reason=pl.when(found).then(pl.lit("redaction_failed")).otherwise("reason"),
        action=pl.lit(Action.DROP.value),
    )
    wanted = hits.filter(action=Action.REDACT.value).select("item_id").unique()
    missing = wanted.join(redacted, left_on="item_id", right_on="conversation_id", how="anti").select(
        "item_id", **hit_columns(Step.REDACTION, 0, "unmeasured_redaction", Action.DROP)
    )
    dropped = hits.filter(action=Action.DROP.value)
    unseen = missing.join(dropped, on="item_id", how="anti")  # dropped conversations are not redacted
    return pl.concat([left.with_columns(place=pl.lit(0, pl.Int64)), unseen])


def _of_left_names(named: pl.DataFrame, signals: Signals, policy: Policy) -> pl.DataFrame:
    """item_id, place and action of redact rules that fire only on names that stay (`left_names`)."""
    rows = list(_fired_on_left_names(named, signals, policy)) if named.height else []
    return pl.DataFrame(rows, schema={name: FIRED[name] for name in ("item_id", "place", "action")}, orient="row")


def _fired_on_left_names(named: pl.DataFrame, signals: Signals, policy: Policy) -> Iterator[tuple[str, int, str]]:
    for place, rule in enumerate(redact_rules(policy)):
        if rule.over not in ROLES:
            continue
        spans = spans_of(rule, signals)
        for item, turns, left in named.select("conversation_id", "turns", "left_names").iter_rows():
            said = [turn for turn in turns if turn["role"] in ROLES[rule.over]]
            held = [(turn["content"], spans[turn["text_id"]]) for turn in said if turn["text_id"] in spans]
            if all(found and not without_left(text, found, set(left)) for text, found in held):
                yield item, place, Action.REDACT.value


def repeated_words(
    battles: pl.DataFrame, conversations: Conversations, redacted: pl.DataFrame, signals: Signals, policy: Policy
) -> pl.DataFrame:
    """Redact rules as fired on battles whose voter wrote a value that is redacted in one of the sides."""
    sides = ["conversation_a", "conversation_b"]
    changed = pl.any_horizontal(pl.col(sides).is_in(redacted["conversation_id"].implode()))
    written = battles.drop_nulls("vote_reason").filter(changed).select("battle_id", *sides, "vote_reason")
    if written.is_empty():
        return pl.DataFrame(schema=FIRED)
    found, rows = findings(policy, signals), list[tuple[str, Step, int, str, str]]()
    names = {side for row in written.select(sides).iter_rows() for side in row}
    columns = ["conversation_id", "turns", "image_ids"]
    asked = (rows.select(columns) for rows in conversations(sorted(names), columns))
    said = {name: (turns, ids) for rows in asked for name, turns, ids in rows.iter_rows()}
    for battle_id, a, b, words in written.iter_rows():
        shown = [said[side] for side in (a, b) if side in said]
        turns = [turn for turns, _ in shown for turn in turns]
        values = {v: kind for _, ids in shown for i in ids for v, kind in found.image_values.get(i, {}).items()}
        vote = {"role": "user", "content": words, "text_id": text_id(words), "images": []}
        _, counts = redact_texts([*turns, vote], found, values, exercise_names_in(turns, found))
        reasons = {reason for reason, _ in counts[-1]}
        rows += [(battle_id, Step.REDACTION, 0, reason, Action.DROP.value) for reason in reasons]
    return pl.DataFrame(sorted(rows), schema=FIRED, orient="row")
