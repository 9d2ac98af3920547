"""The commands of docs/tutorial.md, typed in their order, from a folder of logs to a version on a loopback Hub."""

import re
import shlex
import shutil

import polars as pl
import pytest

from tests.hub_server import LoopbackHub
from tests.places import ROOT

PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
STEPS = re.findall(r"^```\n\$ (curate .*?)\n(.*?)^```|^```\n\$ (curate .*)\n```", PAGE, re.DOTALL | re.MULTILINE)
SERVES = "curate view out"
"""Does not end; tests/tasks/explore/test_view_command.py runs it."""
DRAFT = "--dry-run"


@pytest.fixture
def hub(monkeypatch):
    """An empty Hub."""
    server = LoopbackHub()
    server.is_the_hub(monkeypatch)
    yield server
    server.close()


def _first_words(text: str) -> set[str]:
    return {line.split()[0] for line in text.splitlines() if line.strip() not in ("", "…")}


def test_ten_steps_lead_from_logs_to_a_published_version(curate, curated, hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv("NO_GCE_CHECK", "true")  # asks the network whether this is one of Google's machines
    (tmp_path / "demo").symlink_to(curated.arena)
    store = shutil.copytree(curated.settings.store, tmp_path / "out")  # step 3, which the guide to operating types
    (tmp_path / "ours.yaml").write_text(PAGE.split("```yaml\n")[1].split("```")[0])
    dropped = curated.store.read("decisions").filter(pl.col("reasons") == ["pii_text"], item_kind="conversation")
    here = {
        "2024.08.18": curated.release.name,
        "adc189d2df34868e7eb8e843fb967cc5": dropped["item_id"][0],
        "ORG/NAME": "org/name",
    }
    typed, refusal = [], ""
    for command, shown, alone in STEPS:
        line = command or alone
        typed.append(line)
        for there, now in here.items():
            line, shown = line.replace(there, now), shown.replace(there, now)
        if line == SERVES:
            continue
        yes = ["--yes"] * ("publish" in line and DRAFT not in line)
        status, out, err = curate(*shlex.split(line)[1:], *yes)
        refused = "publish" in line and DRAFT in line
        assert status == (2 if refused else 0), (line, err)
        assert _first_words(shown) <= _first_words(out + err), (line, out + err)
        refusal = err if refused else refusal
    assert [len(typed), SERVES in typed] == [11, True]
    assert re.findall(r"--accept-embedded \w+", typed[-1]) == re.findall(r"--accept-embedded \w+", refusal)
    assert hub.repos["org/name"].tags.keys() == {"1.0.1"} and (store / "releases" / "1.0.1").is_dir()
