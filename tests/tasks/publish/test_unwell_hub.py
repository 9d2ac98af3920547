"""A Hub, a network or a token that does not serve: waited for, or one clear line; rerunning completes."""

import errno
import json
import os
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from flows.products import parts_of_release
from schemas.errors import BadInput, HubError
from tasks.publish.hub import Remote, hub_api
from tasks.publish.plan import plan_upload
from tasks.publish.push import yank_version
from tasks.publish.records import of_version, record_publication, record_yank
from tasks.publish.steps import describe_release
from tests.builders import NOON
from tests.hub_repo import Repo
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
    record_yank(store, "1.0.0", REPO, NOON)
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


@pytest.mark.parametrize("ending", ["", "\n", "\r\n", " "])
def test_a_token_that_the_hub_writes_into_its_refusal_is_hidden_however_the_variable_ends(hub, monkeypatch, ending):
    monkeypatch.setenv("HF_TOKEN", f"{TOKEN}{ending}")
    hub.repos[REPO] = Repo(private=True)
    hub.repos[REPO].commit({"LICENSE": b"ours"})
    hub.says = f"token {TOKEN} is of no use here"
    hub.fail("GET", f"/api/datasets/{REPO}/refs", 422)
    with pytest.raises(HubError, match=r"the Hub answered 422: .*token \*\*\* is of no use here") as error:
        Remote(hub_api(), REPO).tags()
    assert TOKEN not in str(error.value)


