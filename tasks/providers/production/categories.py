"""Categories by a language model: all tags in one question, or one question a tag (`tasks/prompts/tags/`)."""

from functools import partial

from pydantic import create_model

from schemas.row import Row
from schemas.tags import TAGS, Categories, Sees, sees
from tasks.prompts import tags_prompt
from tasks.providers.production.gemini_api import GeminiApi
from tasks.providers.production.language_model import LanguageModel
from tasks.providers.production.openai_api import OpenAiApi
from tasks.providers.production.tagging import Asked, LanguageModelTagger


def _all_in_one() -> list[Asked]:
    return [Asked(tags_prompt("categories", TAGS), Categories)]


def _one_by_one() -> list[Asked]:
    return [_alone(tag) for tag in TAGS]


def _alone(tag: str) -> Asked:
    """The question about one tag; a tag of the pictures is false where there are none."""
    field = Categories.model_fields[tag]
    answer = create_model(tag, __base__=Row, **{tag: (field.annotation, ...)})  # type: ignore[call-overload]
    known = {tag: False} if sees(tag) is Sees.PICTURES else None
    return Asked(tags_prompt(tag, (tag,)), answer, sees(tag), known)


_tagger = partial(LanguageModelTagger, labels=lambda answers: Categories(**answers))


def openai(model: LanguageModel | None = None) -> LanguageModelTagger[Categories]:
    """All tags in one question to an OpenAI model."""
    return _tagger(model or OpenAiApi(), _all_in_one())


def openai_each_tag(model: LanguageModel | None = None) -> LanguageModelTagger[Categories]:
    """One question a tag to an OpenAI model, each shown what the tag is decided from."""
    return _tagger(model or OpenAiApi(), _one_by_one())


def gemini(model: LanguageModel | None = None) -> LanguageModelTagger[Categories]:
    """All tags in one question to a Gemini model."""
    return _tagger(model or GeminiApi(), _all_in_one())


def gemini_each_tag(model: LanguageModel | None = None) -> LanguageModelTagger[Categories]:
    """One question a tag to a Gemini model, each shown what the tag is decided from."""
    return _tagger(model or GeminiApi(), _one_by_one())
