"""English names of ISO 639 language codes, as arena datasets spell them."""

from functools import cache

from babel import Locale, UnknownLocaleError

UNKNOWN = "unknown"


@cache
def english_name(code: str | None) -> str:
    """The English name of a language code, such as `English` for `en`; `unknown` for a missing or unlisted code."""
    if code is None or code == UNKNOWN:
        return UNKNOWN
    name = Locale("en").languages.get(code)
    if name is None:
        try:
            name = Locale.parse(code, sep="-").get_language_name("en")
        except (UnknownLocaleError, ValueError):
            return UNKNOWN
    return str(name or UNKNOWN)
