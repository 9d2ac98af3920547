"""A new signal, by the recipe of docs/extending.md or brought by another package, is measured and stored."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.errors import BadInput
from schemas.tables import installed_signals

ROOT = Path(__file__).parents[3]
QUIET = """
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
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    _, _, recipe = page.partition("## A signal in this repository")
    module, value, measured, registered = (block.split("```")[0] for block in recipe.split("```python\n")[1:5])
    signals = copy / "tasks" / "signals"
    (signals / "rules" / "question_marks.py").write_text(module)
    _put(copy / "schemas" / "signals.py", {"class Refusal(Row)": f"{value}\n\n", '    "service_text":': measured})
    imported = "from tasks.signals.rules import question_marks\n"
    beside = {"from tasks.signals.rules import texts\n": imported, '    "service_text":': registered}
    _put(signals / "registry.py", beside)


def _put(file: Path, before: dict[str, str]) -> None:
    """Put lines before others that the file has once."""
    text = file.read_text(encoding="utf-8")
    for line, added in before.items():
        assert text.count(line) == 1, line
        text = text.replace(line, f"{added}{line}")
    file.write_text(text, encoding="utf-8")


def test_the_recipe_for_a_new_signal_is_complete(tmp_path):
    _followed(tmp_path)
    (tmp_path / "quiet.yaml").write_text(QUIET)
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", FOLLOWED], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[QuestionMarks(count=2)]", "question_marks.count", "True"]


_, _, DOCUMENTED = (
    (ROOT / "docs" / "extending.md").read_text(encoding="utf-8").partition("## A signal of another package")
)
EXAMPLE = DOCUMENTED.split("```python\n")[1].split("```")[0]
ENTRY_POINTS = DOCUMENTED.split("```toml\n")[1].split("```")[0].splitlines()[-1].replace('"', "")
"""The documented package: its module, and `name = module:object`."""
POLICY = """
name: calm
rules:
  - {reason: shouting, signal: exclamation_marks.count, over: user_messages, at_least: 3, action: drop}
"""
CURATE = "from flows.commands import main; main()"
DECIDE = """
import sys
from pathlib import Path

from schemas.settings import Settings
from schemas.tables import SIGNAL_ENTRIES
from flows.products import item_findings
from tasks.policy.steps import decide_items
from tasks.signals.registry import signal_of
from tasks.signals.run import measure_items, missing
from tasks.storage.queries.texts import ConversationForm, Texts, all_texts
from tasks.providers import Providers
from tests.builders import NOON, conversation, store_with

folder, providers = Path(sys.argv[1]), Providers()
chats = [conversation("loud", "What is this!!!", "A cat."), conversation("calm", "What is this?", "A dog!!!")]
store = store_with(folder / "store", conversations=chats)
texts = all_texts(store, Texts(ConversationForm.LOGGED, SIGNAL_ENTRIES["exclamation_marks"].on), {})
signal = signal_of("exclamation_marks", providers)
for _ in range(2):
    load = lambda ids: [texts[each] for each in ids]
    print(measure_items(store, signal, missing(store, signal, texts), load, workers=1, now=NOON).calls.total())
settings = Settings(store=store.root, policy=str(folder / "calm.yaml"))
decide_items.fn(settings, {"exclamation_marks": signal.version}, item_findings)
print(store.read("decisions").filter("keep")["item_id"].to_list())
print(store.read("signals/exclamation_marks")["provider"].unique().to_list())
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """Install a package of one module; gives the environment in which it is there."""

    def install(module=EXAMPLE, entry=ENTRY_POINTS):
        site = tmp_path_factory.mktemp("package") / "site"
        info = site / "arena_shouting-1.0.dist-info"
        info.mkdir(parents=True)
        (site / "arena_shouting.py").write_text(module, encoding="utf-8")
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: arena-shouting\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[arena_curation.signals]\n{entry}\n")
        return {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])}

    return install


def run(environment, *command):
    return subprocess.run([sys.executable, "-c", *command], cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def by_example(package, tmp_path_factory) -> list[str]:
    """Lines about the documented example: calls of two runs, what its policy keeps, and its provider."""
    folder = tmp_path_factory.mktemp("example")
    (folder / "calm.yaml").write_text(POLICY)
    done = run(package(), DECIDE, str(folder))
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_documented_example_is_measured_once(by_example):
    assert by_example[:2] == ["4", "0"]


def test_a_policy_may_ask_about_the_documented_example(by_example):
    assert by_example[2] == "['calm']"


def test_facts_of_the_documented_example_name_its_package(by_example):
    assert by_example[3:] == ["['arena-shouting']"]


@pytest.mark.parametrize(
    ("module", "entry", "said"),
    [
        ("import no_such_module", ENTRY_POINTS, "does not load (ModuleNotFoundError"),
        (EXAMPLE.replace("SIGNAL =", "SIGNAL = 1 or"), ENTRY_POINTS, "leads to a int"),
        (EXAMPLE.replace('version="1"', 'version=""'), ENTRY_POINTS, "needs a version and a rule"),
        (EXAMPLE, ENTRY_POINTS.replace("exclamation_marks =", "nsfw ="), "its name is taken already"),
        (EXAMPLE, ENTRY_POINTS.replace("exclamation_marks =", "Marks! ="), "a name is lower-case letters"),
    ],
)
def test_one_that_cannot_be_used_is_refused_with_its_package(package, monkeypatch, module, entry, said):
    monkeypatch.syspath_prepend(package(module, entry)["PYTHONPATH"].split(os.pathsep)[0])
    monkeypatch.delitem(sys.modules, "arena_shouting", raising=False)
    with pytest.raises(BadInput, match="installed package 'arena-shouting' cannot be used") as refused:
        installed_signals({"nsfw"})
    assert said in str(refused.value)
    monkeypatch.delitem(sys.modules, "arena_shouting", raising=False)


def test_a_broken_one_ends_a_command_with_one_line(package, tmp_path):
    (tmp_path / "texts.jsonl").write_text('{"text": "no"}\n')
    done = run(package("import no_such_module"), CURATE, "inspect", str(tmp_path / "texts.jsonl"), "--json")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "'arena-shouting' cannot be used: it does not load (ModuleNotFoundError" in done.stderr
