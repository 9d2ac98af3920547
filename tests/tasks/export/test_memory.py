"""An export needs memory for ids and a part of the rows, however many texts and pictures a release has."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.tampered_release import BATTLE, CHAT, reseal, state_rows

RESET = Path("/proc/self/clear_refs")
ROWS, GROUP_ROWS, BYTES = 1_600, 32, 64_000
EXPORT = f"""
import sys
from pathlib import Path
from schemas.publication import FileFormat, PreferenceSelection, PreferenceStyle, SftSelection, SftStyle
from tasks.export import sft
from tasks.export.preferences import export_preferences

def status_mb(name):
    return int(Path("/proc/self/status").read_text().split(f"{{name}}:")[1].split()[0]) // 1024

kind, release, out = sys.argv[1], *map(Path, sys.argv[2:])
sft.ORDERED_BYTES, sft.ROWS_AT_ONCE = 4 * 2**20, 64
chosen = SftSelection(models=99, all_answers=True)
Path("{RESET}").write_text("5")
before = status_mb("VmRSS")
if kind == "preferences":
    rows = export_preferences(release, out, PreferenceSelection(held_out=0), PreferenceStyle.TRL).rows["train"]
else:
    rows = sft.export_sft(release, out, chosen, SftStyle.MESSAGES, FileFormat(kind))["examples"]
print(rows, status_mb("VmHWM") - before)
"""


def _grown(release: Path, shard: str, texts: bool) -> None:
    """Give a shard of a release `ROWS` rows that are exported, each with a text or a picture of `BYTES`."""
    path, key = release / shard, "conversation_id" if shard == CHAT else "question_id"
    kinds = [
        row
        for row in pq.read_table(path).to_pylist()
        if row.get("winner", "model_a") == "model_a" and not row.get("in_bench")
    ]
    with pq.ParquetWriter(path, pq.read_schema(path)) as file:
        for first in range(0, ROWS, GROUP_ROWS):
            rows = [kinds[number % len(kinds)] | {key: f"row {number}"} for number in range(first, first + GROUP_ROWS)]
            for number, row in enumerate(rows, first):
                answer = {"role": "assistant", "content": f"{number} {'An answer. ' * (BYTES // 11)}", "images": []}
                picture = {"bytes": os.urandom(BYTES), "path": f"{number:032x}.png"}
                row |= {"conversation": [row["conversation"][0], answer]} if texts else {"images": [picture]}
            file.write_table(pa.Table.from_pylist(rows, file.schema))
    reseal(release)
    state_rows(release, shard.partition("/")[0], ROWS)


@pytest.mark.skipif(not RESET.exists(), reason="only Linux tells and resets a process's peak memory")
@pytest.mark.parametrize(
    ("kind", "shard", "texts", "growth_mb_max"),
    [  # About 70, 110 and 55 MB. With all texts held, lines took 136 and a table 331; all pictures are 102.
        ("jsonl", CHAT, True, 105),
        ("parquet", CHAT, True, 200),
        ("preferences", BATTLE, False, 110),
    ],
)
def test_memory_does_not_grow_with_texts_or_pictures(release, tmp_path, kind, shard, texts, growth_mb_max):
    """In a process of its own: memory that earlier tests gave back would hide what this one takes."""
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    _grown(copy, shard, texts)
    command = [sys.executable, "-c", EXPORT, kind, str(copy), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows, growth_mb = map(int, done.stdout.split())
    assert rows == ROWS
    assert growth_mb < growth_mb_max
