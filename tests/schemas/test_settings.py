"""Invalid settings are refused with the name of the wrong key."""

from datetime import date

import pytest
from pydantic import ValidationError

from schemas.errors import BadInput, CurateError
from schemas.settings import Settings


def test_a_store_is_all_that_must_be_given():
    settings = Settings(store="s")
    assert settings.policy == "public_release"
    assert settings.workers >= 1
    assert settings.providers == {}
    with pytest.raises(BadInput, match="store is not given"):
        Settings()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("since", "yesterday"), ("workers", 0), ("bench", {"size": -1}), ("bench", {"hidden_epoch": "2024-13"}),
        ("bench", {"hidden_fraction": 0.6}), ("providers", ["nsfw"]), ("topics", {"members_min": 1}),
        ("topics", {"image_weight": 1.5}), ("topics", {"clusters": 5}), ("no_such_key", 1),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused_by_the_name_of_its_key(key, value):
    with pytest.raises(ValidationError) as refused:
        Settings.model_validate({"store": "s", key: value})
    (problem,) = refused.value.errors()
    inner = list(value) if isinstance(value, dict) else []
    assert problem["loc"] == (key, *inner)


def test_a_window_that_ends_before_it_starts_is_one_clear_line():
    with pytest.raises(BadInput) as refused:
        Settings(store="s", since=date(2024, 9, 18), until=date(2024, 9, 17))
    text = str(refused.value)
    assert "2024-09-18" in text and "2024-09-17" in text and "\n" not in text
    assert isinstance(refused.value, CurateError)
