"""An account of `storage/queries/explain.py` in at most five lines: decision, rules, values, thresholds and where."""

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from schemas.policy import Over, Rule
from tasks.policy.rules import battle_columns, conversation_columns, fires
from tasks.runtime.untrusted import one_line
from tasks.storage.content_id import text_id
from tasks.storage.queries.explain import Account, conversation_account
from tasks.storage.queries.stored_items import StoredItems, StoredRow
from tasks.storage.records import comparison, reason_texts

_DETAILS = 4
"""Lines below the first."""
_SIDES = ("conversation_a", "conversation_b")
_KEPT_OF = """
    -- the number of the conversations showing an image that are kept
    SELECT count(*) FROM decisions SEMI JOIN showing USING (item_id) WHERE item_kind = 'conversation' AND keep
"""


def explained(items: StoredItems, account: Account) -> list[str]:
    """One to five lines for people, without control characters; the account itself has everything else.

    `items` has the conversation or battle of the account.
    """
    kind = next(iter(account))
    head, *details = {
        "conversation": _conversation,
        "battle": _battle,
        "image": _image,
        "line": _line,
        "user": _user,
        "quarantined": _quarantined,
        "logged_image": _logged_image,
    }[kind](items, account)
    overflow = details[_DETAILS - 1 :]
    detail_lines = details[: _DETAILS - 1] + (["; ".join(overflow)] if overflow else [])
    return [one_line(head, 400), *(f"  {one_line(detail, 400)}" for detail in detail_lines)]


def _outcome(decision: Account | None) -> str:
    if decision is None:
        return "not decided yet; `curate decide` decides it"
    outcome = "kept" if decision["keep"] else "held until a review" if decision["held"] else "dropped"
    return f"{outcome} by policy {decision['policy']}"


def _conversation(items: StoredItems, account: Account) -> Iterator[str]:
    item, decision = account["conversation"], account["decision"]
    yield f"conversation {item} ({account['released_as']}, {account['source']}): {_outcome(decision)}"
    if decision:
        yield from _reasons(items, item, decision, account["twin"])
        if decision["redactions"]:
            removed = (f"{r['count']} {r['type']} in {_place(r['part'], r['place'])}" for r in decision["redactions"])
            yield f"redacted: {', '.join(removed)}"
    if battle := account["battle"]:
        head, *why = _battle(items, battle)
        yield f"its {head}"
        yield from (line for line in why if not line.startswith(f"{item}: "))  # this side's own are listed already
    if account["known_benchmarks"]:
        yield f"known benchmarks: {'; '.join(map(_held, account['known_benchmarks']))}"
    if decision and decision["tags"]:
        yield f"tags: {', '.join(decision['tags'])}"


def _held(match: Account) -> str:
    """A sentence on what is held of one benchmark. Its question is named by its share alone: it may be long."""
    shows = f"shows its picture {match['picture']} ({match['shown_as']})" if match["picture"] else ""
    asks = f"asks its question (overlap {match['overlap']:.2f})" if match["question"] else ""
    return f"{match['benchmark']}: {' and '.join(filter(None, (shows, asks)))}"


def _battle(items: StoredItems, account: Account) -> Iterator[str]:
    vote, decision = account["vote"], account["decision"]
    vote_in_words = (
        f"{vote['model_a']} against {vote['model_b']}, winner {vote['winner']}, {vote['source']}:{vote['line']}"
    )
    yield f"battle {account['battle']} ({vote_in_words}): {_outcome(decision)}"
    reasons = list(decision["reasons"]) if decision else []
    for side in _SIDES:
        theirs = account["sides"][side]
        for reason in [side_reason for side_reason in reasons if theirs and side_reason in theirs["reasons"]]:
            reasons.remove(reason)
            yield f"{vote[side]}: {_reason(items, vote[side], reason)}"
    frame = battle_columns(pl.DataFrame([vote], schema=items.store.empty("battles", [*vote]).schema))
    for reason in reasons:
        rules = [rule for rule in items.policy.rules if rule.reason == reason and rule.over is Over.BATTLE]
        sentences = [_said(rule, "the battle", frame[rule.signal.partition(".")[2]].to_list()[0]) for rule in rules]
        yield f"{reason}: {'; '.join(sentences) or _meaning(items, reason)}"
    if decision and (withheld := decision["vote_reason_withheld"]) is not None:
        released = "released with the battle" if decision["keep"] else "not released, as the battle is not"
        outcome = f"withheld by {', '.join(withheld)}" if withheld else released
        yield f"what the voter wrote: {outcome}"


