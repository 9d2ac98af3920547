"""Before anybody is asked: a token that may not write, and a repository with another dataset, are one line."""

import json

import pytest

from flows.products import parts_of_release
from schemas.errors import BadInput, HubError
from tasks.publish.hub import hub_api
from tasks.publish.steps import describe_release
from tasks.publish.yank import yank_version
from tests.hub_repo import Repo
from tests.tasks.publish.conftest import REPO


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
    (
        fine_grained("org", "org", "repo.content.read"),
        "write",
        REPO,
        NOT_ALL,
    ),
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
