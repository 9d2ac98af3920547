"""The card of training data says what it is, whatever models and topics are called, and `datasets` reads by it."""

import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import yaml
from datasets import load_dataset

from tests.hostile_texts import HOSTILE_TEXTS
from tests.hub_repo import Repo
from tests.hub_server import LoopbackHub
from tests.places import contents
from tests.small_store import manifest_of
from tests.tampered_release import CHAT, card_says, rewrite
from tests.tasks.export.conftest import examples, limits
from tests.tasks.publish.conftest import reader_environment

HEADINGS = ["# Conversations of the best models, for fine-tuning", "## How to read it", "## Licence", "## Removal"]


def card(out: Path) -> tuple[dict, str]:
    """Front matter and text."""
    before, front, text = (out / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    assert before == ""
    return yaml.safe_load(front), text


def headings(text: str) -> list[str]:
    """Every heading outside code."""
    return [line for part in text.split("```")[::2] for line in part.splitlines() if line.startswith("#")]


def test_it_says_what_was_taken_from_which_release_and_on_what_terms(sft, release):
    _, err, out = sft(*limits(models=2, per_model=3, per_topic=4, conversations=1234), "--seed", 7)
    assert err == ""
    front, text = card(out)
    rows, images = len(examples(out)), len(list((out / "images").iterdir()))
    assert f"{rows} conversations and {images} images of version 1.0.0 of Vision arena" in text
    assert "* Answers of the 2 best models of the overall leaderboard" in text
    assert "* At most 1,234 conversations, drawn with seed 7." in text
    assert "* At most 3 of a model.\n* At most 4 of a topic.\n" in text
    assert headings(text) == HEADINGS
    for section in ("Licence", "Removal"):
        theirs = (release / "README.md").read_text(encoding="utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
        assert theirs.strip() in text
    assert (front["license"], front["size_categories"]) == ("other", ["n<1K"])


def test_a_licence_and_stand_ins_of_the_release_are_those_of_the_card(sft, release, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    card_says(copy, "license: other", "license: cc-by-4.0")
    front, text = card(sft(of=copy)[2])
    assert front["license"] == "cc-by-4.0"
    assert text.startswith("> **Built with embedded stand-ins**")
    assert manifest_of(copy)["embedded_providers"][0] in text


@pytest.mark.parametrize("style", ["messages", "llava"])
@pytest.mark.parametrize("form", ["jsonl", "json", "parquet"])
def test_datasets_reads_the_folder_by_its_card(sft, tmp_path, style, form):
    _, _, out = sft("--example-format", style, "--file-format", form)
    assert card(out)[0]["configs"][0]["data_files"] == [{"split": "train", "path": f"train.{form}"}]
    rows = load_dataset(str(out), split="train", cache_dir=str(tmp_path / "cache"))
    assert set(rows.column_names) >= {"id", "model", "language", "topic"}
    assert rows.num_rows == len(examples(sft("--example-format", style)[2]))


def test_put_on_the_hub_as_it_is_datasets_reads_it_there(sft, tmp_path):
    hub = LoopbackHub()
    _, _, out = sft()
    hub.repos["org/sft"] = Repo(private=True)
    hub.repos["org/sft"].commit(contents(out))
    read = "import datasets; print([row['id'] for row in datasets.load_dataset('org/sft', split='train')])"
    done = subprocess.run(
        [sys.executable, "-c", read], env=reader_environment(hub, tmp_path), capture_output=True, text=True
    )
    hub.close()
    assert done.stdout.strip() == str([row["id"] for row in examples(out)]), done.stderr


def test_hostile_names_of_models_and_topics_stay_in_their_cells(sft, release, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    names = [*HOSTILE_TEXTS.values(), "---\nlicense: mit\n---\n# Mine", "![x](https://evil.test/p.png)", "a | b\n| c"]

    def one_each(rows):
        return [rows[0] | {"conversation_id": f"h{n}", "model": name, "topic": name} for n, name in enumerate(names)]

    rewrite(copy, CHAT, one_each)
    board = pl.read_parquet(copy / "leaderboard" / "overall.parquet").filter(slice="overall").head(1)
    rated = [board.with_columns(model=pl.lit(name), rating=1000.0 - n) for n, name in enumerate(names)]
    pl.concat(rated).write_parquet(copy / "leaderboard" / "overall.parquet")
    _, err, out = sft(*limits(models=len(names)), of=copy)
    assert err == ""
    front, text = card(out)
    assert headings(text) == HEADINGS
    assert [line.startswith("| ") and line.endswith(" | 1 |") for line in text.splitlines()].count(True) == len(names)
    table = text.partition("|---|--:|\n")[2].partition("\n\n")[0]
    assert len(table.splitlines()) == len(names)
    assert not any(sign in table for sign in ("<", "`", "![", "](", "\u202e", "\x00", "\x1b"))
    assert (front["license"], len(front["configs"])) == ("other", 1)
    assert load_dataset(str(out), split="train", cache_dir=str(tmp_path / "cache")).num_rows == len(names)


def test_a_release_whose_card_is_none_is_one_clear_line(sft, release, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    (copy / "README.md").write_text("no front matter")
    code, err, out = sft(of=copy)
    assert (code, err.count("\n"), out.exists()) == (2, 1, False)
    assert "its README.md is no card" in err