def _image(items: StoredItems, account: Account) -> Iterator[str]:
    row, conversation_ids = account["image"], account["conversations"]
    showing = pl.DataFrame({"item_id": conversation_ids}, {"item_id": pl.String})
    kept = items.store.ask(_KEPT_OF, showing=showing).item()
    size = f"{row['format']}, {row['width']} x {row['height']}"
    yield f"image {row['image_id']} ({size}): shown by {len(conversation_ids):,} conversations, {kept:,} of them kept"
    for rule in items.policy.rules:
        values = account["signals"].get(rule.signal.partition(".")[0])
        if rule.over is Over.IMAGES and values:
            value = values.get(rule.signal.partition(".")[2])
            if _fires(rule, value):
                yield f"{rule.reason}: {_said(rule, 'the image', value)}"
    if conversation_ids:
        yield f"conversations: {_some(conversation_ids)}"
    near = sorted(account["near_duplicates"], key=lambda pair: int(pair["pdq_distance"]))
    if near:
        others = [pair["image_b" if pair["image_a"] == row["image_id"] else "image_a"] for pair in near]
        yield f"near-duplicates, {near[0]['pdq_distance']} or more of 256 bits away: {_some(others)}"


def _line(items: StoredItems, account: Account) -> Iterator[str]:
    line, conversation_ids = account["line"], account["conversations"]
    yield f"line {line['source']}:{line['line']}: {line['outcome']}"
    if line["reason"] and not conversation_ids:
        found_in_it = f"; found: {row['evidence']}" if (row := account["rejected"]) and row["evidence"] else ""
        yield f"{line['reason']}: {_meaning(items, line['reason'])}{found_in_it}"
    if successors := account["now"]:
        yield f"its conversation is now at {_some(successors)}"
    of_line = StoredItems(items.store, conversation_ids)
    for item in conversation_ids:
        if conversation := conversation_account(of_line, item, ()):
            yield from _conversation(of_line, conversation)


def _user(items: StoredItems, account: Account) -> Iterator[str]:
    mine = account["conversations"]
    yield f"user {account['user']}: {len(mine):,} conversations, {len(account['battles']):,} votes"
    if mine:
        yield f"conversations: {_some(mine)}"


def _quarantined(items: StoredItems, account: Account) -> Iterator[str]:
    row = account["quarantined"]
    kind = "image" if row["kind"] == "image" else row["kind"]
    yield f"{kind} {row['key']}: quarantined, never opened ({row['cause']})"


def _logged_image(items: StoredItems, account: Account) -> Iterator[str]:
    yield f"image name {account['logged_image']}: no image was read from it"
    for file in account["files"]:
        yield f"{file['problem']}: {reason_texts(items.policy).get(file['problem'], 'its file is no image')}"
    if account["lines"]:
        yield f"named by {_some(account['lines'])}"


def _reasons(items: StoredItems, item: str, decision: Account, twin: Account | None) -> Iterator[str]:
    duplicates = items.policy.duplicates
    for reason in decision["reasons"]:
        repeats = duplicates is not None and reason == duplicates.reason
        yield f"{reason}: {_repeat(decision, twin)}" if repeats else _reason(items, item, reason)


