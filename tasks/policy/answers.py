"""Applies the policy to answers to the benchmark and to verdicts on them, as if each ended its prompt's conversation.

Only rules about texts and conversations count: prompt and images are released already. Texts that a rule redacts are
measured again; a redact rule that still fires keeps them in the store.
"""

from collections.abc import Mapping

import polars as pl

from schemas.benches.judge_release import ScreenedText
from schemas.policy import Action, Over, Policy, Rule, policy_hash
from schemas.signals import MeasuredOn
from schemas.tables import SIGNAL_ENTRIES
from tasks.policy.redact import exercise_names_in, findings, redact_texts
from tasks.policy.rules import STOPS, Signals, conversation_columns, fired, reasons_of, redact_rules
from tasks.storage.content_id import number_of, text_id
from tasks.storage.queries.released import kept_conversations
from tasks.storage.queries.signals import Versions, signal_facts, signal_values
from tasks.storage.tables import Store

_OF_TEXTS = (Over.MESSAGES, Over.ASSISTANT_MESSAGES)
_ANSWER_SIGNALS = (MeasuredOn.MESSAGES, MeasuredOn.ASSISTANT_MESSAGES)


def rules_of_answers(policy: Policy, versions: Versions) -> list[Rule]:
    """The rules that an answer can break: those over messages and over conversations that stand."""
    chosen = [rule for rule in policy.rules if rule.over in (*_OF_TEXTS, Over.CONVERSATION)]
    return [rule for rule in chosen if not rule.if_chosen or rule.signal.partition(".")[0] in versions]


def signals_of_answers(policy: Policy, versions: Versions) -> list[str]:
    """The signals that these rules read of a text."""
    read = dict.fromkeys(rule.signal.partition(".")[0] for rule in rules_of_answers(policy, versions))
    return [name for name in read if name in SIGNAL_ENTRIES and SIGNAL_ENTRIES[name].on in _ANSWER_SIGNALS]


def screened(store: Store, policy: Policy, versions: Versions, texts: pl.DataFrame) -> list[ScreenedText]:
    """Reasons and redacted text of each answer and verdict, as far as they are measured.

    `texts`: item_id, question_id, model and text of each.
    """
    items, rules = _conversations(store, texts), rules_of_answers(policy, versions)

    def signal(name: str) -> pl.DataFrame:
        return signal_values(store, name, versions.get(name, ""))

    def facts(name: str, expressions: Mapping[str, pl.Expr]) -> pl.DataFrame:
        return signal_facts(store, name, versions.get(name, ""), expressions)

    stated = {Over.CONVERSATION: conversation_columns(items, policy)}
    hits = fired(rules, _parts(items, items["text"]), facts, stated)
    redacted_texts = _redacted(items, policy, signal)
    redact = [rule for rule in rules if rule.action is Action.REDACT]
    remaining_hits = fired(redact, _parts(items, redacted_texts), facts, {}).with_columns(
        action=pl.lit(Action.DROP.value)
    )
    stopped = set(hits.filter(pl.col("action").is_in(STOPS))["item_id"])
    why = reasons_of(pl.concat([hits, remaining_hits]), items["conversation_id"])["reasons"]
    rows = zip(items["conversation_id"], items["asked"], why.to_list(), redacted_texts, strict=True)
    return [
        ScreenedText(
            item_id=item_id,
            question_id=question_id,
            reasons=reasons,
            text="" if item_id in stopped else text,
            policy_hash=policy_hash(policy),
        )
        for item_id, question_id, reasons, text in rows
    ]


def _conversations(store: Store, texts: pl.DataFrame) -> pl.DataFrame:
    """The prompt's conversation for each text, with the text as its answer; `asked` is its own id, `text` the text.

    Prompts have their original form, so that what was redacted in them is taken out of answers, too.
    """
    kept = kept_conversations(store).select(asked="conversation_id")
    named = store.read("conversations").rename({"conversation_id": "asked"}).drop("model")
    items = texts.rename({"question_id": "asked", "item_id": "conversation_id"})
    items = items.join(kept, on="asked", how="semi").join(named, on="asked", maintain_order="left")
    turns = [
        [turn for turn in logged_turns if turn["role"] == "user"]
        + [{"role": "assistant", "content": t, "text_id": text_id(t), "images": []}]
        for logged_turns, t in items.select("turns", "text").iter_rows()
    ]
    turns_column = pl.Series("turns", turns, dtype=items.schema["turns"])
    return items.with_columns(turns_column, preset_dataset=pl.lit(None, pl.String))


def _parts(items: pl.DataFrame, texts: pl.Series) -> dict[Over, pl.DataFrame]:
    """The texts as the parts that rules over messages read."""
    ids = pl.Series([text_id(text) for text in texts], dtype=pl.String)
    return dict.fromkeys(_OF_TEXTS, items.select(item_id="conversation_id", content_id=number_of(pl.lit(ids))))


def _redacted(items: pl.DataFrame, policy: Policy, signal: Signals) -> pl.Series:
    """The texts with placeholders for what redact rules find in them, and for what they find in prompt and images."""
    if not redact_rules(policy):
        return items["text"]
    policy_findings, texts = findings(policy, signal), list[str]()
    for turns, image_ids in items.select("turns", "image_ids").iter_rows():
        values = {
            value: kind for name in image_ids for value, kind in policy_findings.image_values.get(name, {}).items()
        }
        redacted_turns, _ = redact_texts(turns, policy_findings, values, exercise_names_in(turns, policy_findings))
        texts.append(redacted_turns[-1][0])
    return pl.Series(texts, dtype=pl.String)
