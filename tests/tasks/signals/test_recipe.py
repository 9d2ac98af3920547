"""The recipe of docs/signals.md for a signal in this repository works as written, in a copy of it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
POLICY = """
name: quiet
rules:
  - {reason: too_many_questions, signal: question_marks.count, over: user_messages, at_least: 3}
"""
FOLLOWED = """
from tasks.policy.policy_file import load_policy
from tasks.providers import Providers
from tasks.signals.registry import text_signals
from tasks.storage.tables import Store

print(text_signals(Providers())["question_marks"].values(["What? Why?"]))
print(load_policy("quiet.yaml").rules[0].signal)
print("count" in Store("store").read("signals/question_marks").columns)
"""


def _followed(copy: Path) -> None:
    """Do in `copy` what the page says."""
    for folder in ("flows", "tasks", "schemas"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    page = (ROOT / "docs" / "signals.md").read_text(encoding="utf-8")
    _, _, recipe = page.partition("## A signal in this repository")
    module, value, measured, registered = (block.split("```")[0] for block in recipe.split("```python\n")[1:5])
    signals = copy / "tasks" / "signals"
    (signals / "rules" / "question_marks.py").write_text(module)
    _put(copy / "schemas" / "signals.py", {"class Refusal(Row)": f"{value}\n\n", '    "service_text":': measured})
    imported = "    question_marks,\n"
    _put(signals / "registry.py", {"    refusal,\n": imported, '    "service_text":': registered})


def _put(file: Path, before: dict[str, str]) -> None:
    """Put lines before others that the file has once."""
    text = file.read_text(encoding="utf-8")
    for line, added in before.items():
        assert text.count(line) == 1, line
        text = text.replace(line, f"{added}{line}")
    file.write_text(text, encoding="utf-8")


def test_the_recipe_for_a_new_signal_is_complete(tmp_path):
    _followed(tmp_path)
    (tmp_path / "quiet.yaml").write_text(POLICY)
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", FOLLOWED], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[QuestionMarks(count=2)]", "question_marks.count", "True"]
