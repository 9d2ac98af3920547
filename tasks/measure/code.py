"""Whether a message contains or asks for program code: FastChat's rule (`code_tagger.py`), with word boundaries."""

import re

from schemas.signals import Code

VERSION = "1"

_PLAIN_FENCE = re.compile(r"```(?:plaintext|markdown|text)\b")
_SIGNS = re.compile(
    r"```|\b(?:git|github|pull request|dataframe|nginx|pip install|apt-get|import (?:pandas|numpy|torch)|tensorflow"
    r"|pytorch|keras|scikit-learn|sklearn|python|java|javascript|typescript|html|css|sql|bash|powershell|matlab|golang"
    r"|linux|ubuntu|jax)\b|(?<!\w)c\+\+(?!\w)|\bcpp\b|\bconda install\b|^[^\S\n]*#include\s*[<\"]"
    r"|^[^\S\n]*(?:from\s+\w+\s+)?import\s+\w+[^\S\n]*$",  # [^\S\n]*, not \s*: see markdown.py
    re.I | re.M,
)


def code(text: str) -> Code:
    """True when a sign of code stands in the text and it is not about ASCII art."""
    if "ascii art" in text.lower():
        return Code(is_code=False)
    return Code(is_code=bool(_SIGNS.search(_PLAIN_FENCE.sub("", text))))
