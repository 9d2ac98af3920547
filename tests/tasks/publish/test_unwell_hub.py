"""An unwell Hub or network is waited for; what cannot be mended by waiting is one clear line; rerunning completes."""

import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from flows.products import parts_of_release
from schemas.errors import HubError
from tasks.publish.plan import plan_upload
from tasks.publish.records import forget, of_version, record_publication
from tests.builders import NOON
from tests.hub_server import TOKEN, LoopbackHub
from tests.places import contents
from tests.small_store import manifest_of
from tests.tasks.publish.conftest import REPO, reader_environment
from tests.waiting import wait_until

COMMIT = ("POST", f"/api/datasets/{REPO}/commit/")
TAG = ("POST", f"/api/datasets/{REPO}/tag/")
CREATE = ("POST", "/api/repos/create")


@pytest.mark.parametrize(("request_", "status"), [(COMMIT, 429), (COMMIT, 503), (TAG, 502), (CREATE, 504)])
def test_a_passing_fault_is_waited_for(hub, publish, waited, release, request_, status):
    hub.fail(*request_, status, times=2)
    publish()
    assert waited == [1.0, 2.0]
    assert contents(release).items() <= hub.files(REPO, "1.0.0").items()


@pytest.mark.parametrize("request_", [COMMIT, TAG, CREATE])
@pytest.mark.parametrize("how", ["fail", "drop"])
def test_an_answer_that_was_lost_after_the_work_was_done_does_it_once(hub, publish, release, request_, how):
    status = [503] if how == "fail" else []
    getattr(hub, how)(*request_, *status, after=True)
    commits = publish()
    assert hub.repos[REPO].messages.count("Version 1.0.0") == 1
    assert hub.repos[REPO].tags == {"1.0.0": commits[REPO]}


def test_a_hub_that_stays_unwell_is_one_line_and_the_next_run_sends_only_what_is_missing(hub, publish, waited):
    hub.fail(*COMMIT, 503, times=6)
    with pytest.raises(HubError, match="the Hub answered 503 6 times; nothing was lost; run the same command again"):
        publish()
    assert len(waited) == 5
    uploaded = set(hub.blobs)
    assert hub.repos[REPO].tags == {}
    hub.requests.clear()
    publish()
    assert set(hub.blobs) == uploaded
    assert [path for method, path in hub.requests if method == "PUT"] == []
    assert hub.repos[REPO].tags.keys() == {"1.0.0"}


def test_a_run_that_ended_after_the_tag_is_completed_by_the_next(hub, publish, store):

    publish()
    release = Path(store.root) / "releases" / "1.0.0"
    forget(store, "1.0.0", REPO)
    record_publication(store, plan_upload(release, REPO, parts_of_release, False, False, False), NOON)
    commits = publish()
    assert [row.commit for row in of_version(store, "1.0.0")] == [commits[REPO]]
    assert hub.repos[REPO].messages.count("Version 1.0.0") == 1


def test_the_hub_says_how_long_to_wait(hub, publish, waited):
    hub.fail(*COMMIT, 429, retry_after=7)
    publish()
    assert waited == [7.0]


@pytest.mark.parametrize("how", ["fail", "drop"])
def test_an_upload_that_breaks_off_is_taken_up_again(hub, publish, release, how):
    getattr(hub, how)("PUT", "/lfs/", *([503] if how == "fail" else []))
    publish()
    assert contents(release).items() <= hub.files(REPO, "1.0.0").items()


@pytest.mark.parametrize(
    ("status", "told"),
    [(401, "HF_TOKEN is expired or wrong"), (403, "HF_TOKEN may not write there"), (409, "the name is taken")],
)
@pytest.mark.parametrize("request_", [("GET", f"/api/datasets/{REPO}"), COMMIT])
def test_a_refusal_is_one_line_at_once_and_never_holds_the_token(hub, publish, waited, request_, status, told):
    hub.fail(*request_, status, times=9)
    with pytest.raises(HubError, match=told) as error:
        publish()
    assert waited == []
    assert "\n" not in str(error.value)
    assert TOKEN not in str(error.value)


def test_an_expired_token_is_told_from_a_missing_repository(hub, publish):
    hub.token = "hf_another"
    with pytest.raises(HubError, match="HF_TOKEN is expired or wrong"):
        publish()
    assert hub.repos == {}


def test_a_namespace_of_somebody_else_is_one_line(hub, publish):
    hub.account["orgs"] = [{"name": "other", "roleInOrg": "write"}]  # and is refused all the same
    with pytest.raises(HubError, match=r"making other/arena: the Hub answered 403: HF_TOKEN may not write there"):
        publish(repo="other/arena")


def test_somebody_elses_commit_meanwhile_is_not_overwritten(hub, publish):
    publish(preview=True)
    hub.fail(*COMMIT, 412)
    with pytest.raises(HubError, match="somebody else committed meanwhile; run the same command again"):
        publish()
    publish()
    assert hub.repos[REPO].tags.keys() == {"1.0.0"}


def test_nobody_there_at_all_is_one_line(publish, hub, waited, monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{unused.getsockname()[1]}")
        with pytest.raises(HubError, match=r"the connection failed \(ConnectError\) 6 times"):
            publish()


CURATE = "from flows.commands import main; main()"


def sizes(release) -> dict[str, int]:
    """Where every large file goes on the Hub, and its bytes; without files of one content, sent once or twice."""
    files = manifest_of(release)["files"]
    large = {name: files[name]["sha256"] for name in sorted(files) if name.endswith(".parquet")}
    times = Counter(large.values())
    return {
        f"/lfs/{content}": (release / name).stat().st_size for name, content in large.items() if times[content] == 1
    }


def test_a_killed_upload_sends_again_only_the_file_that_was_under_way(hub: LoopbackHub, curate, release, tmp_path):
    wanted = sizes(release)
    half = list(wanted)[-1]
    others = wanted.keys() - {half}
    there = hub.stall(half)
    command = [sys.executable, "-c", CURATE, "publish", str(release), "--repo", REPO, "--yes"]
    with subprocess.Popen(command, env=reader_environment(hub, tmp_path)) as killed:  # a failure shows its output
        try:
            wait_until(lambda: there.is_set() and others <= {f"/lfs/{oid}" for oid in hub.blobs}, killed)
        finally:
            killed.kill()
    assert {path: hub.received[path] for path in wanted} == wanted | {half: wanted[half] // 2}
    assert hub.repos[REPO].messages == ["initial commit"]

    code, _, err = curate("publish", release, "--repo", REPO, "--yes")
    assert (code, err) == (0, "")
    assert {path: hub.received[path] for path in wanted} == wanted | {half: wanted[half] // 2 + wanted[half]}
    assert hub.repos[REPO].tags.keys() == {"1.0.0"}
