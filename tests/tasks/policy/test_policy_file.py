"""A policy is checked before it decides anything, and may extend another; what is wrong is said in one line."""

import pytest
import yaml

from schemas.errors import BadPolicy, CurateError
from schemas.policy import Action, policy_hash
from tasks.policy import SHIPPED_POLICIES
from tasks.policy.policy_file import load_policy

RULE = {"reason": "face", "signal": "faces.confidence_max", "over": "images", "at_least": 0.5}


def _load(tmp_path, content: object):
    file = tmp_path / "mine.yaml"
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content), encoding="utf-8")
    return load_policy(str(file))


def _refused(tmp_path, content: object) -> str:
    with pytest.raises(BadPolicy) as refused:
        _load(tmp_path, content)
    assert isinstance(refused.value, CurateError)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def _with_rule(**changes) -> dict:
    return {"name": "mine", "rules": [RULE, {k: v for k, v in (RULE | changes).items() if v is not None}]}


@pytest.mark.parametrize(
    "changes",
    [{"action": "redact"}, {"signal": "battle.anonymous", "over": "battle", "at_least": None, "equals": True}],
    ids=["redaction", "battles"],
)
def test_a_rule_about_models_is_refused_where_it_tells_no_conversations_apart(tmp_path, changes):
    assert "models tells conversations apart" in _refused(tmp_path, _with_rule(models="open", **changes))


def test_the_hash_changes_with_the_models_of_a_rule(tmp_path):
    hashes = {policy_hash(_load(tmp_path, _with_rule(models=kind))) for kind in (None, "open", "proprietary")}
    assert len(hashes) == 3


def test_a_policy_without_a_rule_about_models_has_the_hash_it_had_before_there_were_any():
    assert policy_hash(load_policy("public_release")) == "e7f1eec543ce"  # stores decided before the key stay decided


VOTE_RULES = [{"exclude_suspects": True}, {"pair_votes_max": 5}, {"day_votes_max": 50}]


def _voted(votes: dict, **linkage) -> dict:
    return {"name": "mine", "rules": [RULE], "votes": votes, "linkage": linkage}


def test_the_hash_changes_with_each_rule_about_votes(tmp_path):
    assert len({policy_hash(_load(tmp_path, _voted(votes))) for votes in ({}, *VOTE_RULES)}) == 4


@pytest.mark.parametrize("votes", VOTE_RULES, ids=lambda votes: next(iter(votes)))
def test_a_rule_about_votes_needs_the_voters_of_released_rows(tmp_path, votes):
    (name,) = votes
    assert f"votes: {name} needs voters" in _refused(tmp_path, _voted(votes, users=False))


def test_a_limit_of_votes_a_day_needs_the_days_of_released_rows(tmp_path):
    assert "day_votes_max needs days" in _refused(tmp_path, _voted({"day_votes_max": 5}, times="month"))


def test_a_limit_of_no_votes_is_refused(tmp_path):
    assert "must be at least 1" in _refused(tmp_path, _voted({"pair_votes_max": 0}))


@pytest.mark.parametrize("name", SHIPPED_POLICIES)
def test_a_shipped_policy_loads_by_its_name(name):
    assert load_policy(name).name == name


@pytest.mark.parametrize("name", SHIPPED_POLICIES)
def test_a_shipped_policy_says_in_a_sentence_who_it_is_for(name):
    assert load_policy(name).about.endswith(".")


@pytest.mark.parametrize("name", SHIPPED_POLICIES)
def test_every_shipped_policy_has_a_rule_about_hot_prompts(name):
    assert load_policy(name).hot_prompts is not None


@pytest.mark.parametrize("name", SHIPPED_POLICIES)
def test_two_shipped_policies_let_duplicates_stay(name):
    assert (load_policy(name).duplicates is None) == (name in ("upstream", "generated"))


def test_the_internal_policy_drops_for_three_reasons_alone():
    dropping = {rule.reason for rule in load_policy("internal").rules if rule.action is Action.DROP}
    assert dropping == {"nsfw_image", "excluded_model", "banned_user"}


