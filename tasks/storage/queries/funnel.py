"""The funnel: every input line is counted once as kept, dropped or rejected, with its first reason.

A chat line that holds the final state of a conversation has the fate of the conversation, a vote line that of its
battle. A line that a later line replaced (a conversation grew, an answer was regenerated, a vote was cast again) is
dropped as `superseded`; a share line repeats the content of votes and is dropped as `share_record`.
"""

from pathlib import Path

import polars as pl

from schemas.policy import Over, Policy, Rule
from schemas.reject import REJECT_TEXTS
from schemas.run import Funnel
from tasks.storage.database import TemporaryDatabase
from tasks.storage.tables import Store

SUPERSEDED, SHARE = "superseded", "share_record"
REPEATS = {
    SUPERSEDED: "a later line of the same conversation or vote replaced it",
    SHARE: "a shared link; it repeats conversations that other lines hold",
}
"""Reasons of dropped lines that repeat other lines -> what they mean."""
_FATES = Path(__file__).with_name("line_fates.sql")


def line_fates(store: Store) -> pl.DataFrame:
    """source, line, fate (kept, dropped, rejected) and reason (null when kept) of every line, once each."""
    return _fates(store).read("SELECT source, line, fate, reason FROM fates ORDER BY source, line")


def funnel(store: Store) -> Funnel:
    """Counts of `line_fates`, and the number of lines that wait only for a review.

    Raises AssertionError when the counts do not add up; nothing may be released then.
    """
    database = _fates(store)
    counts = database.read(
        "SELECT fate, reason, count(*) AS number FROM fates GROUP BY ALL ORDER BY number DESC, reason"
    )
    lines = database.read("SELECT count(DISTINCT (source, line)) FROM fates").item()
    held = database.read("SELECT count(*) FROM fates WHERE held").item()
    assert counts["number"].sum() == lines, "a line has two fates"
    totals = {fate: int(counts.filter(fate=fate)["number"].sum()) for fate in ("kept", "dropped", "rejected")}
    by_reason = {
        f"{fate}_by": dict(counts.filter(fate=fate).select("reason", "number").iter_rows())
        for fate in ("dropped", "rejected")
    }
    return Funnel(lines=lines, **totals, **by_reason, held=held)


def _fates(store: Store) -> TemporaryDatabase:
    """A database with the table `fates`."""
    database = TemporaryDatabase()
    database.load_table(store, "sightings", ["source", "line", "record_type"])
    database.load_table(store, "rejects", ["source", "line", "reason"])
    database.load_table(store, "conversations", ["conversation_id", "source", "line"])
    database.load_table(store, "battles", ["battle_id", "source", "line"])
    database.load_table(store, "decisions", ["item_id", "item_kind", "keep", "reasons", "held"])
    database.run(_FATES.read_text())
    return database


def reason_texts(policy: Policy) -> dict[str, str]:
    """Reason -> what it means, for the rules of a policy and for rejected lines."""
    texts: dict[str, str] = {}
    for each in policy.rules:
        texts[each.reason] = "; or ".join(filter(None, (texts.get(each.reason), rule_text(each))))
    texts |= {
        f"unmeasured_{rule.signal.partition('.')[0]}": "no measurement, which counts against it"
        for rule in policy.rules
    }
    if (rule := policy.duplicates) is not None:
        alike = (
            "the same user messages, images: "
            f"{rule.images} (one message on an image: cosine {rule.prompt_cosine_min} or more)"
        )
        texts[rule.reason] = f"{alike}; copies kept: {rule.copies_max}"
    if (limit := policy.hot_prompts) is not None:
        kept = limit.copies_max or f"quantile {limit.copies_quantile} of the battles that each prompt has"
        texts[limit.reason] = f"more battles of the same prompt, images: {limit.images}; kept: {kept}"
    return texts | REPEATS | REJECT_TEXTS


def comparison(rule: Rule) -> str:
    """The comparison of a rule in words, such as `0.5 or more`."""
    if rule.at_least is not None:
        return f"{rule.at_least} or more"
    if rule.at_most is not None:
        return f"{rule.at_most} or less"
    if rule.contains_any is not None:
        return f"holds {'any of ' + ', '.join(rule.contains_any) if rule.contains_any else 'anything'}"
    return f"is {str(rule.equals).lower()}"


def rule_text(rule: Rule) -> str:
    """The rule in words: `a face with confidence 0.5 or more in an image`."""
    where = _WHERE.get(rule.over, "")
    if rule.equals is not None and (words := _WORDS.get(f"{rule.signal} {str(rule.equals).lower()}")):
        return words
    words = _WORDS.get(rule.signal, "")
    if rule.contains_any is not None and words:
        return words.format(f" ({', '.join(rule.contains_any)})" if rule.contains_any else "") + where
    if rule.equals is None and words:
        return words.format(comparison(rule)) + where
    return f"{rule.signal} of the {rule.over.replace('_', ' ')}: {comparison(rule)}"


_WHERE = {
    Over.IMAGES: " in an image",
    Over.IMAGE_TEXTS: " in the text of an image",
    Over.MESSAGES: " in a message",
    Over.USER_MESSAGES: " in a message of the user",
    Over.ASSISTANT_MESSAGES: " in an answer",
    Over.PROMPT: " in the prompt",
}
_WORDS = {
    "nsfw.nsfw_probability": "nudity or sex with probability {}",
    "faces.confidence_max": "a face with confidence {}",
    "text_pii.types": "personal data{}",
    "moderation.flagged_categories": "a harmful text{}",
    "image_moderation.flagged_categories": "something harmful{}",
    "service_text.kinds": "a text of the service, not of a model{}",
    "model_names.names": "the name of a model or its maker{}",
    "conversation.image_problems": "an image that cannot be used{}",
    "conversation.feedback": "feedback of the user{}",
    "conversation.num_turns": "number of turns {}",
    "conversation.single_turn_prompt_characters": "a prompt of {} characters",
    "conversation.prompt_characters": "characters of the user {}",
    "conversation.shortest_message_characters": "a message of {} characters",
    "conversation.empty_message true": "an empty message",
    "conversation.null_message true": "a message that the log lacks",
    "conversation.ends_with_user true": "no answer to the last message",
    "conversation.model_excluded true": "a model that the policy excludes",
    "conversation.user_banned true": "a user that the policy bans",
    "conversation.has_image false": "no image",
    "conversation.has_image true": "an image",
    "conversation.undated true": "no time in the log",
    "conversation.is_preset true": "an example image of the arena",
    "battle.same_model true": "a model against itself",
    "battle.unequal_turns true": "sides with different numbers of turns",
    "battle.anonymous false": "model names that the voter saw",
    "battle.anonymous true": "model names that the voter did not see",
}
"""Signal column, with the compared value after it where that is one of two -> words; {} is the comparison or list."""
