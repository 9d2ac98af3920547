"""What a prompt says in words: without formulas, code, markup and links, whose words name no topic."""

import re

_FENCED = r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]{1,200}`"
_FORMULA = (
    r"\$\$.*?\$\$|\\\(.*?\\\)|\\\[.*?\\\]|\$(?=[^$\n]{0,300}[\\^_{=])[^$\n]{1,300}\$"
    r"|\\begin\{(?P<name>(?:equation|align|aligned|gather|multline|eqnarray|[bpvV]?matrix|array|cases|tabular|tikzpicture"
    r"|split)\*?)\}.*?(?:\\end\{(?P=name)\}|\Z)"
)
_WORDS_INSIDE = re.compile(r"\\(?:text|textbf|textit|mbox)\s?\{([^{}\n]*)\}")
_COMMAND = (
    r"\\(?:begin|end|label|ref|eqref|cite|input|include|includegraphics|usepackage|documentclass|bibliography\w*"
    r"|math[a-z]+|operatorname|overline|overrightarrow|widehat|vec|hat|bar|sqrt|[dt]?frac|color|newcommand|vspace|hspace)(?![A-Za-z])"
    r"\*?\s?(?:\[[^\]\n]*\])?(?:\{[^{}\n]*\}){0,3}|\\[A-Za-z]+\*?"
)
_ELEMENT = r"<(?P<tag>script|style|svg|code|pre)\b.*?(?:</(?P=tag)\s*>|\Z)|<!--.*?(?:-->|\Z)|</?[a-z!][^<>]{0,500}>"
_ENTITY = r"&(?:[a-z]{2,8}|#\w{1,6});"
_LINK = r"\b(?:https?|ftp|data)://\S+|\bwww\.\S+|\bdata:\w+/\S+"
_MARKUP = tuple(re.compile(form, re.S | re.I) for form in (_FENCED, _ELEMENT, _LINK, _ENTITY))
_FORMULAS, _COMMANDS = re.compile(_FORMULA, re.S), re.compile(_COMMAND)
_CODE_LINE = re.compile(
    r"^[^\S\n]*(?:[^\n]*(?:[;{}]|=>|\\)|[{}()\[\]<>;,\s]+|\#\s?(?:include|define|pragma|ifn?def|endif)\b[^\n]*|@\w+(?:\([^\n]*\))?"
    r"|(?:async\s+)?(?:def|class|elif|if|for|while|with|switch|try|else|except)\b[^\n]*:"
    r"|(?:import|from)\s[\w.]+(?:\s(?:import|as)\s[^\n]+)?|(?:export|const|let|var|function|public|private|static|return)\s[^\n]*[=({\[\]})][^\n]*"
    r"|[\w.\[\]'\"]+\s?(?:[-+*/]?=|:=)\s?[^\n]+|[\w.]+\([^\n]*\)|\$\s?\w[^\n]*|(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP)\s[^\n]*)"
    r"[^\S\n]*$",
    re.M,
)
"""A line of a program: it ends as statements do, begins with a keyword and a colon, assigns, or is one call."""
_POINTS = re.compile(r"(?<![\w.])(?:[A-F]{2,4}|PQR?S?T?|QRS?|RS|XYZ?|YZ|KLM?N?|LMN?|MN)(?!\w)")
"""Points, lines and angles of geometry, such as `ABCD`."""


def prose(text: str) -> str:
    """The text without code, formulas and commands of LaTeX, HTML, links, and points of geometry."""
    for form in _MARKUP:
        text = form.sub(" ", text)
    text = _FORMULAS.sub(lambda formula: f" {' '.join(_WORDS_INSIDE.findall(formula[0]))} ", text)
    text = _COMMANDS.sub(" ", _WORDS_INSIDE.sub(r" \1 ", text))
    return _POINTS.sub(" ", _CODE_LINE.sub(" ", text))