def test_a_policy_of_ones_own_has_the_rules_of_its_file(tmp_path):
    assert [rule.reason for rule in _load(tmp_path, _with_rule(reason="again")).rules] == ["face", "again"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", ["must have keys", "name", "rules"]),
        ("name: x\nrules: [\n", ["not YAML", "line"]),
        ("name: x\nrules: !!python/object:os.system {}\n", ["not YAML", "line 2"]),
        ("\x00", ["not YAML", "control characters"]),
        ("name: x\nrules: []\nbanned_users: [a]\nbanned_users: []\n", ["line 4", "'banned_users' is given twice"]),
        ("name: x\nrules:\n- {reason: a, reason: b}\n", ["line 3", "'reason' is given twice"]),
        ("name: x\nrules: []\n? [a, b]\n: 1\n", ["not YAML", "line 3"]),
        ({"rules": []}, ["name: is missing"]),
        ({"name": "Mine!", "rules": []}, ["name: must match"]),
        ({"name": "mine", "ruls": []}, ["unknown key at ruls", "Did you mean rules?"]),
        (
            {"name": "mine", "rules": [], "near_images": {"phash_max": 1}},
            ["near_images.phash_max", "phash_distance_max"],
        ),
        ({"name": "mine", "rules": [], "banned_users": ["f" * 24, " 2001:db8::1"]}, ["banned_users", "curate explain"]),
        ({"name": "mine", "rules": [], "hot_prompts": {}}, ["hot_prompts", "copies_max, copies_quantile"]),
        ({"name": "mine", "rules": [], "duplicates": {"images": "close"}}, ["duplicates.images", "'near'"]),
    ],
)
def test_a_broken_file_is_one_clear_line(tmp_path, content, said):
    text = _refused(tmp_path, content)
    assert "mine.yaml" in text
    assert [part for part in said if part not in text] == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"at_leats": 1}, ["rule 'face'.at_leats", "Did you mean at_least?"]),
        ({"at_least": None}, ["rule 'face'", "exactly one of"]),
        ({"at_most": 1.0}, ["rule 'face'", "exactly one of"]),
        ({"over": "pictures"}, ["rule 'face'.over", "'images'"]),
        ({"action": "delete"}, ["rule 'face'.action", "'drop', 'redact', 'tag' or 'hold'"]),
        ({"action": "redact", "signal": "nsfw.nsfw_probability"}, ["not be redacted", "text_pii.types"]),
        (
            {"action": "hold", "signal": "battle.winner", "over": "battle", "at_least": None, "equals": "tie"},
            ["a battle is held with its sides"],
        ),
        ({"action": "redact", "scope": "battle"}, ["scope must be 'conversation'"]),
        ({"signal": "faces.confidence"}, ["rule 2 (face)", "unknown signal", "Did you mean faces.confidence_max?"]),
        ({"signal": "conversation.turns", "over": "conversation"}, ["unknown signal", "conversation.num_turns"]),
        ({"signal": "conversation.num_turns"}, ["over must be 'conversation', not 'images'"]),
        ({"signal": "battle.winner", "over": "conversation"}, ["over must be 'battle', not 'conversation'"]),
        ({"over": "messages"}, ["faces is measured on images", "not be 'messages'"]),
        ({"signal": "categories.humor", "over": "prompt"}, ["categories is measured on document", "'prompt'"]),
        ({"signal": "topics.name", "over": "document"}, ["unknown signal 'topics.name'"]),
        ({"at_least": None, "other_than": ["en"]}, ["faces.confidence_max is Float32", "other_than: ['en']"]),
        ({"signal": "text_pii.types", "over": "messages"}, ["text_pii.types is List(String)", "at_least: 0.5"]),
        ({"signal": "faces.faces", "at_least": None, "contains_any": ["face"]}, ["faces.faces is List(Struct"]),
        (
            {"signal": "conversation.has_image", "over": "conversation", "at_least": None, "equals": "yes please"},
            ["conversation.has_image is Boolean", "'yes please'"],
        ),
    ],
)
def test_a_broken_rule_is_one_clear_line_that_names_it(tmp_path, changes, said):
    text = _refused(tmp_path, _with_rule(**changes))
    assert [part for part in said if part not in text.replace("cannot be", "not be")] == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("public_relase", "Did you mean public_release?"),
        ("nothing_like_it", "internal, public_release, redact"),
        ("missing.yaml", "cannot be read (No such file or directory)"),
        ("./", "cannot be read (Is a directory)"),
        ("../../etc/passwd", "policy '../../etc/passwd'"),
    ],
)
def test_a_policy_that_is_not_there_is_one_clear_line(name, said):
    with pytest.raises(BadPolicy) as refused:
        load_policy(name)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_a_file_that_is_not_text_is_one_clear_line(tmp_path):
    file = tmp_path / "binary.yaml"
    file.write_bytes(b"\xff\xfe\x00name")
    with pytest.raises(BadPolicy, match="UnicodeDecodeError"):
        load_policy(str(file))


@pytest.mark.parametrize(
    "change", [{"at_least": 0.51}, {"action": "tag"}, {"on_missing": "ignore"}, {"reason": "faces"}]
)
def test_the_hash_changes_with_every_change_of_a_rule(tmp_path, change):
    before = policy_hash(_load(tmp_path, {"name": "mine", "rules": [RULE]}))
    assert policy_hash(_load(tmp_path, {"name": "mine", "rules": [RULE | change]})) != before


def test_the_hash_does_not_change_with_what_decides_nothing(tmp_path):
    plain = {"name": "mine", "rules": [RULE]}
    reordered = (
        "# reviewed\nrules:\n- {over: images, signal: faces.confidence_max, at_least: .5, reason: face}\nname: mine\n"
    )
    assert policy_hash(_load(tmp_path, plain | {"about": "Us."})) == policy_hash(_load(tmp_path, reordered))


def _extended(folder, content):
    file = folder / "ours.yaml"
    file.write_text(yaml.safe_dump({"name": "ours", "extends": "public_release"} | content), encoding="utf-8")
    return load_policy(str(file))


def test_a_file_that_only_extends_another_decides_as_that_does(tmp_path):
    base, ours = load_policy("public_release"), _extended(tmp_path, {})
    assert ours == base.model_copy(update={"name": "ours", "about": "", "publishable": False})


