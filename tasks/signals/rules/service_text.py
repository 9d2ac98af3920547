"""Error texts of the serving software in place of a message (FastChat `constants.py` and its workers)."""

import re

from schemas.signals import ServiceText

VERSION = "1"

_FORMS = {
    "moderation_notice": r"^\s*\$MODERATION\$",
    "network_error": r"NETWORK ERROR DUE TO HIGH TRAFFIC",
    "rate_limit": r"RATE LIMIT OF THIS MODEL IS REACHED|rate limit exceeded\W*$",
    "conversation_limit": r"YOU HAVE REACHED THE CONVERSATION LENGTH LIMIT|CONVERSATION LENGTH LIMIT",
    "inactivity": r"THIS SESSION HAS BEEN INACTIVE FOR TOO LONG",
    "api_error": r"API REQUEST ERROR|\$ERROR\$",
    "error_code": r"\(error_code: ?\d+\)\s*$",
    "cursor": r"▌|<span class=[\"']cursor[\"']>",
}
_COMPILED = {kind: re.compile(form, 0 if kind != "api_error" else re.I) for kind, form in _FORMS.items()}


def service_text(text: str) -> ServiceText:
    """Service texts that the message is or ends with."""
    return ServiceText(kinds=[kind for kind, form in _COMPILED.items() if form.search(text)])
