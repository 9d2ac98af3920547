"""The end of an error line: the given value, the known values, and a suggestion."""

import pytest

from schemas.errors import BadInput, BadPolicy, CurateError, MissingProvider, ReleaseConflict, known_values


def test_a_near_miss_is_suggested():
    assert known_values("nsfw_imge", ["nsfw_image", "faces"]) == (
        "'nsfw_imge'. Known: faces, nsfw_image. Did you mean nsfw_image?"
    )


def test_nothing_is_suggested_for_something_else_entirely():
    assert known_values("zzz", ["faces", "nsfw"]) == "'zzz'. Known: faces, nsfw."


def test_hostile_values_stay_on_one_line():
    assert "\n" not in known_values("a\nb\x1b[31m", ["faces"])
    assert "\x1b" not in known_values("a\nb\x1b[31m", ["faces"])


@pytest.mark.parametrize("error", [BadInput, BadPolicy, MissingProvider, ReleaseConflict])
def test_everything_a_user_can_mend_is_caught_as_one_kind(error):
    assert issubclass(error, CurateError)
