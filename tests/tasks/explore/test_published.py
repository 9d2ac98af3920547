"""The explorer of a published release: in its version's commit, and verified with it."""
# ruff: noqa: F811

import json

import pytest

from flows.products import problems_of
from tasks.release.build import FILE_LIST
from tasks.release.fetched import read_manifest
from tests.places import contents
from tests.tasks.publish.conftest import REPO, made, release, store, waited  # noqa: F401 - fixtures


@pytest.fixture
def published(hub, curate, release):
    """Publish a version, with the explorer unless told otherwise."""

    def run(version="1.0.0", *options):
        return curate("publish", release.parent / version, "--repo", REPO, "--yes", *(options or ("--with-explorer",)))

    return run


def _site(files):
    return {path: content for path, content in files.items() if path.startswith("explorer/")}


def test_the_explorer_is_in_the_versions_commit_and_goes_with_it(hub, curate, published, release):
    before = contents(release)
    code, out, _ = curate("publish", release, "--repo", REPO, "--with-explorer", "--dry-run")
    assert (code, hub.requests) == (0, [])
    assert published()[0] == 0
    site = _site(hub.files(REPO, "1.0.0"))
    assert contents(release) == before
    assert f"explorer/: {len(site)} files; open explorer/index.html" in out
    assert {"explorer/index.html", "explorer/topics.html", FILE_LIST} <= site.keys()
    assert set(json.loads(site[FILE_LIST])["files"]) == site.keys() - {FILE_LIST}
    code, _, err = published()
    assert (code, "has version 1.0.0 already" in err) == (2, True)
    assert published("1.1.0", "--preview", "--with-explorer")[0] == 0
    preview = _site(hub.files(REPO, "preview-1.1.0"))
    assert preview.keys() != site.keys()
    assert published("1.1.0", "--yes")[0] == 0  # without the explorer
    assert _site(hub.files(REPO)) == {}
    assert _site(hub.files(REPO, "1.0.0")) == site
    assert curate("yank", "1.0.0", "--repo", REPO, "--yes")[0] == 0
    assert not (set(site.values()) - set(preview.values())) & set(hub.blobs.values())


def test_a_downloaded_version_is_verified_with_its_explorer(hub, published, tmp_path):
    published()
    copy = tmp_path / "downloaded"
    for path, content in hub.files(REPO, "1.0.0").items():
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        (copy / path).write_bytes(content)
    assert problems_of(copy) == []
    assert read_manifest(copy).files.keys().isdisjoint(json.loads((copy / FILE_LIST).read_text())["files"])
    page = copy / "explorer" / "index.html"
    page.write_bytes(page.read_bytes() + b"<script>")
    (copy / "explorer" / "more.html").write_text("more")
    (copy / "explorer" / "boards-0.html").unlink()
    assert problems_of(copy) == [
        "explorer/boards-0.html: missing",
        "explorer/index.html: changed since it was made",
        "explorer/more.html: not in explorer/files.json",
    ]
    listed = json.loads((copy / FILE_LIST).read_text())
    (copy / FILE_LIST).write_text(json.dumps(listed | {"manifest_sha256": "0" * 64}))
    assert problems_of(copy)[0] == "explorer/files.json: the explorer of another release"
    (copy / FILE_LIST).unlink()
    assert "explorer/files.json: cannot be read" in problems_of(copy)[0]


def test_an_explorer_cannot_be_added_to_a_published_version_or_split(hub, curate, published, release):
    assert published("1.0.0", "--yes")[0] == 0
    code, _, err = published()
    assert (code, "has version 1.0.0 already, and a published version never changes" in err) == (2, True)
    sent = hub.writes()
    code, _, err = curate("publish", release, "--repo", REPO, "--with-explorer", "--repo-per-config")
    assert (code, err.count("\n"), hub.writes()) == (2, 1, sent)
    assert "--with-explorer shows all configurations on one page; leave --repo-per-config out" in err
