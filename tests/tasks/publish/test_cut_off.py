"""A process that is killed while it sends: what arrived whole is not sent again, by the bytes that arrive."""

import subprocess
import sys
import time
from collections import Counter

from tests.hub_server import LoopbackHub
from tests.small_store import manifest_of
from tests.tasks.publish.conftest import REPO, reader_environment

CURATE = "from flows.commands import main; main()"


def sizes(release) -> dict[str, int]:
    """Where every large file goes on the Hub, and its bytes; without files of one content, sent once or twice."""
    files = manifest_of(release)["files"]
    large = {name: files[name]["sha256"] for name in sorted(files) if name.endswith(".parquet")}
    times = Counter(large.values())
    return {
        f"/lfs/{content}": (release / name).stat().st_size for name, content in large.items() if times[content] == 1
    }


def wait_for(condition) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it did not come to that")


def test_a_killed_upload_sends_again_only_the_file_that_was_under_way(hub: LoopbackHub, curate, release, tmp_path):
    wanted = sizes(release)
    half = list(wanted)[-1]
    others = wanted.keys() - {half}
    there = hub.stall(half)
    command = [sys.executable, "-c", CURATE, "publish", str(release), "--repo", REPO, "--yes"]
    with subprocess.Popen(command, env=reader_environment(hub, tmp_path), stderr=subprocess.DEVNULL) as killed:
        try:
            wait_for(lambda: there.is_set() and others <= {f"/lfs/{oid}" for oid in hub.blobs})
        finally:
            killed.kill()
    assert {path: hub.received[path] for path in wanted} == wanted | {half: wanted[half] // 2}
    assert hub.repos[REPO].messages == ["initial commit"]

    code, _, err = curate("publish", release, "--repo", REPO, "--yes")
    assert (code, err) == (0, "")
    assert {path: hub.received[path] for path in wanted} == wanted | {half: wanted[half] // 2 + wanted[half]}
    assert hub.repos[REPO].tags.keys() == {"1.0.0"}
