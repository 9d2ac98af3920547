"""A file is found under another spelling of its name; an exact one wins, of several none, and never one outside."""

import os
from unicodedata import normalize

import pytest

from tasks.runtime.spelled_paths import as_on_disk, by_folded

NAMES = ["Blåbær kafé.PNG", "straße.jpg", "写真/Ａ.png", "Größe/İstanbul.JPG", "한글/각.webp", "a b/c.d/x.gif"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_file_is_found_under_every_spelling(tmp_path, name, form):
    file = tmp_path / normalize(form, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"")
    for other in ("NFC", "NFD"):
        for spelled in (name, name.lower(), name.upper(), name.replace("/", "\\"), f".\\{name}", f"./{name}"):
            assert as_on_disk(tmp_path, normalize(other, spelled)).samefile(file)


def test_an_exact_name_wins_and_of_two_that_fit_there_is_none(tmp_path):
    for name in ("a.png", "A.png", "B.png", "b.PNG", "c\\d.png"):
        (tmp_path / name).write_bytes(b"")
    assert [as_on_disk(tmp_path, name).name for name in ("a.png", "A.png")] == ["a.png", "A.png"]
    assert not as_on_disk(tmp_path, "b.png").exists() and not as_on_disk(tmp_path, "A.PNG").exists()
    assert as_on_disk(tmp_path, "c\\d.png").name == "c\\d.png"
    assert by_folded(["a", "A", "b"]) == {"b": "b"}


@pytest.mark.parametrize("path", ["../Out.png", "..\\out.PNG", "in/../../OUT.png", "IN\\..\\..\\out.png"])
def test_no_spelling_finds_a_file_outside(tmp_path, path):
    (tmp_path / "folder" / "in").mkdir(parents=True)
    (tmp_path / "out.png").write_bytes(b"")
    found = as_on_disk(tmp_path / "folder", path)
    assert not found.exists() or not found.resolve().is_relative_to(tmp_path / "folder")


@pytest.mark.parametrize(
    "path", ["", "/", "nul\0", "/etc/PASSWD", "C:\\x.png", "no/such/File.png", "f.png/x", "x" * 5000]
)
def test_a_path_that_no_file_has_is_no_file_and_no_error(tmp_path, path):
    (tmp_path / "F.png").write_bytes(b"")
    assert not os.path.isfile(as_on_disk(tmp_path, path))  # noqa: PTH113 - which takes names that no file can have
