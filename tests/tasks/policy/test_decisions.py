"""What deciding leaves in the store, and a reason that drops another share of what is new than it used to."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import DriftHeld
from schemas.policy import DriftBand, Policy, policy_hash
from schemas.run import DropCounts, StageReport
from schemas.settings import Settings
from tasks.policy.differences import drift_lines, drop_counts
from tasks.policy.policy_file import load_policy
from tasks.policy.steps import watch_drift
from tasks.signals.steps import conversations_to_describe
from tasks.storage.records import RunRecord, earlier_drops, reason_texts
from tasks.storage.tables import Store
from tests.builders import NOON, battle, conversation, decision, facts_frame, sides, store_with


def _some():
    both = sides("b", image_ids=["1" * 32])
    chats = [conversation(f"c{n}", "What is this?", f"{n}.", image_ids=[str(n % 3) * 32]) for n in range(9)]
    return [*both, *chats], [battle(*both)]


@pytest.fixture(scope="module")
def once_decided(new_deciding):
    """Some items, on which the public policy has decided. Do not write to it."""
    deciding = new_deciding().given(*_some())
    deciding.decide()
    return deciding


def test_how_many_rows_are_read_at_a_time_decides_nothing(deciding, monkeypatch):
    first, batches = deciding.given(*_some()).decide(), Store.batches
    monkeypatch.setattr(Store, "batches", lambda self, query, rows=2, **values: batches(self, query, 2, **values))
    assert deciding.decide() == first and any(row["duplicate_of"] for row in first.values())


def test_every_item_has_one_decision(once_decided):
    decided = once_decided.store.read("decisions").select("item_kind", "item_id").rows()
    expected = {("conversation", each.conversation_id) for each in _some()[0]} | {("battle", "b")}
    assert len(decided) == len(expected) and set(decided) == expected


def test_deciding_again_writes_no_new_part(deciding):
    deciding.given(*_some()).decide()
    first = {table: deciding.store.parts(table) for table in ("decisions", "near_images")}
    deciding.decide()
    assert {table: deciding.store.parts(table) for table in first} == first


def test_every_decision_names_its_policy(once_decided):
    policy = load_policy("public_release")
    decided = once_decided.store.read("decisions").select("policy", "policy_hash").rows()
    assert {*decided} == {(policy.name, policy_hash(policy))}


def test_the_policy_that_decided_is_kept(once_decided):
    policy = load_policy("public_release")
    stored = once_decided.store.read_bytes(f"policies/{policy_hash(policy)}.json")
    assert Policy.model_validate_json(stored) == policy


def test_another_policy_replaces_all_decisions(deciding):
    first = deciding.given(*_some()).decide()
    second = deciding.under("name: open\nrules: []\nduplicates: null").decide()
    assert first.keys() == second.keys()
    assert all(row["keep"] and row["policy"] == "open" for row in second.values())


ASKING = """
name: ours
extends: public_release
rules:
  - {reason: refusal, signal: refusal.refusal, over: assistant_messages, equals: true}
  - {reason: homework, signal: categories.homework, over: document, equals: true, action: tag}
  - {reason: foreign, signal: language.language, over: prompt, other_than: [en, de]}
"""
ALONE = """
name: ours
extends: public_release
rules:
  - {reason: code, signal: code.is_code, over: user_messages, equals: true, scope: battle}
