"""ISO 639 codes -> English names, as arena releases spell languages."""

from functools import cache

from babel import Locale, UnknownLocaleError

UNKNOWN = "unknown"


@cache
def english_name(code: str | None) -> str:
    """English for en; unknown for unknown, missing or unlisted codes."""
    if code is None or code == UNKNOWN:
        return UNKNOWN
    name = Locale("en").languages.get(code)
    if name is None:
        try:
            name = Locale.parse(code, sep="-").get_language_name("en")
        except (UnknownLocaleError, ValueError):
            return UNKNOWN
    return str(name or UNKNOWN)
