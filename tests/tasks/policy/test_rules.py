"""Rules over facts, against a plain reading of what they say; what they are about, as it is asked of the tables."""

import random
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.items.conversation import Conversation, RedactedConversation, ServedAnswer
from schemas.items.image import ImageFile, NearImage, Preset
from schemas.policy import Over, Rule
from tasks.dedup.repeats import preset_datasets
from tasks.policy.rules import (
    FIRED,
    Step,
    fired,
    logged_parts,
    parts_as_redacted,
    reasons_of,
    reviewed_contents,
    thought_parts,
)
from tasks.storage.content_id import combined_id, id_of, text_id
from tasks.storage.tables import Store, frame_of
from tests.builders import conversation, store_with

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
    "word": st.fixed_dictionaries({"equals": WORDS})
    | st.fixed_dictionaries({"other_than": st.lists(WORDS, min_size=1, max_size=2)}),
    "words": st.fixed_dictionaries({"contains_any": st.lists(WORDS, max_size=2)})
    | st.fixed_dictionaries({"other_than": st.lists(WORDS, min_size=1, max_size=2)}),
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
    if rule.other_than is not None:
        return bool({*([value] if isinstance(value, str) else value)} - {*rule.other_than})
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

    def facts(signal: str, asked: dict[str, pl.Expr]) -> pl.DataFrame:
        columns = {"content_id": pl.String, "value_column": SIGNALS[signal]}
        return pl.DataFrame(list(known[signal].items()), schema=columns, orient="row").select("content_id", **asked)

    decided = reasons_of(fired(rules, parts, facts, {}), pl.Series("item_id", list(items), dtype=pl.String))
    assert {item: tuple(verdict) for item, *verdict in decided.iter_rows()} == _read_plainly(rules, items, known)
    assert decided["item_id"].to_list() == list(items)


def test_reasons_are_listed_by_their_rule_within_the_step_that_found_them():
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


IMAGES = {"conv_id": pl.String, "images": pl.List(pl.String)}
SHOWN, STORED, COPY, UPLOAD = "a" * 32, "b" * 32, "c" * 32, "d" * 32
PRESETS = [
    Preset(path="llava/1.png", dataset="LLaVA-Bench", logged_name="1" * 32, image_id=SHOWN),
    Preset(path="lost/2.png", dataset="Lost", logged_name="2" * 32, image_id=None),
]


@pytest.fixture
def store(tmp_path) -> Store:
    return store_with(tmp_path, presets=PRESETS)


def _datasets(
    store: Store, conversations: list[Conversation], logged: dict[str, list[str]], near: tuple = ()
) -> list[str | None]:
    """`logged` gives the image names that the log shows under a conv_id."""
    sightings = pl.DataFrame({"conv_id": [*logged], "images": [*logged.values()]}, schema_overrides=IMAGES)
    store.replace("sightings", pl.concat([store.empty("sightings"), sightings], how="diagonal"))
    pairs = [NearImage(image_a=a, image_b=b, phash_distance=1, pdq_distance=1, grey_correlation=0.9) for a, b in near]
    store.replace("near_images", frame_of(NearImage, pairs))
    found = preset_datasets(store, frame_of(Conversation, conversations))
    assert found.name == "preset_dataset"
    return found.to_list()


def test_a_preset_is_known_by_its_pixels(store):
    assert _datasets(store, [conversation("c", image_ids=[SHOWN])], {}) == ["LLaVA-Bench"]


def test_only_the_first_image_makes_a_conversation_one_about_a_preset(store):
    chats = [conversation("p", image_ids=[SHOWN, UPLOAD]), conversation("u", image_ids=[UPLOAD, SHOWN])]
    assert _datasets(store, chats, {"p": ["1" * 32, "3" * 32], "u": ["3" * 32, "1" * 32]}) == ["LLaVA-Bench", None]


@pytest.mark.parametrize("pair", [(SHOWN, COPY), (COPY, SHOWN)])
def test_a_preset_is_known_by_a_copy_that_looks_the_same(store, pair):
    assert _datasets(store, [conversation("c", image_ids=[COPY])], {}, (pair,)) == ["LLaVA-Bench"]


def test_a_preset_that_looks_like_one_of_another_dataset_is_of_its_own(tmp_path):
    other = Preset(path="other/3.png", dataset="Other", logged_name="3" * 32, image_id=COPY)
    store = store_with(tmp_path, presets=[*PRESETS, other])
    chats = [conversation("a", image_ids=[SHOWN]), conversation("b", image_ids=[COPY])]
    assert _datasets(store, chats, {}, ((SHOWN, COPY),)) == ["LLaVA-Bench", "Other"]


@pytest.mark.parametrize(("name", "dataset"), [("1" * 32, "LLaVA-Bench"), ("2" * 32, "Lost"), ("3" * 32, None)])
def test_a_preset_whose_image_is_lost_is_known_by_the_name_the_server_logs(store, name, dataset):
    assert _datasets(store, [conversation("c", image_ids=[])], {"c": [name]}) == [dataset]


@pytest.mark.parametrize("seed", range(12))
def test_conversations_without_an_image_have_the_dataset_of_the_first_logged_name(store, seed):
    chance = random.Random(seed)
    names = ["1" * 32, "2" * 32, "3" * 32]
    logged = {f"c{number}": chance.sample(names, chance.randrange(4)) for number in range(20)}
    chats = [conversation(f"c{number}", image_ids=[]) for number in range(25)]
    of_name = {preset.logged_name: preset.dataset for preset in PRESETS}
    right = [of_name.get(next(iter(logged.get(chat.conversation_id, [])), None)) for chat in chats]
    assert _datasets(store, chats, logged) == right