"""


def _chats():
    return {name: conversation(name, f"What is {name}?", f"It is {name}.") for name in ("plain", "declined", "hidden")}


@pytest.fixture(scope="module")
def described(new_deciding):
    """Decisions on a chat with a tag, a refusal, and one in another language than asked for."""
    chats = _chats()
    facts = {
        "refusal": {chats["declined"].turns[1].text_id: {"refusal": True}},
        "categories": {chats["plain"].document_id: {"homework": True}},
        "language": {chats["hidden"].prompt_id: {"language": "fr"}},
    }
    return new_deciding().given(chats.values(), facts=facts).under(ASKING).decide()


def test_what_describes_an_item_drops_it(described):
    assert {name: row["reasons"] for name, row in described.items()} == {
        "plain": [], "declined": ["refusal"], "hidden": ["foreign"],
    }  # fmt: skip


def test_what_describes_an_item_tags_it(described):
    assert "homework" in described["plain"]["tags"]


def test_what_describes_an_item_is_no_matter_of_screening(described):
    assert {name for name, row in described.items() if row["kept_by_screening"]} == {"plain", "declined"}


@pytest.fixture
def undescribed(deciding):
    """A store in which one chat lacks what a rule asks for, under that policy."""
    chats = _chats()
    facts = {
        "refusal": {chats["plain"].turns[1].text_id: None},
        "language": {chats["hidden"].prompt_id: {"language": "fr"}},
    }
    return deciding.given(chats.values(), facts=facts).under(ASKING)


def test_what_is_not_described_yet_is_dropped(undescribed):
    decided = undescribed.decide()
    assert decided["plain"]["reasons"] == ["unmeasured_refusal"] and not decided["plain"]["keep"]


def test_what_is_dropped_until_it_is_described_stays_to_be_described(undescribed):
    undescribed.decide()
    to_describe = conversations_to_describe(undescribed.store, undescribed.store)
    assert set(to_describe["conversation_id"]) == {"plain", "declined"}


def test_what_is_described_at_last_is_kept(undescribed):
    undescribed.decide()
    undescribed.store.append("signals/refusal", facts_frame("refusal", {_chats()["plain"].turns[1].text_id: {}}))
    assert undescribed.decide()["plain"]["keep"]


@pytest.fixture
def refused_battle(deciding):
    """A battle whose right side refuses, and whose question is code."""
    left, right = sides("b")
    facts = {"refusal": {right.turns[1].text_id: {"refusal": True}}, "code": {left.turns[0].text_id: {"is_code": True}}}
    return deciding.given([left, right], [battle(left, right)], facts=facts)


def test_a_battle_goes_with_a_side_that_goes(refused_battle):
    assert refused_battle.under(ASKING).reasons() == {"b": [], "b-right": ["refusal"], "battle:b": ["refusal"]}


def test_a_battle_goes_alone_for_a_rule_about_battles(refused_battle):
    assert refused_battle.under(ALONE).reasons() == {"b": [], "b-right": [], "battle:b": ["code"]}


def test_a_redacted_text_is_judged_as_it_is_released(deciding):
    chat = conversation("c", "Mail ann@example.org, please.", "I cannot.")
    facts = {
        "text_pii": {chat.turns[0].text_id: {"types": ["email"], "spans": [_span(5, 20)]}},
        "refusal": {chat.turns[1].text_id: {"refusal": True}},
    }
    deciding.given([chat], facts=facts).under(ASKING.replace("public_release", "redact")).decide()
    (made,) = deciding.store.read("redacted_conversations").to_dicts()
    ids = [turn["text_id"] for turn in made["turns"]]
    for signal in ("text_pii", "service_text", "model_names", "moderation", "upstream_words", "refusal"):
        value = {"refusal": True} if signal == "refusal" else {}
        deciding.store.append(f"signals/{signal}", facts_frame(signal, dict.fromkeys(ids, value)))
    deciding.store.append("signals/categories", facts_frame("categories", {made["document_id"]: {}}))
    deciding.store.append("signals/language", facts_frame("language", {made["prompt_id"]: {}}))
    assert deciding.decide()["c"]["reasons"] == ["refusal"]


def test_a_near_prompt_names_no_conversation_that_the_second_pass_drops(deciding):
    asked = [f"Please explain in detail how a sailing boat can sail against the wind{end}" for end in (".", "!!", "?!")]
    chats = [conversation(name, text, f"Says {name}.") for name, text in zip("abc", asked, strict=True)]
    facts = {"refusal": {chats[0].turns[1].text_id: {"refusal": True}}}
    decided = deciding.given(chats, facts=facts).under(ASKING + "duplicates: null\n").decide()
    near = deciding.store.read("near_prompts").to_dicts()
    assert [(row["conversation_a"], row["conversation_b"]) for row in near] == [("c", "b")]
    assert [name for name, row in decided.items() if "near_prompt" in row["tags"]] == ["c"]


def _span(start, end):
    return {"type": "email", "start": start, "end": end, "confidence": 1.0}


OF_WEIGHTS = (
    "name: own\nextends: public_release\nopen_models: models.yaml\nrules:\n- {reason: moderation, models: KIND}\n"
)


@pytest.fixture(scope="module")
def by_weights(new_deciding):
    """Reasons under a rule of moderation about each kind of models; of three models, one has open weights."""
    deciding = new_deciding()
    (deciding.folder / "models.yaml").write_text(
        "models:\n- {name: vicuna-13b, base_url: http://gpu1/v1, open: true}\n- {name: closed, base_url: http://gpu2/v1}\n"
    )

    chats = [conversation(f"{name} {n}", f"Say {n}", "No.", model=name)
             for name in ("vicuna-13b", "closed", "unheard-of") for n in ("bad", "fine")]  # fmt: skip
    bad = {"flagged_categories": ["violence"]}
    facts = {"moderation": {chats[0].turns[0].text_id: bad, chats[1].turns[1].text_id: None}}
    deciding.given(chats, facts=facts)
    return {kind: deciding.under(OF_WEIGHTS.replace("KIND", kind)).reasons() for kind in ("proprietary", "open")}


@pytest.mark.parametrize(("kind", "models"), [("proprietary", {"closed", "unheard-of"}), ("open", {"vicuna-13b"})])
def test_moderation_may_drop_for_models_of_one_kind_of_weights_alone(by_weights, kind, models):
    assert {name.partition(" ")[0] for name, why in by_weights[kind].items() if "moderation" in why} == models


@pytest.mark.parametrize(("kind", "reasons"), [("proprietary", ["unmeasured_moderation"]), ("open", [])])
def test_a_missing_answer_of_moderation_drops_for_models_that_its_rule_is_about(by_weights, kind, reasons):
    assert by_weights[kind]["closed fine"] == reasons


def test_the_text_of_a_reason_says_which_models_it_is_about(deciding):
    (deciding.folder / "models.yaml").write_text("models:\n- {name: own, base_url: http://gpu1/v1, open: true}\n")
    policy = load_policy(deciding.under(OF_WEIGHTS.replace("KIND", "open")).policy)
    assert reason_texts(policy)["moderation"].endswith(", with open models alone")


BAND = DriftBand()


def nights(*each: tuple[int, int], reason: str = "face", policy: str = "p") -> list[DropCounts]:
    """What runs counted that added (new, dropped) conversations each."""
    totals, conversations, dropped = [], 0, 0
    for new, some in each:
        conversations, dropped = conversations + new, dropped + some
        totals.append(DropCounts(policy_hash=policy, conversations=conversations, by_reason={reason: dropped}))
    return totals


USUAL = [(500, 50), (400, 43), (450, 41), (600, 66), (500, 47)]


def lines(*each: tuple[int, int]) -> list[str]:
    *earlier, now = nights(*each)
    assert drift_lines(earlier, now, None) == [], "a policy without a band never holds"
    return drift_lines(earlier, now, BAND)


NO_DRIFT = {
    "a share like the earlier ones": [*USUAL, (500, 55)],
    "too few runs": [*USUAL[:4], (500, 500)],
    "the first run": [(500, 500)],
    "runs that differ much": [(500, 50), (500, 200), (500, 20), (500, 240), (500, 100), (500, 220)],
}


@pytest.mark.parametrize("runs", NO_DRIFT.values(), ids=NO_DRIFT)
def test_no_drift_is_seen_within_the_band_or_without_enough_runs_for_one(runs):
    assert lines(*runs) == []


def test_a_line_of_drift_says_the_share_beside_the_earlier_ones():
    (line,) = lines(*USUAL, (500, 200))
    assert line.startswith("face drops 40.0% of 500 new conversations, outside ")
    assert "(5 earlier runs: 10.1%)" in line


def test_a_share_far_below_the_earlier_ones_is_drift():
    assert lines(*USUAL, (500, 10))


RARE = [(1000, 30), (1000, 28), (1000, 33), (1000, 31), (1000, 29)]


def test_a_rare_reason_that_drops_nothing_any_more_is_drift():
    assert lines(*RARE, (1000, 0))


def test_a_rare_reason_that_drops_a_little_less_is_no_drift():
    assert lines(*RARE, (1000, 20)) == []


def test_too_few_new_conversations_are_no_drift():
    assert lines(*USUAL, (BAND.conversations_min - 1, 99)) == []


def test_as_many_new_conversations_as_the_band_asks_for_can_be_drift():
    assert lines(*USUAL, (BAND.conversations_min, 99))


def test_a_reason_that_no_earlier_run_had_can_be_drift():
    *_, last = earlier = nights(*USUAL)
    now = DropCounts(policy_hash="p", conversations=last.conversations + 500, by_reason={"unmeasured_nsfw": 500})
    assert any(line.startswith("unmeasured_nsfw drops 100.0%") for line in drift_lines(earlier, now, BAND))


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)).map(lambda t: (max(t), min(t))), max_size=9))
def test_the_same_input_again_is_never_drift(runs):
    totals = nights((1, 0), *runs)
    assert drift_lines(totals, totals[-1], BAND) == []


@given(st.lists(st.tuples(st.integers(1, 600), st.integers(0, 100)), min_size=6, max_size=12), st.randoms())
def test_after_conversations_were_taken_down_shares_are_those_of_new_ones(runs, random):
    """Each run brings new ones, of which a tenth go; between runs any number may be taken down again."""
    totals, conversations = [], 1000
    for new, taken_down in runs:
        totals.append(DropCounts(policy_hash="p", conversations=conversations, by_reason={"face": conversations // 10}))
        conversations = max(0, conversations - random.choice((0, taken_down))) + new
    now = DropCounts(policy_hash="p", conversations=conversations + 100, by_reason={"face": conversations // 10 + 10})
    assert drift_lines(totals, now, BAND) == []


def test_a_takedown_between_runs_hides_no_drift_after_it():
    totals = nights(*USUAL, (500, 50), (-7, -1), (500, 50))
    now = DropCounts(policy_hash="p", conversations=totals[-1].conversations + 500, by_reason={"face": 700})
    assert drift_lines(totals, now, BAND)


def _store(folder, faces: int, others: int):
    """A decided store: conversations dropped for a face, and kept ones, under the shipped policy."""
    policy = load_policy("public_release")
    items = [conversation(conversation_id=f"c{n}") for n in range(faces + others)]
    decisions = [decision(item, *(["face"] if n < faces else [])) for n, item in enumerate(items)]
    stamped = [each.model_copy(update={"policy_hash": policy_hash(policy)}) for each in decisions]
    store = store_with(folder, decisions=stamped)
    store.write_bytes(f"policies/{policy_hash(policy)}.json", policy.model_dump_json().encode())
    return store


def _record(store, drops: DropCounts, number: int) -> None:
    report = StageReport(stage="drift", drops=drops)
    RunRecord(store, Settings(store=store.root), NOON + timedelta(days=number)).add(report)


@pytest.fixture
def drifting(tmp_path) -> Settings:
    """Settings of a store in which far more faces drop than in the runs before."""
    store = _store(tmp_path, faces=200, others=2700)
    hashed = policy_hash(load_policy("public_release"))
    for number, drops in enumerate(nights(*USUAL, policy=hashed)):
        _record(store, drops.model_copy(update={"by_reason": {"face": 10 * number}}), number)
    return Settings(store=store.root)


def test_a_run_with_drift_is_held_until_somebody_accepts(drifting):
    with pytest.raises(DriftHeld, match=r"held before the release: face drops .* with accept_drift"):
        watch_drift.fn(drifting)


def test_a_run_whose_drift_is_accepted_is_not_held(drifting):
    assert watch_drift.fn(drifting.model_copy(update={"accept_drift": True})).counts == {"outside_band": 1}


def test_accepted_drift_is_not_held_again_for_the_same_input(drifting):
    accepted = watch_drift.fn(drifting.model_copy(update={"accept_drift": True}))
    RunRecord(Store(drifting.store), drifting, NOON + timedelta(days=9)).add(accepted)
    assert watch_drift.fn(drifting).counts == {"outside_band": 0}


def test_runs_under_another_policy_are_no_history(tmp_path):
    store = _store(tmp_path, faces=200, others=2700)
    for number, drops in enumerate(nights(*USUAL, policy="another")):
        _record(store, drops, number)
    assert len(earlier_drops(store)) == len(USUAL)
    assert watch_drift.fn(Settings(store=store.root)).counts == {"outside_band": 0}


def test_every_reason_that_fired_is_counted(tmp_path):
    decisions = _store(tmp_path, faces=2, others=3).read("decisions")
    assert drop_counts([decisions]).by_reason == {"face": 2}


def test_conversations_of_all_frames_are_counted(tmp_path):
    decisions = _store(tmp_path, faces=2, others=3).read("decisions")
    assert drop_counts(decisions.iter_slices(2)).conversations == 5


def test_the_band_of_drift_is_no_part_of_the_policy_hash():
    policy = load_policy("public_release")
    assert policy_hash(policy.model_copy(update={"drift": None})) == policy_hash(policy)