def test_a_file_that_extends_another_gives_anew_a_rule_that_it_removes(tmp_path):
    own = {"reason": "service_error", "signal": "markdown.h1", "over": "assistant_messages", "at_least": 9.0}
    ours = _extended(tmp_path, {"extends": "upstream", "remove": ["service_error"], "rules": [own]})
    same = [rule for rule in ours.rules if rule.reason == "service_error"]
    assert [(rule.signal, rule.at_least) for rule in same] == [("markdown.h1", 9.0)]


def test_a_file_that_extends_another_merges_its_sections(tmp_path):
    ours = _extended(tmp_path, {"duplicates": {"copies_max": 3}, "hot_prompts": None, "excluded_models": ["m"]})
    assert (ours.duplicates.copies_max, ours.duplicates.images) == (3, "near")
    assert ours.hot_prompts is None and ours.near_prompts is not None and ours.excluded_models == ["m"]


def test_a_file_can_extend_one_that_extends_another(tmp_path):
    (tmp_path / "between.yaml").write_text("{name: between, extends: upstream, excluded_models: [a]}")
    ours = _extended(tmp_path, {"extends": "./between.yaml", "banned_users": ["f" * 24]})
    assert (ours.excluded_models, ours.banned_users, ours.duplicates) == (["a"], ["f" * 24], None)
    assert policy_hash(ours) != policy_hash(load_policy("upstream"))


@pytest.fixture
def with_rules(tmp_path):
    """A policy that changes the rule `face`, adds `shouting`, and removes `no_answer`."""
    new = {"reason": "shouting", "signal": "markdown.h1", "over": "assistant_messages", "at_least": 9}
    rules = [{"reason": "face", "at_most": 0.2, "action": "tag"}, new]
    return _extended(tmp_path, {"rules": rules, "remove": ["no_answer"]})


def test_a_new_rule_stands_behind_all_that_are_not_removed(with_rules):
    reasons = [rule.reason for rule in load_policy("public_release").rules if rule.reason != "no_answer"]
    assert [rule.reason for rule in with_rules.rules] == [*reasons, "shouting"]


def test_a_rule_is_changed_by_its_reason(with_rules):
    (face,) = [rule for rule in with_rules.rules if rule.reason == "face"]
    assert (face.signal, face.at_least, face.at_most, face.action) == ("faces.confidence_max", None, 0.2, "tag")


def test_rules_that_a_file_does_not_name_stay_as_they_are(with_rules):
    kept = [rule for rule in with_rules.rules if rule.reason not in ("face", "shouting")]
    base = load_policy("public_release")
    assert kept == [rule for rule in base.rules if rule.reason not in ("face", "no_answer")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"extends": "public_relase"}, "Did you mean public_release?"),
        ({"extends": "./ours.yaml"}, "extends itself"),
        ({"extends": ["a", "b"]}, "extends: must be text"),
        ({"remove": ["fase"]}, "Did you mean face?"),
        ({"rules": "face"}, "rules: "),
        ({"rules": [{"reason": "face", "at_leats": 1}]}, "Did you mean at_least?"),
        ({"extends": "upstream", "rules": [{"reason": "service_error", "action": "tag"}]}, "2 rules have the reason"),
        ({"rules": [{"reason": "new", "action": "tag"}]}, "A new rule needs signal, over and a comparison."),
        ({"rules": [{"reason": "faec", "action": "hold"}]}, "no rule has the reason 'faec'. Known: "),
        ({"rules": [{"reason": "faec", "action": "hold"}]}, "Did you mean face?"),
        (
            {"rules": [{"reason": "new", "signal": "faces.confidence_max", "at_least": 1}]},
            "rule 'new'.over: is missing",
        ),
        ({"rules": [{"reason": "face", "at_least": "much"}]}, "rule 'face'.at_least: must be a number"),
    ],
)
def test_what_is_wrong_is_one_clear_line(tmp_path, content, said):
    with pytest.raises(BadPolicy) as refused:
        _extended(tmp_path, content)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_a_model_has_the_version_it_is_asked_as_unless_that_is_a_place_on_a_server(tmp_path):
    asked_as = {"own": "", "dated": "gpt-4o-2024-05-13", "hub": "llava-hf/llava-1.5-7b-hf"}
    places = ["/srv/llava", "~/llava", "./llava", "C:\\llava", "file://llava"]
    asked_as |= {f"place{number}": place for number, place in enumerate(places)}
    entries = [{"name": name, "base_url": "http://gpu1/v1", "model": model} for name, model in asked_as.items()]
    (tmp_path / "models.yaml").write_text(yaml.safe_dump({"models": entries}))
    (tmp_path / "own.yaml").write_text("{name: own, extends: public_release, publishable: true, models: models.yaml}")
    versions = {name: facts.version for name, facts in load_policy(str(tmp_path / "own.yaml")).models.items()}
    stated = {"own": "own", "dated": asked_as["dated"], "hub": asked_as["hub"]}
    assert versions == stated | {f"place{number}": None for number in range(len(places))}
