"""A new tag is one prompt file and one line: nothing else knows the tags by name."""

from typing import Any

import pytest
from pydantic import create_model

import schemas.tags
import tasks.prompts
from schemas.row import Row
from schemas.tags import Categories, FromImages, Sees
from tasks.storage.queries.signals import signal_values
from tasks.storage.tables import Store
from tests.builders import facts_frame


@pytest.fixture
def older(tmp_path):
    """A store whose facts were measured before the tag `humor` was added."""
    store = Store.open(str(tmp_path / "store"))
    store.append("signals/categories", facts_frame("categories", {"a": {"ocr": True}}, "old"))
    (part,) = store.parts("signals/categories")
    older_rows = store.read_part("signals/categories", part).drop("humor").to_arrow()
    store.list_parts("signals/categories", [store.write_part("signals/categories", older_rows)])
    return store


def test_facts_from_before_a_tag_was_added_stay_readable(older):
    older.append("signals/categories", facts_frame("categories", {"a": {"humor": True}}, "new"))
    for ids in (None, ["a"]):
        assert signal_values(older, "categories", "new", ["humor"], ids).rows() == [("a", True)]
        assert signal_values(older, "categories", "old", ["ocr", "humor"], ids).rows() == [("a", True, None)]


def test_a_line_and_a_file_are_enough_for_both_modes(monkeypatch):
    pytest.importorskip("openai", reason="production extra")
    from tasks.prompts import tags_prompt

    tags_prompt.cache_clear()
    wider: Any = create_model("Categories", __base__=Categories, __module__="x", selfie=(FromImages, ...))
    assert issubclass(wider, Row)
    monkeypatch.setattr(schemas.tags, "Categories", wider)
    read = tasks.prompts._read
    monkeypatch.setattr(
        tasks.prompts,
        "_read",
        lambda name: "* `selfie`: taken by the person shown.\n" if "selfie" in name else read(name),
    )
    assert schemas.tags.sees("selfie") is Sees.IMAGES
    together = tags_prompt("categories", tuple(wider.model_fields))
    assert "* `selfie`: taken by the person shown." in together.text
    assert together.text.index("pictures alone") < together.text.index("`selfie`:")
    tags_prompt.cache_clear()
