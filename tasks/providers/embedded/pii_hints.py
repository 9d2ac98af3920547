"""What a text must hold for a pattern to match: forms without look-around, which polars searches in linear time.

A hint may find more than its pattern, never less, so that a text without it needs no search by the pattern.
"""

import re

from tasks.providers.embedded import pii_ids

AT = "@"
SPELT_AT = r"(?i)[\[({<] ?at ?[\])}>]| dot "
KEY = (
    r"sk-[0-9A-Za-z_-]{20}|gh[pousr]_[0-9A-Za-z]{36}|AKIA[0-9A-Z]|AIza|xox[abprs]-|hf_[0-9A-Za-z]{30}|glpat-|github_pat_"
    r"|k_(?:live|test)_|npm_[0-9A-Za-z]{36}|pypi-|SG\.|eyJ"
)
IBAN = r"[A-Z]{2}\d{2}(?:[ -]?[0-9A-Z]{4}){2}|[a-z]{2}\d{2}[0-9a-z]{11}"
CARD = r"\d(?:[ -]?\d){11}"
IP = r"\d\.\d{1,3}\.\d{1,3}\.\d|:[0-9A-Fa-f]{0,4}:"
PASSPORT = r"(?i)(?-u:\b)(?:re[iİı]sepass|pas[sapz])|护照|パスポート"
PHONE = r"\d(?:[\s\x1c-\x1f./()+-]{0,5}\d){5}"
"""Python counts \\x1c to \\x1f as spaces, the engine does not."""

_LOOK_AROUND = re.compile(r"\(\?<?[=!][^)]*\)|\\b")
NATIONAL_ID = "|".join(_LOOK_AROUND.sub("", form) for form, _ in pii_ids.FORMS)
NAMED = (
    r"(?i)(?:^|[^0-9A-Za-z_])(?:"  # no boundary, which a name would not have that begins with another alphabet's i or s
    + pii_ids.NAMES.replace("(?-i:", "(?:").replace("i", "[iİı]")  # what Python takes for an i in either case
    + rf")(?:[^0-9A-Za-z_]|$)|{pii_ids.NAMES_UNSPACED}"
)
