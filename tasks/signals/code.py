"""Whether a message contains or asks for program code: FastChat's rule (`code_tagger.py`), extended.

FastChat's words find half of the coding prompts of MT-Bench and Arena-Hard. Newer languages and libraries, requests for
a function or a script, and lines of code find most of the rest (benchmarks/tags_quality.py).
"""

import re

from schemas.signals import Code

VERSION = "2"
SYNTAX_LINES_MIN = 2
"""Least lines that look like code; a single one may be prose about code."""

_PLAIN_FENCE = re.compile(r"```(?:plaintext|markdown|text)\b")
_SIGNS = re.compile(
    r"```|\b(?:git|github|pull request|dataframe|nginx|pip install|apt-get|import (?:pandas|numpy|torch)|tensorflow"
    r"|pytorch|keras|scikit-learn|sklearn|python|java|javascript|typescript|html|css|sql|bash|powershell|matlab|golang"
    r"|linux|ubuntu|jax)\b|(?<!\w)c\+\+(?!\w)|\bcpp\b|\bconda install\b|^[^\S\n]*#include\s*[<\"]"
    r"|^[^\S\n]*(?:from\s+\w+\s+)?import\s+\w+[^\S\n]*$",  # [^\S\n]*, not \s*: see markdown.py
    re.I | re.M,
)
_LANGUAGES = re.compile(
    r"(?<!\w)[CF]#(?!\w)|\b(?:php|perl|haskell|ocaml|kotlin|golang|autolisp|gdscript|glsl|hlsl|vhdl|verilog|vba|vbs|vb\.net"
    r"|solidity|luau?|regexp?|regular expression|promql|graphql|mysql|postgres(?:ql)?|sqlite|mongodb|json|yaml|xaml|svg"
    r"|dockerfile|docker|kubernetes|cron|crontab|awk"
    r"|nodejs|node\.js|ecmascript|jsx"
    r"|react(?:\.js|js)|vue(?:\.?js|3)|next\.?js"
    r"|django|flask|laravel|symfony|streamlit|gradio"
    r"|seaborn|matplotlib|numpy|pandas|opencv|pyqt\d?|pyside\d?|tkinter"
    r"|arduino|cuda|opengl|langchain|hugging ?face|stdin|stdout)\b"
    r"|\b(?:rust|swift|scala|ruby|dart|scheme|assembly|r) (?:code|program|script|function|module|macro|package)\b"
    r"|\b(?:in|using|with) (?:rust|swift|scala|ruby|dart|js)\b",
    re.I,
)
_REQUEST = re.compile(
    r"\b(?:write|create|make|implement|develop|give me|show me|provide|generate|need|fix|debug"
    r"|refactor|rewrite|convert|obfuscate|optimi[sz]e|explain)\b[^.\n]{0,40}"
    r"\b(?:(?:source )?code|functions?|scripts?|(?:computer )?programs?(?= (?:to|that|which|in|using))"
    r"|algorithms?"
    r"|data structures?|middleware|plugin|fuzzer|macro|api|unit tests?|query)\b",
    re.I,
)
_NOT_A_PROGRAM = re.compile(
    r"\b(?:movie|film|play|screen|training|exercise|animation|video|podcast)\W+(?:\w+\W+)?script\b|"
    r"\b(?:training|exercise|workout|television|loyalty) programs?\b|\b(?:dress|zip|postal|area|penal|building) code\b",
    re.I,
)
_SYNTAX = re.compile(
    r"^[^\S\n]*+(?:(?:def|class|function|func|fn|const|let|var|public|private|static|async|#include|#!/|elif|return)\b[^\n]*[:;{()}]"
    r"|[^\n]*[;{}][^\S\n]*|SELECT\b[^\n]*\bFROM\b[^\n]*)$",
    re.M,
)


def code(text: str) -> Code:
    """True if the text contains a sign of code and is not about ASCII art."""
    if "ascii art" in text.lower():
        return Code(is_code=False)
    plain = _NOT_A_PROGRAM.sub(" ", _PLAIN_FENCE.sub("", text))
    signs = (_SIGNS.search(plain), _LANGUAGES.search(plain), _REQUEST.search(plain))
    return Code(is_code=any(signs) or len(_SYNTAX.findall(plain)) >= SYNTAX_LINES_MIN)
