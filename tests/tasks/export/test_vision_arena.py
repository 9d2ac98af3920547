"""`curate export dataset --compat visionarena`: what reads the published datasets reads this."""

import json
import re
import shutil
import sys
from pathlib import Path

import polars as pl
import pytest
import yaml
from datasets import List, get_dataset_config_names, load_dataset

from flows.commands import main
from schemas.publication import Compat
from tasks.export.compat import (
    PUBLISHED_FEATURES,
    export_beside,
    export_vision_arena,
    published_row,
)
from tasks.export.published_ids import judge_name, user_number
from tasks.storage.keyed_ids import KEY_VARIABLE
from tasks.storage.tables import Store
from tasks.takedown.releases import withdraw_releases
from tests.places import contents
from tests.small_store import HOSTILE_MODEL, USER, manifest_of
from tests.tampered_release import BATTLE, CHAT, change_row, rewrite
from tests.tasks.ingest.logs import ingested


@pytest.fixture
def exported(release, tmp_path, monkeypatch):
    out = tmp_path / "out"
    monkeypatch.setattr(
        sys, "argv", ["curate", "export", "dataset", str(release), "--out", str(out), "--compat", "visionarena"]
    )
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code in (None, 0)
    return out


def test_datasets_loads_the_published_columns_and_types(exported, tmp_path):
    chat = load_dataset(str(exported), "chat", split="train", cache_dir=str(tmp_path / "cache"))
    row = chat[1]
    assert chat.column_names == [
        "images", "conversation_id", "model", "num_turns", "conversation", "language", "user_id", "tstamp", "is_preset",
        "preset_dataset", "categories",
    ]  # fmt: skip
    assert [set(wrapped[0]) for wrapped in row["conversation"]] == [{"content", "role"}] * len(row["conversation"])
    assert (row["user_id"], chat.features["num_turns"].dtype) == (int(USER[:13], 16), "int64")
    assert row["images"][0].size
    bench = load_dataset(str(exported), "bench", split="train", cache_dir=str(tmp_path / "cache"))
    assert isinstance(bench.features["turns"].feature, List)


def test_a_loader_of_the_published_repositories_needs_nothing_but_another_name(exported, tmp_path):
    def load(name):
        return load_dataset(name, split="train", cache_dir=str(tmp_path / "cache"))

    chat, battle, bench = (load(str(exported / config)) for config in ("chat", "battle", "bench"))
    first = [(row["conversation"][0][0]["role"], row["images"][0].size) for row in chat]
    assert {role for role, _ in first} == {"user"} and len(first) == len(chat)
    votes = battle.to_pandas().groupby("winner").size()
    assert set(votes.index) == {"model_a", "model_b", "tie", "tie (bothbad)"}
    assert [row["turns"][0][0]["content"] for row in bench] == ["What is in picture 0?"]


def test_every_image_is_called_a_png_and_one_user_is_one_number_as_there():
    jpeg = {"bytes": b"", "path": f"{'0' * 32}.jpeg"}
    row = {"question_id": "q", "turns": [], "images": [jpeg]}
    assert published_row("bench", row)["images"] == [{"bytes": b"", "path": f"{'0' * 32}.png"}]
    assert user_number(USER) == user_number(USER) != user_number("f" * 24)
    assert int(float(user_number("f" * 24))) == user_number("f" * 24)
    assert (user_number(None), judge_name(None)) == (None, None)
    assert judge_name(USER) != judge_name("f" * 24)


def test_our_own_reader_of_the_published_datasets_reads_it_back(exported, release, tmp_path, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, "the key of every store here")
    store = ingested(exported / "chat", tmp_path / "again", format="vision-arena-chat")
    chat = pl.read_parquet(release / "chat/data/*.parquet")
    again = store.read("conversations")
    assert set(store.read("rejects")["reason"]) == {"bad_model"}  # the name that no log line may have either
    chat = chat.filter(pl.col("model") != HOSTILE_MODEL)
    assert sorted(again["model"]) == sorted(chat["model"])
    texts = sorted([turn["content"] for turn in turns] for turns in again["turns"].to_list())
    assert texts == sorted([turn["content"] for turn in turns] for turns in chat["conversation"].to_list())


