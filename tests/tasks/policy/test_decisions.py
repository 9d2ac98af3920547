"""What deciding leaves in the store; rules about what describes an item decide on what the others keep."""

from schemas.policy import Policy, policy_hash
from tasks.policy.policy_file import load_policy
from tasks.signals.steps import conversations_to_describe
from tasks.storage.queries.funnel import reason_texts
from tests.builders import battle, conversation, facts_frame, sides


def _some():
    both = sides("b", image_ids=["1" * 32])
    chats = [conversation(f"c{n}", "What is this?", f"{n}.", image_ids=[str(n % 3) * 32]) for n in range(9)]
    return [*both, *chats], [battle(*both)]


def test_every_conversation_and_every_battle_has_exactly_one_decision(deciding):
    conversations, battles = _some()
    deciding.given(conversations, battles).decide()
    decided = deciding.store.read("decisions").select("item_kind", "item_id").rows()
    expected = {("conversation", each.conversation_id) for each in conversations} | {("battle", "b")}
    assert len(decided) == len(expected) and set(decided) == expected


def test_deciding_again_gives_the_same_bytes(deciding):
    deciding.given(*_some()).decide()
    first = {table: deciding.store.parts(table) for table in ("decisions", "near_images")}
    deciding.decide()
    assert {table: deciding.store.parts(table) for table in first} == first


def test_the_policy_of_every_decision_is_kept_whole_under_its_hash(deciding):
    decided = deciding.given(*_some()).decide()
    policy = load_policy("public_release")
    assert {(row["policy"], row["policy_hash"]) for row in decided.values()} == {(policy.name, policy_hash(policy))}
    stored = deciding.store.read_bytes(f"policies/{policy_hash(policy)}.json")
    assert Policy.model_validate_json(stored) == policy


def test_a_new_policy_replaces_every_decision(deciding):
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


def test_a_described_item_is_dropped_or_tagged_and_the_rest_kept(deciding):
    chats = _chats()
    facts = {
        "refusal": {chats["declined"].turns[1].text_id: {"refusal": True}},
        "categories": {chats["plain"].document_id: {"homework": True}},
        "language": {chats["hidden"].prompt_id: {"language": "fr"}},
    }
    decided = deciding.given(chats.values(), facts=facts).under(ASKING).decide()
    assert {name: row["reasons"] for name, row in decided.items()} == {
        "plain": [], "declined": ["refusal"], "hidden": ["foreign"],
    }  # fmt: skip
    assert "homework" in decided["plain"]["tags"]
    assert {name for name, row in decided.items() if row["kept_by_screening"]} == {"plain", "declined"}


def test_until_it_is_described_it_is_dropped_but_stays_to_be_described(deciding):
    chats = _chats()
    facts = {
        "refusal": {chats["plain"].turns[1].text_id: None},
        "language": {chats["hidden"].prompt_id: {"language": "fr"}},
    }
    deciding.given(chats.values(), facts=facts).under(ASKING)
    decided = deciding.decide()
    assert decided["plain"]["reasons"] == ["unmeasured_refusal"] and not decided["plain"]["keep"]
    to_describe = conversations_to_describe(deciding.store, deciding.store)
    assert set(to_describe["conversation_id"]) == {"plain", "declined"}
    deciding.store.append("signals/refusal", facts_frame("refusal", {chats["plain"].turns[1].text_id: {}}))
    assert deciding.decide()["plain"]["keep"]


def test_a_battle_goes_with_a_side_or_alone(deciding):
    left, right = sides("b")
    facts = {"refusal": {right.turns[1].text_id: {"refusal": True}}, "code": {left.turns[0].text_id: {"is_code": True}}}
    deciding.given([left, right], [battle(left, right)], facts=facts)
    assert deciding.under(ASKING).reasons() == {"b": [], "b-right": ["refusal"], "battle:b": ["refusal"]}
    assert deciding.under(ALONE).reasons() == {"b": [], "b-right": [], "battle:b": ["code"]}


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


def test_moderation_may_depend_on_whether_a_models_weights_are_open(deciding, tmp_path):
    (tmp_path / "models.yaml").write_text(
        "models:\n- {name: vicuna-13b, base_url: http://gpu1/v1, open: true}\n- {name: closed, base_url: http://gpu2/v1}\n"
    )
    own = "name: own\nextends: public_release\nopen_models: models.yaml\nrules:\n- {reason: moderation, models: KIND}\n"
    chats = [conversation(f"{name} {n}", f"Say {n}", "No.", model=name)
             for name in ("vicuna-13b", "closed", "unheard-of") for n in ("bad", "fine")]  # fmt: skip
    bad = {"flagged_categories": ["violence"]}
    facts = {"moderation": {chats[0].turns[0].text_id: bad, chats[1].turns[1].text_id: None}}
    gone = {}
    for kind in ("proprietary", "open"):
        decided = deciding.given(chats, facts=facts).under(own.replace("KIND", kind)).decide()
        gone[kind] = {name.partition(" ")[0] for name, row in decided.items() if "moderation" in row["reasons"]}
        assert decided["closed fine"]["reasons"] == ([] if kind == "open" else ["unmeasured_moderation"])
    assert gone == {"proprietary": {"closed", "unheard-of"}, "open": {"vicuna-13b"}}
    assert reason_texts(load_policy(deciding.policy))["moderation"].endswith(", with open models alone")
