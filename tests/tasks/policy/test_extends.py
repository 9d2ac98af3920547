"""A policy file that extends another one says only what differs."""

import pytest
import yaml

from schemas.errors import BadPolicy
from tasks.policy.policy_file import load_policy, policy_hash


def _load(folder, content):
    file = folder / "ours.yaml"
    file.write_text(yaml.safe_dump({"name": "ours", "extends": "public_release"} | content), encoding="utf-8")
    return load_policy(str(file))


def test_without_changes_it_is_the_other_policy_but_not_publishable(tmp_path):
    base, ours = load_policy("public_release"), _load(tmp_path, {})
    assert ours == base.model_copy(update={"name": "ours", "about": "", "publishable": False})


def test_rules_are_changed_added_and_removed_by_reason(tmp_path):
    new = {"reason": "shouting", "signal": "markdown.h1", "over": "assistant_messages", "at_least": 9}
    rules = [{"reason": "face", "at_most": 0.2, "action": "tag"}, new]
    base, ours = load_policy("public_release"), _load(tmp_path, {"rules": rules, "remove": ["no_answer"]})
    reasons = [rule.reason for rule in base.rules if rule.reason != "no_answer"]
    assert [rule.reason for rule in ours.rules] == [*reasons, "shouting"]
    (face,) = [rule for rule in ours.rules if rule.reason == "face"]
    assert (face.signal, face.at_least, face.at_most, face.action) == ("faces.confidence_max", None, 0.2, "tag")
    kept = [rule for rule in ours.rules if rule.reason not in ("face", "shouting")]
    assert kept == [rule for rule in base.rules if rule.reason not in ("face", "no_answer")]


def test_what_a_file_removes_it_may_give_anew(tmp_path):
    own = {"reason": "service_error", "signal": "markdown.h1", "over": "assistant_messages", "at_least": 9.0}
    ours = _load(tmp_path, {"extends": "upstream", "remove": ["service_error"], "rules": [own]})
    same = [rule for rule in ours.rules if rule.reason == "service_error"]
    assert [(rule.signal, rule.at_least) for rule in same] == [("markdown.h1", 9.0)]


def test_sections_are_merged_lists_replaced_and_null_switches_off(tmp_path):
    ours = _load(tmp_path, {"duplicates": {"copies_max": 3}, "hot_prompts": None, "excluded_models": ["m"]})
    assert (ours.duplicates.copies_max, ours.duplicates.images) == (3, "near")
    assert ours.hot_prompts is None and ours.near_prompts is not None and ours.excluded_models == ["m"]


def test_a_file_may_extend_one_beside_it_that_extends_another(tmp_path):
    (tmp_path / "between.yaml").write_text("{name: between, extends: upstream, excluded_models: [a]}")
    ours = _load(tmp_path, {"extends": "./between.yaml", "banned_users": ["f" * 24]})
    assert (ours.excluded_models, ours.banned_users, ours.duplicates) == (["a"], ["f" * 24], None)
    assert policy_hash(ours) != policy_hash(load_policy("upstream"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"extends": "public_relase"}, "Did you mean public_release?"),
        ({"extends": "./ours.yaml"}, "extends itself"),
        ({"extends": ["a", "b"]}, "extends: Input should be a valid string"),
        ({"remove": ["fase"]}, "Did you mean face?"),
        ({"rules": "face"}, "rules: "),
        ({"rules": [{"reason": "face", "at_leats": 1}]}, "Did you mean at_least?"),
        ({"extends": "upstream", "rules": [{"reason": "service_error", "action": "tag"}]}, "2 rules have the reason"),
        ({"rules": [{"reason": "new", "action": "tag"}]}, "signal: Field required"),
    ],
)
def test_what_is_wrong_is_one_clear_line(tmp_path, content, said):
    with pytest.raises(BadPolicy) as refused:
        _load(tmp_path, content)
    assert said in str(refused.value) and "\n" not in str(refused.value)
