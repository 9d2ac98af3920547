"""Rules over facts, against a plain reading of what they say."""

from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.policy import Over, Rule
from tasks.policy.rules import FIRED, Step, fired, reasons_of

SIGNALS = {"score": pl.Float32, "flag": pl.Boolean, "word": pl.String, "words": pl.List(pl.String)}
WORDS = st.sampled_from(["a", "b", "c"])
VALUES = {
    "score": st.sampled_from([0.0, 0.25, 0.5, 1.0]),
    "flag": st.booleans(),
    "word": WORDS,
    "words": st.lists(WORDS, max_size=2),
}
COMPARISONS = {
    "score": st.fixed_dictionaries({"at_least": VALUES["score"]}) | st.fixed_dictionaries({"at_most": VALUES["score"]}),
    "flag": st.fixed_dictionaries({"equals": VALUES["flag"]}),
    "word": st.fixed_dictionaries({"equals": WORDS}),
    "words": st.fixed_dictionaries({"contains_any": st.lists(WORDS, max_size=2)}),
}


@st.composite
def _rule(draw) -> Rule:
    signal = draw(st.sampled_from(sorted(SIGNALS)))
    return Rule(
        reason=draw(st.sampled_from(["first", "second", "third"])),
        signal=f"{signal}.value_column",
        over=draw(st.sampled_from([Over.IMAGES, Over.MESSAGES])),
        action=draw(st.sampled_from(["drop", "redact", "tag", "hold"])),
        on_missing=draw(st.sampled_from(["drop", "ignore"])),
        **draw(COMPARISONS[signal]),
    )


def _fires(rule: Rule, value: Any) -> bool:
    if rule.at_least is not None:
        return value >= rule.at_least
    if rule.at_most is not None:
        return value <= rule.at_most
    if rule.equals is not None:
        return value == rule.equals
    return bool(set(value) & set(rule.contains_any)) if rule.contains_any else bool(value)


def _read_plainly(rules: list[Rule], items: dict[str, dict[Over, list[str]]], known: dict) -> dict:
    """item -> (reasons, tags, held), read off the rules one by one."""
    result = {}
    for item, parts in items.items():
        reasons: dict[str, None] = {}
        tags: dict[str, None] = {}
        actions: set[str] = set()
        for rule in rules:
            signal = rule.signal.partition(".")[0]
            values = [known[signal].get(part) for part in parts[rule.over]]
            found = [(rule.reason, rule.action.value)] * any(v is not None and _fires(rule, v) for v in values)
            found += [(f"unmeasured_{signal}", "drop")] * (None in values and rule.on_missing.value == "drop")
            for reason, action in sorted(found):
                (reasons if action in ("drop", "hold") else tags)[reason] = None
                actions.add(action)
        result[item] = (list(reasons), list(tags), "hold" in actions and "drop" not in actions)
    return result


PARTS = st.lists(st.sampled_from(["p1", "p2", "p3"]), max_size=3)


@settings(max_examples=150)
@given(
    rules=st.lists(_rule(), min_size=1, max_size=4),
    items=st.dictionaries(
        st.sampled_from(["x", "y", "z"]), st.fixed_dictionaries({Over.IMAGES: PARTS, Over.MESSAGES: PARTS}), max_size=3
    ),
    known=st.fixed_dictionaries(
        {name: st.fixed_dictionaries({}, optional=dict.fromkeys(["p1", "p2", "p3"], v)) for name, v in VALUES.items()}
    ),
)
def test_rules_do_what_a_plain_reading_of_them_says(rules, items, known):
    strings = {"item_id": pl.String, "content_id": pl.String}
    parts = {
        over: pl.DataFrame([(i, p) for i in items for p in items[i][over]], schema=strings, orient="row")
        for over in (Over.IMAGES, Over.MESSAGES)
    }

    def facts(signal: str, _) -> list[pl.DataFrame]:
        columns = {"content_id": pl.String, "value_column": SIGNALS[signal]}
        return [pl.DataFrame([each], schema=columns, orient="row") for each in known[signal].items()]

    decided = reasons_of(fired(rules, parts, facts, {}), pl.Series("item_id", list(items), dtype=pl.String))
    assert {item: tuple(verdict) for item, *verdict in decided.iter_rows()} == _read_plainly(rules, items, known)
    assert decided["item_id"].to_list() == list(items)


def test_reasons_are_listed_by_the_step_that_found_them_and_then_by_their_rule():
    rows = [("1", step, place, f"{step.value}_{place}", "drop") for step in reversed(Step) for place in (1, 0)]
    hits = pl.DataFrame(rows, schema=FIRED, orient="row")
    assert reasons_of(hits, pl.Series(["1"]))["reasons"].to_list() == [
        [f"{step}_{place}" for step in ("screening", "redaction", "battle", "set", "description") for place in (0, 1)]
    ]


def _number_rule(**comparison) -> Rule:
    return Rule(reason="hit", signal="conversation.number", over="conversation", **comparison)


def test_a_fact_of_the_tables_that_is_unknown_counts_as_not_measured():
    stated = {Over.CONVERSATION: pl.DataFrame({"item_id": ["1", "2"], "number": [1, None]})}
    hits = fired([_number_rule(at_least=9)], {}, None, stated)
    assert hits.select("item_id", "reason", "action").rows() == [("2", "unmeasured_conversation", "drop")]
