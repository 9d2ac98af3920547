"""docs/policies.md is what the schema says, and its example is a policy."""

import re
from pathlib import Path

from schemas.policy import Policy, Rule
from tasks.policy.policy_file import load_policy
from tasks.policy.reference import reference

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "policies.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == reference(), "run `make docs`"


def test_every_key_and_signal_has_a_row():
    page = reference()
    named = [*Policy.model_fields, *Rule.model_fields, "extends", "remove", "refusal.refusal", "battle.same_model"]
    assert [name for name in named if f"| `{name}` |" not in page] == []


def test_help_page_and_readme_know_the_same_shipped_policies(curate):
    folder = sorted(path.stem for path in (ROOT / "tasks/policy/policies").glob("*.yaml"))
    page = reference().split("## Shipped policies")[1].split("##")[0]
    assert re.findall(r"^\| `(\w+)`", page, re.MULTILINE) == folder
    told = " ".join(re.sub("[│╭╰─╮╯]", " ", curate("decide", "--help")[1]).split())
    assert f"Shipped: {', '.join(folder)}." in told
    assert "(docs/policies.md#shipped-policies)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_is_a_policy(tmp_path):
    example = PAGE.read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]
    (tmp_path / "ours.yaml").write_text(example)
    ours = load_policy(str(tmp_path / "ours.yaml"))
    assert ours.publishable and ours.rules[-1].reason == "refusal" and ours.duplicates.copies_max == 2
