"""`curate verify` finds personal data where a rule of the policy keeps it out, and nowhere else."""

from itertools import product

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.products import problems_of
from schemas.policy import Policy, Rule
from tasks.release.contents import beside_rows, forbidden_data, forbidden_in
from tasks.release.core_parts import MAP
from tasks.release.shards import METADATA_KEY
from tests.small_store import POLICY, manifest_of
from tests.tampered_release import BATTLE, CHAT, change_row, reseal, write_manifest

EMAIL = "Write to lena@example.com"
ROLES_OF = {
    "messages": {"user", "assistant"}, "user_messages": {"user"}, "assistant_messages": {"assistant"},
    "image_texts": set(),
}  # fmt: skip


def _rule(over, **keys):
    return Rule(**{"reason": "pii", "signal": "text_pii.types", "over": over, "contains_any": ["email"], **keys})


def _policy(*rules):
    return Policy(name="own", rules=list(rules))


def _under(release, *rules):
    """The release as if it were made by these rules."""
    policy = manifest_of(release)["policy"]
    write_manifest(release, policy=policy | {"rules": [rule.model_dump(mode="json") for rule in rules]})


def _personal(release):
    return [problem for problem in problems_of(release) if "personal data" in problem]


@pytest.mark.parametrize(("over", "action"), [*product(ROLES_OF, ["drop", "redact", "tag", "hold"])])
def test_data_is_forbidden_in_the_messages_that_a_rule_looks_at(over, action):
    forbidden = forbidden_in(_policy(_rule(over, action=action)), "chat")
    stopped = ROLES_OF[over] if action in ("drop", "redact") else set()
    assert {role for role, types in forbidden.messages.items() if types == {"email"}} == stopped
    assert (forbidden.words == {"email"}) == ("user" in ROLES_OF[over] and action != "tag")
    assert (forbidden.names == {"email"}) == bool(stopped)


@pytest.mark.parametrize("config", ["chat", "battle", "bench", "failures"])
def test_a_rule_that_drops_battles_alone_forbids_nothing_in_the_other_rows(config):
    forbidden = forbidden_in(_policy(_rule("messages", scope="battle")), config)
    assert set(forbidden.messages.values()) == {frozenset({"email"} if config == "battle" else ())}
    assert forbidden.words == {"email"} and not forbidden.names


@pytest.mark.parametrize("models", ["open", "proprietary"])
def test_a_rule_about_some_models_forbids_nothing_in_the_messages_of_all(models):
    forbidden = forbidden_in(_policy(_rule("messages", models=models)), "chat")
    assert set(forbidden.messages.values()) == {frozenset()} and forbidden.words == {"email"}


def test_a_rule_about_all_but_some_types_forbids_the_others():
    listed = forbidden_data(_policy(_rule("messages", contains_any=None, other_than=["email"])))
    assert "ip" in listed and "email" not in listed
    assert forbidden_data(_policy(_rule("messages", contains_any=[]))) == listed | {"email"}


def test_an_address_left_in_a_turn_that_a_rule_redacts_is_found_whoever_else_may_have_one(own_release):
    _under(own_release, _rule("user_messages", action="redact"))
    for shard, column in ((CHAT, "conversation"), (BATTLE, "conversation_b")):
        change_row(own_release, shard, **{column: [{"role": "assistant", "content": EMAIL, "images": []}]})
    assert _personal(own_release) == []
    for shard, column in ((CHAT, "conversation"), (BATTLE, "conversation_b")):
        change_row(own_release, shard, **{column: [{"role": "user", "content": EMAIL, "images": []}]})
    assert [problem.partition("a message in ")[2] for problem in _personal(own_release)] == [
        "conversation holds personal data: email", "conversation_b holds personal data: email",
    ]  # fmt: skip


def test_words_of_a_vote_hold_nothing_that_a_rule_over_users_holds_back(own_release):
    _under(own_release, _rule("user_messages", action="hold"))
    change_row(own_release, BATTLE, vote_reason=EMAIL)
    assert [problem.partition("a message in ")[2] for problem in _personal(own_release)] == [
        "vote_reason holds personal data: email"
    ]


def test_the_shipped_policy_forbids_the_same_in_all_texts():
    (listed,) = (set(rule.contains_any) for rule in POLICY.rules if rule.reason == "pii_text")
    forbidden = forbidden_in(POLICY, "battle")
    assert {*forbidden.messages.values(), forbidden.words, forbidden.names} == {frozenset(listed)}


@pytest.mark.parametrize("column", ["content", "vote_reason", "thinking", "model"])
def test_a_path_that_people_wrote_is_no_problem_in_statistics_either(tmp_path, column):
    pq.write_table(pa.table({column: ["see /tmp/a"]}), tmp_path / "rows.parquet", store_schema=False)
    assert pq.read_metadata(tmp_path / "rows.parquet").row_group(0).column(0).statistics.min == "see /tmp/a"
    problems = [*beside_rows(tmp_path / "rows.parquet")]
    assert problems == (["its metadata holds an identifier: path"] if column == "model" else [])


def test_metadata_for_datasets_in_a_file_that_is_no_configuration_is_found(own_release):
    for name in (MAP, "leaderboard/overall.parquet"):
        table = pq.read_table(own_release / name)
        told = {**(table.schema.metadata or {}), METADATA_KEY: b"lena@example.com"}
        pq.write_table(table.replace_schema_metadata(told), own_release / name)
    reseal(own_release)
    assert problems_of(own_release) == [
        f"{name}: its metadata is for `datasets`, which reads configurations alone"
        for name in ("leaderboard/overall.parquet", MAP)
    ]