@pytest.mark.parametrize("error_number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
@pytest.mark.parametrize("file_name", [None, "part"])
def test_a_disk_here_that_takes_nothing_is_told_at_once_and_not_taken_for_the_network(
    hub, waited, error_number, file_name
):
    def write() -> None:
        raise OSError(error_number, os.strerror(error_number), file_name)

    with pytest.raises(HubError, match=f"reading org/arena: this machine cannot write .{os.strerror(error_number)}"):
        Remote(hub_api(), REPO).with_retries(write, "reading")
    assert waited == []


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


def fine_grained(kind: str, name: str, *permissions: str) -> dict:
    scoped = [{"entity": {"_id": "0" * 24, "type": kind, "name": name}, "permissions": list(permissions)}]
    return {"role": "fineGrained", "fineGrained": {"canReadGatedRepos": False, "global": [], "scoped": scoped}}


def with_token(hub, token: dict | None, role: str = "write") -> None:
    """The Hub says this of the token, and this role of its account in `org`."""
    auth = {"type": "access_token", "accessToken": token} if token else {"type": "oidc"}
    hub.account |= {"auth": auth, "orgs": [{"type": "org", "name": "org", "roleInOrg": role}]}


CONTENT = ("repo.content.read", "repo.write")
NOT_ALL = "it has no write access to all repositories of org"
REFUSED = [
    ({"role": "read"}, "write", REPO, "it is a read token; make one with write access"),
    ({"role": "write"}, "write", "other/arena", "its account is no member of other; give another --repo"),
    ({"role": "write"}, "read", REPO, "its account may only read in org; ask an administrator"),
    (fine_grained("org", "org", "repo.content.read"), "write", REPO, NOT_ALL),
    (fine_grained("org", "other", *CONTENT), "write", REPO, NOT_ALL),
    (fine_grained("dataset", "org/else", *CONTENT), "write", REPO, NOT_ALL),
    (fine_grained("user", "me", *CONTENT), "write", REPO, NOT_ALL),
]


@pytest.mark.parametrize(("token", "role", "repo", "told"), REFUSED)
def test_nobody_is_asked_about_a_repository_that_the_token_may_not_make(
    hub, curate, release, answering, token, role, repo, told
):
    with_token(hub, token, role)
    answering("y")
    code, out, err = curate("publish", release, "--repo", repo)
    assert (code, "publish this?" in out, hub.writes(), hub.repos) == (2, False, [], {})
    assert err.startswith(f"curate: HF_TOKEN may not make {repo}: {told}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("token", "role", "repo"),
    [
        ({"role": "write"}, "contributor", REPO),
        ({"role": "write"}, "read", "me/arena"),
        (fine_grained("org", "org", *CONTENT), "write", REPO),
        (fine_grained("user", "me", *CONTENT), "write", "me/arena"),
        ({"role": "fineGrained"}, "write", REPO),
        ({"role": "a role of next year"}, "read", REPO),
        (None, "read", REPO),
    ],
)
def test_a_token_that_may_or_of_which_nothing_is_known_is_let_through(hub, curate, release, token, role, repo):
    with_token(hub, token, role)
    code, _, err = curate("publish", release, "--repo", repo, "--yes")
    assert (code, err) == (0, "")
    assert hub.repos[repo].tags.keys() == {"1.0.0"}


@pytest.fixture
def read_only(hub):
    """A private repository that the token may read alone, although its account could make new ones."""
    hub.repos[REPO] = Repo(private=True)
    hub.repos[REPO].commit({".gitattributes": b""})
    hub.read_only.add(REPO)


def test_nobody_is_asked_about_a_repository_that_the_token_may_only_read(hub, curate, release, answering, read_only):
    answering("y")
    code, out, err = curate("publish", release, "--repo", REPO)
    assert (code, "publish this?" in out, hub.writes()) == (2, False, [])
    told = "the Hub answered 403: HF_TOKEN may not write there; check the organisation and the token's permissions"
    assert err == f"curate: asking for write access to {REPO}: {told}\n"


def test_nobody_is_asked_to_take_back_what_the_token_may_not_write_to(hub, curate, release, answering):
    assert curate("publish", release, "--repo", REPO, "--yes")[0] == 0
    hub.read_only.add(REPO)
    sent = hub.writes()
    answering("y")
    code, out, err = curate("yank", "1.0.0", "--repo", REPO)
    assert (code, out, hub.writes()) == (2, "", sent)
    assert "HF_TOKEN may not write there" in err


def test_a_deployment_asks_nobody_either(hub, release):
    with_token(hub, {"role": "read"})
    with pytest.raises(HubError, match="it is a read token"):
        describe_release.fn(str(release), REPO, False, False, False, parts_of_release)
    assert hub.writes() == []


def test_of_three_repositories_one_that_the_token_may_only_read_stops_all(hub, curate, release):
    hub.repos["org/arena-bench"] = Repo(private=True)
    hub.repos["org/arena-bench"].commit({".gitattributes": b""})
    hub.read_only.add("org/arena-bench")
    code, _, err = curate("publish", release, "--repo", REPO, "--repo-per-config", "--yes")
    assert (code, hub.writes(), list(hub.repos)) == (2, [], ["org/arena-bench"])
    assert "asking for write access to org/arena-bench" in err


OTHERS_MANIFEST = json.dumps({"version": 3, "files": []}).encode()


def holds(hub, files: dict[str, bytes]) -> None:
    hub.repos[REPO] = Repo(private=True)
    hub.repos[REPO].commit({".gitattributes": b"*.parquet filter=lfs\n"} | files)


SOMEBODYS = [
    ({"README.md": b"ours", "data/train-00000-of-00001.parquet": b"theirs"}, "'data/train-00000-of-00001.parquet'"),
    ({"chat.jsonl": b"{}"}, r"another dataset already \('chat.jsonl' and no manifest.json of a release\)"),
    ({"README.md": b"---\nlicense: mit\n---\n", "images.zip": b"PK"}, "'images.zip'"),
    ({"chat.csv": b"a\n", "manifest.json": OTHERS_MANIFEST}, "'chat.csv'"),
    ({"manifest.json": OTHERS_MANIFEST}, "'manifest.json'"),
    ({"manifest.json": b"[" * 100_000}, "'manifest.json'"),
    ({"arena.py": b"import datasets"}, "'arena.py'"),
    ({"README.md": b"---\nlicense: mit\n---\n# Ours\n"}, "has a README.md that somebody wrote"),
    ({"README.md": b"coming soon"}, "has a README.md that somebody wrote and no release; delete it there"),
]
"""Files of somebody's repository, and what is said of it."""


@pytest.mark.parametrize(("files", "told", "preview"), [(*each, False) for each in SOMEBODYS] + [(*SOMEBODYS[0], True)])
def test_a_repository_with_somebodys_dataset_is_left_alone(hub, publish, files, told, preview):
    holds(hub, files)
    with pytest.raises(BadInput, match=told) as error:
        publish(preview=preview)
    assert "\n" not in str(error.value)
    assert hub.writes() == []


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"README.md": b""},
        {"README.md": b"---\nlicense: mit\n---\n"},
        {"README.md": b"---\r\nlicense: mit\r\n---"},
        {"README.md": b"---\n---\n\n"},
        {"LICENSE": b"ours", ".gitignore": b"*.tmp"},
    ],
)
def test_a_repository_with_what_the_hub_itself_puts_there_takes_a_release(hub, publish, files):
    holds(hub, files)
    publish()
    assert "manifest.json" in hub.files(REPO, "1.0.0")


def test_a_repository_that_held_a_release_takes_the_next_one_whatever_lies_beside_it(hub, publish, release):
    publish()
    hub.repos[REPO].commit({**hub.files(REPO), "notes/how.txt": b"ours"}, message="by hand")
    publish(release.parent / "1.1.0")
    for version in ("1.1.0", "1.0.0"):
        yank_version(hub_api(), REPO, version)
    assert hub.files(REPO).keys() == {".gitattributes", "README.md", "notes/how.txt"}
    publish(release.parent / "1.1.0")
    assert hub.repos[REPO].tags.keys() == {"1.1.0"}
    assert hub.files(REPO)["notes/how.txt"] == b"ours"
