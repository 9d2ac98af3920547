"""What was published is read back by the real `datasets`, by its tag, from one repository or from three."""

import json
import sys
from itertools import product

from tests.small_store import manifest_of
from tests.tasks.publish.conftest import REPO, reader

COMPARED = """
import io, json, sys
from pathlib import Path

import datasets
import pyarrow.parquet as pq
from PIL import Image

for repo, name, version, config, release in json.loads(sys.argv[1]):
    loaded = datasets.load_dataset(repo, name, revision=version, split="train")
    pixels = [[picture.convert("RGB").size for picture in row["images"]] for row in loaded]
    bare = loaded.cast_column("images", datasets.List(datasets.Image(decode=False)))
    shards = sorted(Path(release, config, "data").glob("*.parquet"))
    ours = [row for shard in shards for row in pq.read_table(shard).to_pylist()]
    sizes = [[Image.open(io.BytesIO(picture["bytes"])).size for picture in row["images"]] for row in ours]
    streamed = datasets.load_dataset(repo, name, revision=version, split="train", streaming=True)
    key = next(each for each in ("conversation_id", "question_id") if each in loaded.column_names)
    print(json.dumps({
        "config": config,
        "rows": loaded.num_rows,
        "equal": bare.to_list() == ours,
        "decoded": pixels == sizes,
        "streamed": [row[key] for row in streamed] == [row[key] for row in ours],
    }))
"""


def compared(hub, folder, wanted) -> list[dict]:
    """What another process finds, with a cache of its own: (repository, name, tag, configuration, release) each."""
    done = reader(hub, folder, sys.executable, "-c", COMPARED, json.dumps(wanted))
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_datasets_reads_every_row_and_image_of_a_version_by_its_tag(hub, curate, release, tmp_path):
    """Each version goes to one repository, and to one a configuration; one process reads all of them."""
    wanted = []
    for folder, apart in product((release, release.parent / "1.1.0"), (False, True)):
        code, _, err = curate("publish", folder, "--repo", REPO, "--yes", *(["--repo-per-config"] if apart else []))
        assert code == 0, err
        for config in ("chat", "battle", "bench"):
            repo = f"{REPO}-{config}" if apart else REPO
            wanted.append((repo, config, folder.name, config, str(folder)))
    wanted.append((REPO, None, "1.0.0", "chat", str(release)))
    wanted.append((f"{REPO}-battle", None, "1.0.0", "battle", str(release)))
    found = compared(hub, tmp_path, wanted)
    rows = [manifest_of(release.parent / version)["counts"][config] for _, _, version, config, _ in wanted]
    assert [each.pop("rows") for each in found] == rows
    assert found == [{"config": each[3], "equal": True, "decoded": True, "streamed": True} for each in wanted]
    assert rows[0] == rows[6] + 1  # 1.1.0 has a conversation less


def test_a_folder_of_a_version_is_listed_alone(hub, curate, release):
    """As the Hub does, whose answer about a folder has none of the files of others."""
    from tasks.publish.hub import hub_api

    assert curate("publish", release, "--repo", REPO, "--yes")[0] == 0
    listed = hub_api().list_repo_tree(REPO, "report", repo_type="dataset", revision="1.0.0")
    assert {entry.path for entry in listed} == {"report/figures", "report/index.html", "report/tables"}
    whole = hub_api().list_repo_tree(REPO, repo_type="dataset", revision="1.0.0", recursive=True)
    files = {path.relative_to(release).as_posix() for path in release.rglob("*")}
    assert {entry.path for entry in whole} == files | {".gitattributes"}
