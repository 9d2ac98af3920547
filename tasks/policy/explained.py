"""An account of `storage/queries/explain.py` in at most five lines: decision, rules, values, thresholds and where."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from schemas.items.decision import ItemKind
from schemas.policy import Over, Policy, Rule
from tasks.policy.rules import battle_columns, conversation_columns, fires
from tasks.runtime.untrusted import one_line
from tasks.storage.content_id import text_id
from tasks.storage.queries.explain import Account, explain_item
from tasks.storage.queries.released import decided_policy
from tasks.storage.queries.signals import table_name
from tasks.storage.records import REPEATS, comparison, reason_texts
from tasks.storage.tables import Store

_DETAILS = 4
"""Lines below the first."""
_SIDES = ("conversation_a", "conversation_b")


def explained(store: Store, account: Account) -> list[str]:
    """One to five lines for people, without control characters; the account itself has everything else."""
    policy = decided_policy(store) or Policy(name="none", rules=[])
    kind = next(iter(account))
    head, *details = {
        "conversation": _conversation,
        "battle": _battle,
        "image": _image,
        "line": _line,
        "user": _user,
        "quarantined": _quarantined,
        "logged_image": _logged_image,
    }[kind](store, account, policy)
    rest = details[_DETAILS - 1 :]
    shown = details[: _DETAILS - 1] + (["; ".join(rest)] if rest else [])
    return [one_line(head, 400), *(f"  {one_line(detail, 400)}" for detail in shown)]


def _outcome(decision: Account | None) -> str:
    if decision is None:
        return "not decided yet; `curate decide` decides it"
    outcome = "kept" if decision["keep"] else "held until a review" if decision["held"] else "dropped"
    return f"{outcome} by policy {decision['policy']}"


def _conversation(store: Store, account: Account, policy: Policy) -> Iterator[str]:
    item, decision = account["conversation"], account["decision"]
    yield f"conversation {item} ({account['released_as']}, {account['source']}): {_outcome(decision)}"
    if decision:
        yield from _reasons(store, item, decision, policy, account["twin"])
        if decision["redactions"]:
            removed = (f"{r['count']} {r['type']} in {_place(r['part'], r['place'])}" for r in decision["redactions"])
            yield f"redacted: {', '.join(removed)}"
    if battle := account["battle"]:
        head, *why = _battle(store, battle, policy)
        yield f"its {head}"
        yield from (each for each in why if not each.startswith(f"{item}: "))  # this side's own are listed already
    if decision and decision["tags"]:
        yield f"tags: {', '.join(decision['tags'])}"


def _battle(store: Store, account: Account, policy: Policy) -> Iterator[str]:
    vote, decision = account["vote"], account["decision"]
    said = f"{vote['model_a']} against {vote['model_b']}, winner {vote['winner']}, {vote['source']}:{vote['line']}"
    yield f"battle {account['battle']} ({said}): {_outcome(decision)}"
    reasons = list(decision["reasons"]) if decision else []
    for side in _SIDES:
        theirs = account["sides"][side]
        for reason in [each for each in reasons if theirs and each in theirs["reasons"]]:
            reasons.remove(reason)
            yield f"{vote[side]}: {_reason(store, vote[side], reason, policy)}"
    frame = battle_columns(store.read("battles").filter(battle_id=account["battle"]))
    for reason in reasons:
        rules = [rule for rule in policy.rules if rule.reason == reason and rule.over is Over.BATTLE]
        held = [_said(rule, "the battle", frame[rule.signal.partition(".")[2]].to_list()[0]) for rule in rules]
        yield f"{reason}: {'; '.join(held) or reason_texts(policy).get(reason, 'a rule of an earlier policy')}"
    if decision and (withheld := decision["vote_reason_withheld"]) is not None:
        released = "released with the battle" if decision["keep"] else "not released, as the battle is not"
        outcome = f"withheld by {', '.join(withheld)}" if withheld else released
        yield f"what the voter wrote: {outcome}"


def _image(store: Store, account: Account, policy: Policy) -> Iterator[str]:
    row, shown = account["image"], account["conversations"]
    kept = store.read("decisions", ["item_kind", "item_id", "keep"]).filter(
        "keep", pl.col("item_id").is_in(shown), item_kind=ItemKind.CONVERSATION.value
    )
    size = f"{row['format']}, {row['width']} x {row['height']}"
    yield f"image {row['image_id']} ({size}): shown by {len(shown):,} conversations, {kept.height:,} of them kept"
    for rule in policy.rules:
        values = account["signals"].get(rule.signal.partition(".")[0])
        if rule.over is Over.IMAGES and values:
            value = values.get(rule.signal.partition(".")[2])
            if _fires(rule, value):
                yield f"{rule.reason}: {_said(rule, 'the image', value)}"
    if shown:
        yield f"conversations: {_some(shown)}"
    near = sorted(account["near_duplicates"], key=lambda pair: int(pair["pdq_distance"]))
    if near:
        others = [pair["image_b" if pair["image_a"] == row["image_id"] else "image_a"] for pair in near]
        yield f"near-duplicates, {near[0]['pdq_distance']} or more of 256 bits away: {_some(others)}"


def _line(store: Store, account: Account, policy: Policy) -> Iterator[str]:
    line, found = account["line"], account["conversations"]
    yield f"line {line['source']}:{line['line']}: {line['outcome']}"
    if line["reason"] and not found:
        found_in_it = f"; found: {row['evidence']}" if (row := account["rejected"]) and row["evidence"] else ""
        meaning = (reason_texts(policy) | REPEATS).get(line["reason"], "a rule of an earlier policy")
        yield f"{line['reason']}: {meaning}{found_in_it}"
    if successors := account["now"]:
        yield f"its conversation is now at {_some(successors)}"
    for item in found:
        yield from _conversation(store, explain_item(store, item) or {}, policy)


def _user(store: Store, account: Account, policy: Policy) -> Iterator[str]:
    mine = account["conversations"]
    yield f"user {account['user']}: {len(mine):,} conversations, {len(account['battles']):,} votes"
    if mine:
        yield f"conversations: {_some(mine)}"


def _quarantined(store: Store, account: Account, policy: Policy) -> Iterator[str]:
    row = account["quarantined"]
    kind = "image" if row["kind"] == "image" else row["kind"]
    yield f"{kind} {row['key']}: quarantined, never opened ({row['cause']})"


def _logged_image(store: Store, account: Account, policy: Policy) -> Iterator[str]:
    yield f"image name {account['logged_image']}: no image was read from it"
    for file in account["files"]:
        yield f"{file['problem']}: {reason_texts(policy).get(file['problem'], 'its file is no image')}"
    if account["lines"]:
        yield f"named by {_some(account['lines'])}"


def _reasons(store: Store, item: str, decision: Account, policy: Policy, twin: Account | None) -> Iterator[str]:
    for reason in decision["reasons"]:
        repeats = policy.duplicates is not None and reason == policy.duplicates.reason
        yield f"{reason}: {_repeat(decision, twin)}" if repeats else _reason(store, item, reason, policy)


def _repeat(decision: Account, twin: Account | None) -> str:
    if twin is None:
        return f"repeats {decision['duplicate_of']}, which is not in the store"
    relations = sorted({pair["relation"] for pair in twin["images"]})
    alike = f"images: {', '.join(relations)}" if relations else "without images"
    same = "equal prompts" if twin["same_prompt"] else f"prompts with cosine {twin['prompt_cosine']}"
    return f"repeats {twin['conversation']} ({twin['source']}): {alike}; {same}"


def _reason(store: Store, item: str, reason: str, policy: Policy) -> str:
    """The reason, with every part on which one of its rules fires."""
    rules = [rule for rule in policy.rules if rule.reason == reason and rule.over is not Over.BATTLE]
    row = store.read("conversations").filter(conversation_id=item)
    found = [
        _said(rule, where, value)
        for rule in (rules if row.height else [])
        for where, value in _values(store, row, rule, policy)
        if _fires(rule, value)
    ]
    return f"{reason}: {'; '.join(found) or reason_texts(policy).get(reason, 'a rule of an earlier policy')}"


def _said(rule: Rule, where: str, value: Any) -> str:
    if isinstance(value, list) and rule.contains_any:
        value = [each for each in value if each in rule.contains_any]
    shown = round(value, 4) if isinstance(value, float) else value
    told = ", ".join(map(str, shown)) if isinstance(shown, list) else str(shown).lower()
    threshold = "" if rule.at_least is None and rule.at_most is None else f"; threshold {comparison(rule)}"
    return f"{rule.signal} of {where} is {told}{threshold}"


def _fires(rule: Rule, value: Any) -> bool:
    return (
        value is not None
        and value != []
        and bool(pl.DataFrame({"value": [value]}).select(fires(rule, pl.col("value"))).item())
    )


def _values(store: Store, row: pl.DataFrame, rule: Rule, policy: Policy) -> Iterator[tuple[str, Any]]:
    """(part, latest value) of what a rule looks at in one conversation."""
    signal, _, column = rule.signal.partition(".")
    if rule.over is Over.CONVERSATION:
        presets = store.read("decisions").filter(item_kind="conversation", item_id=row["conversation_id"][0])
        stated = conversation_columns(row.with_columns(preset_dataset=presets["preset_dataset"]), policy)
        yield "the conversation", stated[column].to_list()[0]
        return
    parts = list(_parts(store, row.row(0, named=True), rule.over))
    values = _latest(store, signal, column, [content_id for _, content_id in parts])
    yield from ((where, values.get(content_id)) for where, content_id in parts)


def _parts(store: Store, row: Mapping[str, Any], over: Over) -> Iterator[tuple[str, str]]:
    """(name, content id) of every part that rules `over` look at; numbers start at 1."""
    if over is Over.PROMPT:
        yield "the prompt", row["prompt_id"]
    elif over is Over.DOCUMENT:
        yield "the prompt with its images", row["document_id"]
    elif over in (Over.IMAGES, Over.IMAGE_TEXTS):
        read = _latest(store, "image_text", "text", row["image_ids"]) if over is Over.IMAGE_TEXTS else {}
        for place, image_id in enumerate(row["image_ids"]):
            if over is Over.IMAGES:
                yield _place("image", place), image_id
            elif text := read.get(image_id):
                yield f"the text in {_place('image', place)}", text_id(text)
    else:
        role = {Over.USER_MESSAGES: "user", Over.ASSISTANT_MESSAGES: "assistant"}.get(over)
        for place, turn in enumerate(row["turns"]):
            if role in (None, turn["role"]):
                yield _place("message", place), turn["text_id"]


def _latest(store: Store, signal: str, column: str, content_ids: Sequence[str]) -> dict[str, Any]:
    rows = store.read(table_name(signal)).filter(pl.col("content_id").is_in(content_ids))
    return dict(rows.select("content_id", column).iter_rows())


def _place(part: str, place: int) -> str:
    return f"{part} {place + 1}"


def _some(items: Sequence[str]) -> str:
    return ", ".join(items[:3]) + (f" and {len(items) - 3:,} more" if len(items) > 3 else "")
