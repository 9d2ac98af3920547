"""Topic names by a language model (instructions: `tasks/prompts/topic_name.md`)."""

import re
from collections.abc import Sequence

from schemas.row import Row
from tasks.prompts import load_prompt, untrusted
from tasks.providers.capabilities import Failed, TopicEvidence
from tasks.providers.production.gemini_api import GeminiApi
from tasks.providers.production.language_model import CALLS_AT_ONCE, LanguageModel, Question
from tasks.providers.production.openai_api import OpenAiApi
from tasks.running.parallel import map_ordered

KEYWORDS, EXEMPLARS, EXEMPLAR_CHARACTERS = 20, 10, 400
NAME_CHARACTERS_MAX = 60
_NAME = re.compile(r"[^\W\d_](?:(?!\d{5})[\w ,&/'’().+#-])*")
"""Words and light punctuation on one line: no address, link or long number fits."""


class TopicName(Row):
    """What a group of prompts is about."""

    name: str
    """Two to six English words in title case."""


class _Namer:
    """Asks for one name a topic."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.service = model.version
        self._prompt = load_prompt("topic_name")
        self.instructions = self._prompt.text
        self.version = f"{model.version}+{self._prompt.version}"

    def name_topics(self, topics: Sequence[TopicEvidence]) -> list[str | Failed]:
        """A few words for every topic, in order."""
        return list(map_ordered(self._name, topics, CALLS_AT_ONCE))

    def _name(self, topic: TopicEvidence) -> str | Failed:
        answer = self._model.ask(Question(self._prompt.text, untrusted(_evidence(topic))), TopicName)
        if isinstance(answer, Failed):
            return answer
        name = answer.name.strip()
        return name if len(name) <= NAME_CHARACTERS_MAX and _NAME.fullmatch(name) else Failed("unusable_name")


def _evidence(topic: TopicEvidence) -> str:
    """Keywords, then exemplars one a line, cut short: a name needs the gist and no more of what people wrote."""
    exemplars = [" ".join(text.split())[:EXEMPLAR_CHARACTERS] for text in topic.exemplars[:EXEMPLARS]]
    return "\n".join([f"Words: {', '.join(topic.keywords[:KEYWORDS])}", "Requests:", *(f"- {e}" for e in exemplars)])


class OpenAiNamer(_Namer):
    """Topic names by an OpenAI model."""

    def __init__(self, model: OpenAiApi | None = None) -> None:
        super().__init__(model or OpenAiApi())


class GeminiNamer(_Namer):
    """Topic names by a Gemini model."""

    def __init__(self, model: GeminiApi | None = None) -> None:
        super().__init__(model or GeminiApi())
