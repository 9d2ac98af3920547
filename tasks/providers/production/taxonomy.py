"""A place in WildVision's taxonomy by a language model (`tasks/prompts/labels/taxonomy.md`, `tasks/taxonomy.yaml`)."""

from typing import Any, Literal

from pydantic import create_model

from schemas.row import Row
from schemas.tags import Taxonomy
from tasks.prompts import taxonomy_prompt
from tasks.providers.production.gemini_api import GeminiApi
from tasks.providers.production.language_model import LanguageModel
from tasks.providers.production.openai_api import OpenAiApi
from tasks.providers.production.tagging import Answers, Asked, LanguageModelTagger
from tasks.taxonomy import Tree, placed, taxonomy_file


def _place(model: LanguageModel) -> LanguageModelTagger[Taxonomy]:
    known = taxonomy_file()
    answer = create_model(
        "Place", __base__=Row, question=(_one_of(known.question), ...), image=(_one_of(known.image), ...)
    )
    return LanguageModelTagger(model, [Asked(taxonomy_prompt(), answer)], _labels)


def _one_of(tree: Tree) -> Any:
    """An enum of every value, or null."""
    return Literal[tree.values] | None


def _labels(answers: Answers) -> Taxonomy:
    return placed(answers["question"], answers["image"])


def openai(model: LanguageModel | None = None) -> LanguageModelTagger[Taxonomy]:
    """The taxonomy by an OpenAI model."""
    return _place(model or OpenAiApi())


def gemini(model: LanguageModel | None = None) -> LanguageModelTagger[Taxonomy]:
    """The taxonomy by a Gemini model."""
    return _place(model or GeminiApi())
