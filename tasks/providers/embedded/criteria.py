"""BenchBuilder's criteria without a language model: words, lengths and numbers.

Of lower assurance and not evaluated against human labels: it judges the wording of a prompt, not what an answer needs.
All criteria are null for an empty prompt. The expressions are in `criteria_words.yaml`.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schemas.tags import Criteria
from tasks.providers.capabilities import Document
from tasks.runtime.yaml_files import read_yaml

_WORDS: dict[str, Any] = read_yaml(Path(__file__).with_name("criteria_words.yaml"))
_FORMS = {name: re.compile("|".join(forms), re.I | re.M) for name, forms in _WORDS.items() if name != "version"}
LONG_WORDS, DETAILED_WORDS = 60, 14
PARTS_MIN, JOINED_MIN = 2, 2


class Wording:
    """Criteria of documents from the wording of the prompt."""

    version = f"criteria-words-{_WORDS['version']}"
    looks_at_images = False

    def tag(self, documents: Sequence[Document]) -> list[Criteria]:
        """Criteria of every document."""
        return [_judge(document.prompt) for document in documents]


def _judge(prompt: str) -> Criteria:
    if not prompt.strip():
        return Criteria(**dict.fromkeys(Criteria.model_fields))
    words = len(prompt.split())
    counts = {name: len(form.findall(prompt)) for name, form in _FORMS.items()}
    return Criteria(
        specificity=words >= DETAILED_WORDS or (counts["asks"] > 0 and not counts["open"]),
        domain_knowledge=counts["field"] > 0,
        complexity=words >= LONG_WORDS or counts["parts"] >= PARTS_MIN or counts["joined"] >= JOINED_MIN,
        problem_solving=counts["solves"] > 0,
        creativity=counts["invents"] > 0,
        technical_accuracy=not counts["invents"] and counts["field"] > 0 and counts["exact"] + counts["solves"] > 0,
        real_world=counts["needs"] > 0 and not counts["puzzle"],
    )
