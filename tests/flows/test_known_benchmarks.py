"""Benchmarks of others in a whole run: named in curate.yaml, counted in card, report and `bench check`."""

import io
import json
import shutil
from pathlib import Path

import PIL.Image
import polars as pl
import pytest

from tasks.images.decode import open_image
from tasks.storage.tables import Store
from tests.flows.conftest import Curated

pytestmark = pytest.mark.timeout(1800)  # a run of its own, on a machine that may be busy


def _released_chat(curated: Curated) -> dict:
    """A released chat with one picture that no other released row shows."""
    rows = pl.concat(
        pl.read_parquet(curated.release / config / "data" / "*.parquet", columns=[key, "images"])
        .rename({key: "id"})
        .with_columns(config=pl.lit(config))
        for config, key in (("chat", "conversation_id"), ("battle", "question_id"), ("bench", "question_id"))
    )
    shown = rows.explode("images").drop_nulls("images").unnest("images")
    once = shown.filter(pl.len().over("path") == 1, pl.len().over("config", "id") == 1, config="chat")
    return once.sort("id").row(0, named=True)


@pytest.fixture
def benchmark(curated, tmp_path) -> tuple[Path, dict]:
    """A folder with a smaller copy of a released chat's picture, a broken picture and others, and that chat."""
    chat = _released_chat(curated)
    folder = tmp_path / "TheirBench"
    folder.mkdir()
    picture = PIL.Image.open(io.BytesIO(chat["bytes"])).convert("RGB")
    small = picture.resize((max(9, picture.width * 3 // 4), max(9, picture.height * 3 // 4)))
    small.save(folder / "question-17.png")
    (folder / "torn.png").write_bytes((folder / "question-17.png").read_bytes()[:200])
    PIL.Image.effect_noise((200, 160), 90).save(folder / Path(chat["path"]).name, "PNG")  # a name alone says nothing
    question = {"question": "Which of the nine towers behind the river is the one that the second tram passes first?"}
    (folder / "questions.jsonl").write_text(json.dumps(question))
    return folder, chat


def test_a_run_counts_what_is_in_a_benchmark_that_curate_yaml_names(curated, curate, benchmark, tmp_path, monkeypatch):
    folder, chat = benchmark
    monkeypatch.chdir(tmp_path)
    shutil.copytree(curated.settings.store, "store")
    Path("curate.yaml").write_text(
        json.dumps({"store": "store", "logs": curated.settings.logs, "known_benchmarks": [str(folder)]})
    )
    code, _, err = curate("run")
    assert code == 0, err
    assert "TheirBench: torn.png (image_truncated)" in err
    assert str(folder) not in "".join(path.read_text() for path in Path("store/runs").iterdir())
    newest = max(Path("store/releases").iterdir(), key=lambda release: release.stat().st_mtime)
    rows = pl.read_parquet(newest / "known_benchmarks/rows.parquet")
    assert ("chat", chat["id"], "TheirBench", True, False) in rows.rows()
    for config, count in rows.group_by("config").len().iter_rows():
        assert f"| TheirBench | `{config}` | {count} | 0 | 0 |" in (newest / "README.md").read_text()
    assert "What other benchmarks hold" in (newest / "report" / "index.html").read_text()
    store = Store("store")
    decision = store.read("decisions").filter(item_id=chat["id"], item_kind="conversation")
    assert decision.select("keep", pl.col("tags").list.contains("known_benchmark")).rows() == [(True, True)]
    matches = store.read("known_matches")  # the arena has copies of some pictures, so other chats may match, too
    assert set(matches["picture"]) == {open_image((folder / "question-17.png").read_bytes()).image_id}
    code, out, _ = curate("bench", "check", "--store", "store", "--json")
    (count,) = map(json.loads, out.splitlines())
    assert (code, count["benchmark"], count["picture"], count["question"]) == (1, "TheirBench", matches.height, 0)
    assert "known benchmarks: TheirBench" in curate("explain", chat["id"], "--store", "store")[1]