def test_rows_without_an_image_are_left_out_as_loaders_take_the_first(release, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    rewrite(copy, CHAT, lambda rows: [rows[0] | {"images": []}, *rows[1:]])
    rows = export_vision_arena(copy, tmp_path / "out")
    assert rows["chat"] == manifest_of(copy)["counts"]["chat"] - 1
    assert pl.read_parquet(tmp_path / "out/chat/data/*.parquet")["images"].list.len().min() == 1
    assert "(chat 1, battle 0, bench 0)" in (tmp_path / "out/README.md").read_text()


def test_battles_on_example_images_are_left_out_as_there_and_chats_on_them_stay(curate, release, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    for shard in (CHAT, BATTLE):
        change_row(copy, shard, is_preset=True)
    code, out, _ = curate("export", "dataset", copy, "--out", tmp_path / "out")
    counts = manifest_of(copy)["counts"]
    assert (code, out.splitlines()[-1]) == (0, "left out, without an image or votes on example images: battle 1")
    votes = pl.read_parquet(tmp_path / "out/battle/data/*.parquet")
    ours = pl.read_parquet(release / "battle/data/*.parquet")
    assert votes["question_id"].to_list() == ours["question_id"].to_list()[1:]
    assert pl.read_parquet(tmp_path / "out/chat/data/*.parquet").height == counts["chat"]
    assert (
        "example\n  images, as in VisionArena-Battle (chat 0, battle 1, bench 0)"
        in (tmp_path / "out/README.md").read_text()
    )


def test_every_folder_says_what_the_release_says_of_removal_licence_and_stand_ins(exported, release):
    told = (release / "README.md").read_text(encoding="utf-8")
    kept = [told[told.index(f"## {title}") :].split("\n\n")[1] for title in ("What was removed", "Licence", "Removal")]
    for folder in (exported, *(exported / config for config in PUBLISHED_FEATURES)):
        card = (folder / "README.md").read_text(encoding="utf-8")
        assert all(text.strip() in card for text in kept)
        assert "> **Built with embedded stand-ins**" in card
        assert "### chat" not in card
        (loaded,) = {each["data_files"][0]["path"] for each in yaml.safe_load(card.split("---\n")[1])["configs"][:1]}
        assert list(folder.glob(loaded))


def test_a_version_of_a_release_of_others_is_text_in_the_cards(release, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    manifest = json.loads((copy / "manifest.json").read_text(encoding="utf-8"))
    (copy / "manifest.json").write_text(json.dumps(manifest | {"version": "1\n\n## Licence\n\n[free](http://x)"}))
    export_vision_arena(copy, tmp_path / "out")
    card = (tmp_path / "out/README.md").read_text(encoding="utf-8")
    assert card.count("\n## Licence") == 1 and "[free](" not in card


def test_the_cards_of_an_export_name_only_what_datasets_can_load_from_it(release, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    rewrite(copy, BATTLE, lambda rows: [row | {"is_preset": True} for row in rows])
    export_vision_arena(copy, tmp_path / "out")
    assert get_dataset_config_names(str(tmp_path / "out")) == ["chat", "bench"]
    for config in ("chat", "bench"):
        assert len(load_dataset(str(tmp_path / "out"), config, split="train", cache_dir=str(tmp_path / "cache"))) > 0
    assert "configs: []" in (tmp_path / "out/battle/README.md").read_text(encoding="utf-8")


def test_a_release_has_the_published_columns_judge_and_metadata_beside_itself(release, exported, tmp_path):
    (row, *_) = pl.read_parquet(exported / "battle/data/*.parquet").to_dicts()
    ours = pl.read_parquet(release / "battle/data/*.parquet").to_dicts()[0]
    assert re.fullmatch(r"arena_user_[2-9A-HJ-NP-Za-km-z]{22}", row["judge"])
    assert row["winner"] == ours["winner"]
    assert row["conv_metadata"]["sum_assistant_a_tokens"] == ours["conv_metadata"]["a"]["assistant_tokens"]
    assert set(row["conv_metadata"]["header_count_b"]) == {f"h{level}" for level in range(1, 7)}
    assert "in_bench" not in row
    store = Store(str(shutil.copytree(release.parents[1], tmp_path / "store")))
    assert export_beside(store, "releases/1.0.0", Compat.VISIONARENA) == "exports/1.0.0-visionarena"
    beside = Path(store.at("exports/1.0.0-visionarena"))
    assert contents(beside) == contents(exported)
    withdraw_releases(store, ["1.0.0"])
    assert not beside.exists()
