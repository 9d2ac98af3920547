"""BenchBuilder's criteria by a language model (`tasks/prompts/labels/criteria.md`)."""

from schemas.tags import Criteria
from tasks.prompts import criteria_prompt
from tasks.providers.production.gemini_api import GeminiApi
from tasks.providers.production.language_model import LanguageModel
from tasks.providers.production.openai_api import OpenAiApi
from tasks.providers.production.tagging import Asked, LanguageModelTagger


def _judge(model: LanguageModel) -> LanguageModelTagger[Criteria]:
    return LanguageModelTagger(model, [Asked(criteria_prompt(), Criteria)], lambda answers: Criteria(**answers))


def openai(model: LanguageModel | None = None) -> LanguageModelTagger[Criteria]:
    """Criteria by an OpenAI model."""
    return _judge(model or OpenAiApi())


def gemini(model: LanguageModel | None = None) -> LanguageModelTagger[Criteria]:
    """Criteria by a Gemini model."""
    return _judge(model or GeminiApi())
