"""Stores that cannot be used are refused in one line, before anything is read or measured."""

import polars as pl
import pytest
import s3fs

from schemas.errors import BadInput
from schemas.tables import TABLES
from tasks.storage.tables import Store, frame_schema


@pytest.mark.parametrize("root", ["", "nosuch://x", "{file}", "{file}/below", "/proc/nothing/here", "a\0b"])
def test_a_store_that_cannot_be_written_is_refused(root, tmp_path):
    file = tmp_path / "file"
    file.write_text("not a folder")
    with pytest.raises(BadInput) as refused:
        Store.open(root.format(file=file))
    assert "\n" not in str(refused.value)
    assert "give a folder" in str(refused.value)


def test_a_folder_without_tables_is_no_store_and_is_left_as_it_is(tmp_path):
    with pytest.raises(BadInput, match=r"is not a store.*curate run"):
        Store.existing(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_store_out_of_reach_is_one_clear_line(monkeypatch):
    for name, value in {"ENDPOINT_URL": "http://127.0.0.1:9", "ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(
        BadInput, match=r"'s3://arena/store' cannot be read \(nothing answers at its address\); check the address and"
    ):
        Store.existing("s3://arena/store")


def test_opening_a_store_leaves_nothing_in_it(tmp_path):
    Store.open(str(tmp_path / "new" / "store"))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_store_that_was_opened_once_exists(tmp_path):
    Store.open(str(tmp_path))
    assert Store.existing(str(tmp_path)).read("rejects").height == 0


def test_a_store_of_another_version_is_one_clear_line(tmp_path):
    store = Store.open(str(tmp_path))
    store.replace("topics", pl.DataFrame(schema=frame_schema(TABLES["topics"].row)))
    (part,) = (tmp_path / "tables" / "topics").glob("*.parquet")
    old = pl.read_parquet(part).drop("name").with_columns(once=pl.lit(1))
    store.list_parts("topics", [store.write_part("topics", old.to_arrow())])
    with pytest.raises(
        BadInput, match="written by another version: a part of table 'topics' lacks 'name'; use that one"
    ):
        store.read("topics")
    assert store.read("topics", ["topic"]).columns == ["topic"]
