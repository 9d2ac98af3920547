"""BenchBuilder's criteria without a language model: words, lengths and numbers. Unmeasured against people.

A stand-in of lower assurance: it sees how a prompt is worded, not what it takes to answer. Null without a prompt.
"""

import re
from collections.abc import Sequence

from schemas.tags import Criteria
from tasks.providers.capabilities import Document

_FIELD = re.compile(
    r"```|\b(?:python|java|javascript|typescript|c\+\+|sql|html|css|regex|algorithm|function|code|api|server|database|linux"
    r"|equation|theorem|proof|prove|integral|derivative|matrix|probability|geometry|triangle|algebra|logarithm|vector"
    r"|physics|velocity|voltage|circuit|resist(?:or|ance)|chemi\w+|molec\w+|reaction|protein|cell|gene\w*|diagnos\w+"
    r"|symptom\w*|x-?ray|mri|medic\w+|legal|law|contract|tax|invest\w+|balance sheet|econom\w+|statistic\w*|regression"
    r"|architect\w+|engine\w*|composer|sonata|impressionis\w+|renaissance|latin name|species)\b",
    re.I,
)
_SOLVES = re.compile(
    r"\b(?:solv\w+|calculate|compute|prove|find|determine|derive|debug|fix|optimi[sz]e|why"
    r"|how (?:many|much|far|long|would|could|can)|which (?:of|one|figure|number)"
    r"|compare|difference|infer|deduce|explain how|analy[sz]e|plan|design"
    r"|implement|estimate|evaluate|predict)\b|\(A\).*\(B\)",
    re.I | re.S,
)
_INVENTS = re.compile(
    r"\b(?:(?:write|compose|create|invent|make up|imagine|come up with|brainstorm|design|draft)\b.{0,60}"
    r"\b(?:story|poem|haiku|song|lyrics|dialogue|scene|script|slogan|title|caption|post|ad(?:vert\w*)?|joke|name|idea|logo|character|speech|essay"
    r"|blog|novel)s?|creative|imagine|in the style of|role-?play|pretend)\b",
    re.I | re.S,
)
_EXACT = re.compile(
    r"\d|```|[=<>≤≥∑∫√]|\b(?:exact\w*|precise\w*|correct\w*|accura\w+|formula|unit|syntax|error|bug)\b", re.I
)
_ASKS = re.compile(
    r"\b(?:what|which|who|where|when|how|why|list|name|give|write|find|solve|calculate|convert|translate)\b", re.I
)
_OPEN = re.compile(
    r"\b(?:describe|tell me (?:about|more)|what (?:is|do you see) (?:this|in (?:this|the) (?:image|picture|photo)))\b",
    re.I,
)
_PUZZLE = re.compile(
    r"\(A\).*\(B\)|\b(?:riddle|puzzle|imagine|pretend|hypothetical\w*|joke|story|poem|what if)\b", re.I | re.S
)
_NEEDS = re.compile(
    r"\b(?:my|our|i (?:am|have|need|want)|i'm|we|help me|email|report|meeting|client|customer|business|website|app|code"
    r"|script|error|install|configure|deploy|budget|recipe|repair|fix|buy|plan|invoice|receipt|resume|translate|summari[sz]e)\b",
    re.I,
)
_PARTS = re.compile(r"^\s*(?:\d+[.)]|[-*•])\s", re.M)
_JOINED = re.compile(
    r"[;?]|\b(?:and then|also|as well as|then|if|unless|must|should|at least|at most|except|without)\b", re.I
)
LONG_WORDS, DETAILED_WORDS = 60, 14
PARTS_MIN, JOINED_MIN = 2, 2


class Wording:
    """Criteria of documents from the wording of the prompt."""

    version = "criteria-words-1"
    looks_at_images = False

    def tag(self, documents: Sequence[Document]) -> list[Criteria]:
        """Criteria of every document."""
        return [_judge(document.prompt) for document in documents]


def _judge(prompt: str) -> Criteria:
    if not prompt.strip():
        return Criteria(**dict.fromkeys(Criteria.model_fields))
    words = len(prompt.split())
    solves, invents, field = bool(_SOLVES.search(prompt)), bool(_INVENTS.search(prompt)), bool(_FIELD.search(prompt))
    return Criteria(
        specificity=words >= DETAILED_WORDS or (bool(_ASKS.search(prompt)) and not _OPEN.search(prompt)),
        domain_knowledge=field,
        complexity=words >= LONG_WORDS
        or len(_PARTS.findall(prompt)) >= PARTS_MIN
        or len(_JOINED.findall(prompt)) >= JOINED_MIN,
        problem_solving=solves,
        creativity=invents,
        technical_accuracy=not invents and field and bool(_EXACT.search(prompt) or solves),
        real_world=bool(_NEEDS.search(prompt)) and not _PUZZLE.search(prompt),
    )