def _repeat(decision: Account, twin: Account | None) -> str:
    if twin is None:
        return f"repeats {decision['duplicate_of']}, which is not in the store"
    relations = sorted({pair["relation"] for pair in twin["images"]})
    alike = f"images: {', '.join(relations)}" if relations else "without images"
    same = "equal prompts" if twin["same_prompt"] else f"prompts with cosine {twin['prompt_cosine']}"
    return f"repeats {twin['conversation']} ({twin['source']}): {alike}; {same}"


def _reason(items: StoredItems, item: str, reason: str) -> str:
    """The reason, with every part of the conversation on which one of its rules fires."""
    rules = [rule for rule in items.policy.rules if rule.reason == reason and rule.over is not Over.BATTLE]
    # A sentence is about one part on which one rule fires; none of a conversation that is not stored any more.
    sentences = [
        _said(rule, where, value)
        for rule in (rules if item in items.conversations else [])
        for where, value in _values(items, item, rule)
        if _fires(rule, value)
    ]
    return f"{reason}: {'; '.join(sentences) or _meaning(items, reason)}"


def _meaning(items: StoredItems, reason: str) -> str:
    return reason_texts(items.policy).get(reason, "a rule of an earlier policy")


def _said(rule: Rule, where: str, value: Any) -> str:
    if isinstance(value, list) and rule.contains_any:
        value = [member for member in value if member in rule.contains_any]
    rounded = round(value, 4) if isinstance(value, float) else value
    value_in_words = ", ".join(map(str, rounded)) if isinstance(rounded, list) else str(rounded).lower()
    threshold = "" if rule.at_least is None and rule.at_most is None else f"; threshold {comparison(rule)}"
    return f"{rule.signal} of {where} is {value_in_words}{threshold}"


def _fires(rule: Rule, value: Any) -> bool:
    return (
        value is not None
        and value != []
        and bool(pl.DataFrame({"value": [value]}).select(fires(rule, pl.col("value"))).item())
    )


def _values(items: StoredItems, item: str, rule: Rule) -> Iterator[tuple[str, Any]]:
    """(part, latest value) of what a rule looks at in one conversation."""
    signal, _, column = rule.signal.partition(".")
    if rule.over is Over.CONVERSATION:
        row = items.whole_conversations.filter(conversation_id=item)
        preset = items.decisions["conversation", item]["preset_dataset"]
        stated = conversation_columns(row.with_columns(preset_dataset=pl.lit(preset, pl.String)), items.policy)
        yield "the conversation", stated[column].to_list()[0]
        return
    values = items.values(signal)
    for where, content_id in _parts(items, items.conversations[item], rule.over):
        yield where, values[content_id][column] if content_id in values else None


def _parts(items: StoredItems, row: StoredRow, over: Over) -> Iterator[tuple[str, str]]:
    """(name, content id) of every part that rules `over` look at; numbers start at 1."""
    if over is Over.PROMPT:
        yield "the prompt", row["prompt_id"]
    elif over is Over.DOCUMENT:
        yield "the prompt with its images", row["document_id"]
    elif over is Over.IMAGES:
        for place, image_id in enumerate(row["image_ids"]):
            yield _place("image", place), image_id
    elif over is Over.IMAGE_TEXTS:
        read = items.values("image_text")
        for place, image_id in enumerate(row["image_ids"]):
            if image_id in read and (text := read[image_id]["text"]):
                yield f"the text in {_place('image', place)}", text_id(text)
    else:
        role = {Over.USER_MESSAGES: "user", Over.ASSISTANT_MESSAGES: "assistant"}.get(over)
        for place, (author, content_id) in enumerate(zip(row["turns.role"], row["turns.text_id"], strict=True)):
            if role in (None, author):
                yield _place("message", place), content_id


def _place(part: str, place: int) -> str:
    return f"{part} {place + 1}"


def _some(items: Sequence[str]) -> str:
    return ", ".join(items[:3]) + (f" and {len(items) - 3:,} more" if len(items) > 3 else "")