def test_a_preset_is_known_by_the_file_the_server_made_of_it(deciding):
    hashes = {"md5": "4" * 32, "sha1": "5" * 40, "sha256": "6" * 64}
    name = f"{'1' * 32}.png"
    served = ImageFile(name=name, size_bytes=1, modified_ns=1, image_id=STORED, problem=None, evidence="", **hashes)
    chats = [conversation("c", image_ids=[STORED]), conversation("u", image_ids=[UPLOAD])]
    decided = deciding.given(chats, presets=PRESETS, image_files=[served]).decide()
    assert {name: row["preset_dataset"] for name, row in decided.items()} == {"c": "LLaVA-Bench", "u": None}


def test_an_upload_is_no_preset_because_a_later_conversation_of_the_session_uses_one(store):
    """A new image under one conv_id starts another conversation; the first keeps the bare id."""
    chats = [conversation("c", image_ids=[UPLOAD]), conversation("c-0a1b2c3d", image_ids=[SHOWN])]
    assert _datasets(store, chats, {"c": ["1" * 32]}) == [None, "LLaVA-Bench"]


def _drawn(chance: random.Random) -> list[Conversation]:
    """Conversations with several messages, images and thoughts, of which some are equal; also some without."""
    words = ["", "yes", "no", "é", "'; --"]
    chats = []
    for number in range(chance.randint(1, 12)):
        texts = chance.choices(words, k=chance.randint(1, 5))
        images = [text_id(word) for word in chance.choices(words, k=chance.randrange(3))]
        numbers = dict.fromkeys(("first_token_seconds", "first_word_seconds", "input_tokens", "output_tokens"))
        thoughts = chance.choices([None, "so", "hm"], k=chance.randrange(3))
        served = [
            ServedAnswer(turn=1, thinking=thought, thinking_id=None if thought is None else text_id(thought), **numbers)
            for thought in thoughts
        ]
        chats.append(conversation(f"c{number}", *texts, image_ids=images, served=chance.choice([served, None])))
    return chats


def _right_parts(chats: list[Conversation]) -> dict[str, list[tuple[str, str]]]:
    """Kind of part -> (conversation, content id) of every part, sorted."""
    of_kind: dict[str, list[tuple[str, str]]] = {over: [] for over in Over if over not in ("conversation", "battle")}
    del of_kind["image_texts"]
    for chat in chats:
        own = chat.conversation_id
        for turn in chat.turns:
            of_kind["messages"].append((own, turn.text_id))
            of_kind[f"{turn.role.value}_messages"].append((own, turn.text_id))
        of_kind["images"] += [(own, image_id) for image_id in chat.image_ids]
        of_kind["prompt"].append((own, chat.prompt_id))
        of_kind["document"].append((own, chat.document_id))
    return {kind: sorted(parts) for kind, parts in of_kind.items()}


def _found(parts: pl.DataFrame) -> list[tuple[str, str]]:
    return sorted((item, id_of(number)) for item, number in parts.select("item_id", "content_id").iter_rows())


@pytest.mark.parametrize("seed", range(12))
def test_the_parts_of_conversations_are_those_of_their_rows(tmp_path, seed):
    chats = _drawn(random.Random(seed))
    store = store_with(tmp_path, conversations=chats)
    assert {kind: _found(parts) for kind, parts in logged_parts(store).items()} == _right_parts(chats)


@pytest.mark.parametrize("seed", range(12))
def test_the_thoughts_of_conversations_are_those_of_their_rows(tmp_path, seed):
    chats = _drawn(random.Random(seed))
    store = store_with(tmp_path, conversations=chats)
    thoughts = [(chat.conversation_id, each.thinking_id) for chat in chats for each in chat.served or ()]
    assert _found(thought_parts(store)) == sorted(thought for thought in thoughts if thought[1] is not None)


@pytest.mark.parametrize("seed", range(12))
def test_redacted_parts_are_those_of_the_forms_that_this_policy_made(tmp_path, seed):
    forms = dict[str, list[RedactedConversation]]()
    for number, policy in enumerate(("ours", "theirs")):
        chats = _drawn(random.Random(2 * seed + number))
        changes = {"redactions": [], "left_names": [], "policy_hash": policy}
        forms[policy] = [RedactedConversation(**chat.model_dump() | changes) for chat in chats]
    store = store_with(tmp_path, redacted_conversations=[form for of_policy in forms.values() for form in of_policy])
    for policy, of_policy in forms.items():
        parts = parts_as_redacted(store, policy)
        assert {kind: _found(some) for kind, some in parts.items()} == _right_parts(of_policy)


def test_a_policy_that_made_no_form_has_no_redacted_parts(tmp_path):
    (chat, *_) = _drawn(random.Random(0))
    form = RedactedConversation(**chat.model_dump(), redactions=[], left_names=[], policy_hash="ours")
    store = store_with(tmp_path, redacted_conversations=[form])
    assert all(parts.is_empty() for parts in parts_as_redacted(store, "nobody").values())


@pytest.mark.parametrize("seed", range(12))
def test_what_was_reviewed_is_all_messages_and_images_of_the_wanted_conversations(tmp_path, seed):
    chance = random.Random(seed)
    chats = _drawn(chance)
    wanted = chance.sample(chats, chance.randint(0, len(chats)))
    right = {
        chat.conversation_id: combined_id("reviewed", [*(turn.text_id for turn in chat.turns), *chat.image_ids])
        for chat in wanted
    }
    store = store_with(tmp_path, conversations=chats)
    assert reviewed_contents(store, [*right, "gone"]) == right
