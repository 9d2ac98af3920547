"""Generated pages hold what the code has; `make check` compares them with it word for word."""

import ast
import re

import pytest

from flows.reference.__main__ import PAGES
from flows.reference.pages import commands, environment
from flows.running.settings_file import OF_ONE_RUN, description_of, keys_of
from schemas.policy import Policy, Rule
from schemas.release import ReleasedBattle, ReleasedConversation
from schemas.settings import Settings
from schemas.tables import TABLES
from tasks.policy.policy_file import load_policy
from tests.places import ROOT

VARIABLE = re.compile(r"(?:CURATE|ARENA|OPENAI|GEMINI|ANTHROPIC|GOOGLE|HF)_[A-Z][A-Z0-9_]+")
BY_VENDOR = {"ANTHROPIC_API_KEY"}
"""Names that `AskedModel.key_variable` makes of the vendor's."""
NOT_OURS = {"HF_SAFE_WEIGHTS_NAME", "HF_WEIGHTS_NAME", "ANTHROPIC_BASE_URL", "CURATE_DEVICE", "CURATE_WORKER_PID"}
"""Constants of libraries, a variable that is named because it does not count, and what processes hand on."""


def test_every_command_key_table_and_released_column_has_its_row():
    told = {name: (ROOT / name).read_text(encoding="utf-8") for name in PAGES}
    assert [name for name in commands() if f"### `curate {name}`" not in told["docs/reference-commands.md"]] == []
    rows = (Policy, Rule, Settings, ReleasedConversation, ReleasedBattle)
    named = [*TABLES, *(name for row in rows for name in row.model_fields), "extends", "refusal.refusal", "bad_item"]
    assert [name for name in named if f"| `{name}` |" not in told["docs/reference-data.md"]] == []


def test_every_option_of_every_command_says_what_it_means():
    options = (
        (name, option.opts[-1], option.help) for name, command in commands().items() for option in command.params
    )
    assert [(name, option) for name, option, meaning in options if not meaning] == []


def test_the_file_that_init_writes_says_what_each_key_means(curate, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert curate("init", "--models", "embedded")[0] == 0
    comments = " ".join(re.findall(r"^ *# (.*)$", (tmp_path / "curate.yaml").read_text("utf-8"), re.MULTILINE))
    meanings = [description_of(key) for key in keys_of() if key not in OF_ONE_RUN]
    assert len(meanings) > 50 and [text for text in meanings if not text or text not in comments] == []


def test_the_example_of_an_environment_has_what_the_code_reads():
    read = set(BY_VENDOR)
    for file in (path for top in ("flows", "tasks", "schemas") for path in (ROOT / top).rglob("*.py")):
        tree = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        texts = {node.value for node in tree if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        read |= {name for text in texts for name in VARIABLE.findall(text)}
    assert read - NOT_OURS - {name.strip("`") for name, _, _ in environment()} == set()


def test_help_and_page_know_the_same_shipped_policies(curate):
    folder = sorted(path.stem for path in (ROOT / "tasks/policy/policies").glob("*.yaml"))
    page = (
        (ROOT / "docs/reference-data.md").read_text(encoding="utf-8").split("## Policies that ship")[1].split("##")[0]
    )
    assert re.findall(r"^\| `(\w+)`", page, re.MULTILINE) == folder
    told = " ".join(re.sub("[│╭╰─╮╯]", " ", curate("decide", "--help")[1]).split())
    assert f"Shipped: {', '.join(folder)}." in told


@pytest.mark.parametrize(("page", "reason"), [("policies", "refusal"), ("tutorial", "face")])
def test_the_policy_of_a_page_is_one(page, reason, tmp_path):
    example = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]
    (tmp_path / "ours.yaml").write_text(example)
    ours = load_policy(str(tmp_path / "ours.yaml"))
    assert ours.publishable and reason in {rule.reason for rule in ours.rules} and ours.duplicates.copies_max == 2
