"""What models thought aloud: in no release, but where the policy says so, and then screened like the answers."""

from pathlib import Path

import polars as pl
import pytest

from schemas.errors import BadPolicy
from schemas.items.conversation import ServedAnswer
from tasks.policy.policy_file import load_policy
from tasks.release.core_parts import RELEASED_THINKING, THINKING
from tasks.release.fetched import read_manifest
from tasks.release.registered import OpenRelease
from tasks.storage.content_id import text_id
from tests.builders import battle, conversation, counted_tokens, sides
from tests.small_store import USER, make_release
from tests.tampered_release import change_row

POLICY = "extends: public_release\nname: mine\nrelease_thinking: true\n"
OF_ANSWERS = ("text_pii", "moderation", "service_text", "model_names", "upstream_words")


def thinks(of, thinking: str):
    """The conversation, with what was thought before its first answer."""
    told = dict.fromkeys(ServedAnswer.model_fields) | {
        "turn": 1,
        "thinking": thinking,
        "thinking_id": text_id(thinking),
    }
    return of.model_copy(update={"served": [ServedAnswer(**told)]})


@pytest.fixture
def thought(deciding):
    """A function that releases a chat, a battle, and chats with an address or with nothing measured."""

    def released(policy: str) -> tuple[dict, Path]:
        left, right = (thinks(side, f"I am {side.conversation_id}.") for side in sides("b", user_id=USER))
        chats = [thinks(conversation(name, user_id=USER), f"Hm, {name}.") for name in ("plain", "mail", "unmeasured")]
        clean = [text_id(f"I am {name}.") for name in ("b", "b-right")] + [text_id("Hm, plain."), text_id("Hm, mail.")]
        facts = {signal: {content_id: {} for content_id in clean} for signal in OF_ANSWERS}
        facts["text_pii"][text_id("Hm, mail.")] = {"types": ["email"]}
        every = [left, right, *chats]
        deciding.given(every, [battle(left, right)], facts | {"tokens": counted_tokens(every)})
        decisions = deciding.under(policy).decide()
        make_release(deciding.store, rated=False, release="r")
        return decisions, Path(deciding.store.root) / "releases" / "r"

    return released


def test_a_policy_releases_thinking_that_its_rules_let_pass(thought):
    decisions, release = thought(POLICY)
    assert {name: row["keep"] for name, row in decisions.items()} == {
        "plain": True, "mail": False, "unmeasured": False, "b": True, "b-right": True, "battle:b": True
    }  # fmt: skip
    assert decisions["mail"]["reasons"] == ["pii_text"]
    assert {"unmeasured_text_pii", "unmeasured_model_names"} <= set(decisions["unmeasured"]["reasons"])
    rows = pl.read_parquet(release / THINKING).rows()
    assert ("chat", "plain", None, 1, "Hm, plain.") in rows and ("battle", "b", "b", 1, "I am b-right.") in rows
    assert "mail" not in str(rows) and "unmeasured" not in str(rows)
    opened = OpenRelease(release, read_manifest(release), None)
    assert "## Thinking" in (release / "README.md").read_text() and [*RELEASED_THINKING.wrong(opened)] == []
    change_row(release, THINKING, id="x", thinking="Mail me at ann@mail.example.net")
    told = " ".join(RELEASED_THINKING.wrong(opened))
    assert "1 rows are of no released row" in told and "holds personal data: email" in told


def test_no_other_policy_releases_any(thought):
    decisions, release = thought("extends: public_release\nname: mine\n")
    assert all(row["keep"] for row in decisions.values())
    assert not (release / THINKING).exists() and "## Thinking" not in (release / "README.md").read_text()


def test_thinking_is_not_released_beside_rules_that_redact(tmp_path):
    (tmp_path / "mine.yaml").write_text(POLICY.replace("public_release", "redact"))
    with pytest.raises(BadPolicy, match="thinking is not redacted; leave it out, or let rules drop messages"):
        load_policy(str(tmp_path / "mine.yaml"))
