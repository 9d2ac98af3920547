"""What is published: one commit and a tag a repository, read back by the real `datasets`."""

import json
import re
import sys
from itertools import product
from pathlib import PurePosixPath

import pytest
import yaml

from schemas.errors import BadInput, ReleaseConflict
from tests.hub_repo import Repo
from tests.places import contents
from tests.small_store import manifest_of
from tests.tasks.publish.conftest import REPO, reader


def test_one_commit_holds_every_file_and_the_tag_points_at_it(hub, publish, release):
    commits = publish()
    repo = hub.repos[REPO]
    files = hub.files(REPO, "1.0.0")
    assert files.pop(".gitattributes")
    assert files == contents(release)
    assert repo.tags == {"1.0.0": commits[REPO]}
    assert repo.messages == ["initial commit", "Version 1.0.0"]
    assert repo.private


def test_a_new_version_replaces_the_old_files_and_the_old_tag_keeps_them(hub, publish, release):
    publish()
    stale = "chat/data/train-00001-of-00002.parquet"
    hub.repos[REPO].commit({**hub.files(REPO), stale: b"old shard", "LICENSE": b"ours"}, message="by hand")
    publish(release.parent / "1.1.0")
    files = hub.files(REPO)
    assert stale not in files
    assert files["LICENSE"] == b"ours"
    assert {p: files[p] for p in contents(release.parent / "1.1.0")} == contents(release.parent / "1.1.0")
    assert {p: hub.files(REPO, "1.0.0")[p] for p in contents(release)} == contents(release)
    assert sorted(hub.repos[REPO].tags) == ["1.0.0", "1.1.0"]


def test_files_that_did_not_change_are_not_uploaded_again(hub, publish, release):
    publish()
    hub.requests.clear()
    publish(release.parent / "1.1.0")
    sent = [path for method, path in hub.requests if method == "PUT"]
    old, new = manifest_of(release)["files"], manifest_of(release.parent / "1.1.0")["files"]
    changed = {f["sha256"] for n, f in new.items() if n.endswith(".parquet")} - {f["sha256"] for f in old.values()}
    assert sorted(sent) == sorted(f"/lfs/{sha}" for sha in changed)
    assert len(sent) < len([name for name in new if name.endswith(".parquet")])


@pytest.mark.parametrize("per_config", [False, True])
def test_a_version_that_exists_is_refused_and_nothing_is_sent(hub, publish, per_config):
    publish(per_config=per_config)
    hub.requests.clear()
    with pytest.raises(ReleaseConflict, match=r"has version 1\.0\.0 already"):
        publish(per_config=per_config)
    assert hub.writes() == []


def test_a_tag_with_other_files_is_refused(hub, publish):
    hub.repos[REPO] = Repo(private=True)
    hub.repos[REPO].tags["1.0.0"] = hub.repos[REPO].commit({"LICENSE": b"other"})
    with pytest.raises(ReleaseConflict):
        publish()


def test_every_configuration_has_a_repository_of_its_own(hub, publish, release):
    assert sorted(publish(per_config=True)) == [f"org/arena-{name}" for name in ("battle", "bench", "chat", "failures")]
    files = hub.files("org/arena-chat", "1.0.0")
    assert files["data/train-00000-of-00001.parquet"] == contents(release)["chat/data/train-00000-of-00001.parquet"]
    assert b"config_name: chat" in files["README.md"]
    assert b"path: data/train-*.parquet" in files["README.md"]
    assert b"config_name: battle" not in files["README.md"]
    assert [records["name"] for records in json.loads(files["croissant.json"])["recordSet"]] == ["chat"]
    assert files["CITATION.cff"] == contents(release)["CITATION.cff"]
    assert not any(path.startswith(("battle", "bench", "leaderboard")) for path in files)
    assert "leaderboard/overall.csv" in hub.files("org/arena-battle")
    of_bench = hub.files("org/arena-bench")
    task = yaml.safe_load(re.sub(rb"!function", b"", of_bench["runners/lmms_eval/arena_bench.yaml"]))
    assert [path for path in of_bench if PurePosixPath(path).match(task["dataset_kwargs"]["data_files"]["train"])]
    assert b"--include_path runners/lmms_eval" in of_bench["runners/lmms_eval/arena_bench.yaml"]


def test_of_several_repositories_those_that_are_done_stay_when_the_rest_is_finished(hub, publish):
    hub.fail("POST", "/api/datasets/org/arena-bench/commit/", 403, times=1)
    with pytest.raises(Exception, match="403"):
        publish(per_config=True)
    done = dict(hub.repos["org/arena-chat"].tags)
    publish(per_config=True)
    assert hub.repos["org/arena-chat"].tags == done != {}
    assert hub.repos["org/arena-chat"].messages.count("Version 1.0.0") == 1
    assert hub.repos["org/arena-bench"].tags


def test_a_preview_goes_to_a_branch_without_a_tag_and_may_be_repeated(hub, publish, release):
    for _ in range(2):
        publish(preview=True)
    repo = hub.repos[REPO]
    assert repo.tags == {}
    assert set(repo.branches) == {"main", "preview-1.0.0"}
    assert hub.files(REPO, "main").keys() == {".gitattributes"}
    assert contents(release).items() <= hub.files(REPO, "preview-1.0.0").items()


@pytest.mark.parametrize(("private", "public", "told"), [(False, False, "say public"), (True, True, "is private")])
def test_visibility_is_never_a_surprise(hub, publish, private, public, told):
    hub.repos[REPO] = Repo(private=private)
    hub.repos[REPO].commit({})
    with pytest.raises(BadInput, match=told):
        publish(public=public)
    assert hub.writes() == []


def test_a_new_repository_is_public_only_when_said_so(hub, publish):
    publish(public=True)
    assert not hub.repos[REPO].private


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
