"""Correlations of WildVision's printed tables are those that the tables give."""

import csv
import os
from pathlib import Path

import pytest

from tasks.judging.agreement.correlation import read_scores, score_correlations
from tests.places import SHARED_DATA

BESIDE = SHARED_DATA
FOLDER = Path(os.environ.get("CURATE_TEST_DATA", BESIDE)) / "printed-tables"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the printed tables are not on this machine")
RENAMES = {
    "Bunny-V1-3B": "Bunny-3B",
    "CogVLM-Chat-HF-13B": "CogVLM-Chat-HF",
    "Claude-3-OPUS": "Claude-3-Opus",
    "Idefics2-8B": "Idefics2",
    "MiniCPM-V-3B": "MiniCPM-V",
    "Qwen-VL-Chat-10B": "Qwen-VL-Chat",
    "Tiny-LLaVA-v1-HF-3B": "Tiny-LLaVA",
    "UFORM-Gen2-Qwen-500M": "UFORM-Gen2-Qwen",
}


def test_wildvisions_elo_bench_and_mmmu(tmp_path):
    with (FOLDER / "wildvision-table2.csv").open(encoding="utf-8") as file:
        rows = [("-".join(filter(None, (r["model"], r["size"]))), r["elo"], r["mmmu"]) for r in csv.DictReader(file)]
    with (tmp_path / "arena.csv").open("w", encoding="utf-8") as file:
        csv.writer(file).writerows([("model", "elo", "mmmu"), *rows])
    scores, near = read_scores(
        [tmp_path / "arena.csv", FOLDER / "wildvision-table4.csv"], RENAMES, ("elo", "score", "mmmu")
    )
    assert near == []
    found = {(row.a, row.b): (round(row.spearman, 3), row.models) for row in score_correlations(scores)}
    assert found == {("elo", "score"): (0.963, 21), ("elo", "mmmu"): (0.813, 19), ("score", "mmmu"): (0.866, 19)}
