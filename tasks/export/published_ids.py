"""Names that stand for a person in the columns of a published dataset. Imports little: exports are searched by it."""

import hashlib

_SHORT_ID = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_SHORT_ID_LENGTH = 22


def user_number(user_id: str | None) -> int | None:
    """The first 52 bits of the keyed hash: pandas reads columns with nulls as floats, exact up to 53 bits."""
    return None if user_id is None else int(user_id[:13], 16)


def judge_name(judge: str | None) -> str | None:
    """`arena_user_` and 22 characters derived from the keyed hash, as shortuuid writes ids."""
    if judge is None:
        return None
    number, letters = int.from_bytes(hashlib.blake2b(judge.encode(), digest_size=16).digest(), "big"), ""
    for _ in range(_SHORT_ID_LENGTH):
        number, place = divmod(number, len(_SHORT_ID))
        letters = _SHORT_ID[place] + letters
    return f"arena_user_{letters}"
