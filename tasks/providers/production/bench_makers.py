"""Language models that make benchmarks: an author that sees no image, a viewer that sees no description."""

import json
from collections.abc import Mapping, Sequence
from typing import TypeVar

from schemas.benches.generated_results import (
    Looked,
    Solved,
    WrittenAspects,
    WrittenChecks,
    WrittenDescription,
    WrittenQuestion,
)
from schemas.row import Row
from tasks.prompts import load_prompt, untrusted
from tasks.providers.capabilities import AspectsWanted, DescriptionWanted, Failed, QuestionWanted
from tasks.providers.production.language_model import HostedModel, Question
from tasks.providers.upload import SENT_SIDE_MAX

Answer = TypeVar("Answer", bound=Row)
_OF_QUESTIONS = {"question", "asked_min", "asked_max"}
"""Limits of a level that questions have."""
PROMPTS = ("aspects", "description", "checks", "question", "solve")


class ModelAuthor:
    """Every method is one question to the model, whose answer must fit a schema."""

    def __init__(self, model: HostedModel) -> None:
        self.model = model
        self.service = model.version
        self.calls_at_once = model.calls_at_once
        prompts = "+".join(load_prompt(f"bench/{name}").version.removeprefix("bench/") for name in PROMPTS)
        self.version = f"{model.version}+{prompts}"

    def aspects(self, wanted: AspectsWanted) -> WrittenAspects | Failed:
        """The aspects that are missing."""
        facts = {
            "capability": wanted.capability.model_dump(),
            "general_aspects": wanted.general,
            "fine_aspects_of_each": wanted.fine,
            "known": [{"general": general, "name": name} for general, name in wanted.known],
        }
        return self._ask("aspects", facts, WrittenAspects)

    def describe(self, wanted: DescriptionWanted) -> WrittenDescription | Failed:
        """One description."""
        facts = {
            "capability": wanted.capability.model_dump(),
            "aspect": wanted.aspect.model_dump(include={"general", "name", "introduction", "guideline"}),
            "difficulty": {"name": wanted.level_name, **wanted.level.model_dump(exclude={"checks", *_OF_QUESTIONS})},
            "words_to_avoid": list(wanted.kept_out),
            "variant": wanted.seed,
        }
        return self._ask("description", facts, WrittenDescription)

    def checks(self, description: str, count: int) -> WrittenChecks | Failed:
        """Check questions."""
        return self._ask("checks", {"description": description, "questions_at_most": count}, WrittenChecks)

    def question(self, wanted: QuestionWanted) -> WrittenQuestion | Failed:
        """One question with its options."""
        facts = {
            "capability": wanted.capability.model_dump(),
            "aspect": wanted.aspect.model_dump(include={"general", "name", "introduction"}),
            "difficulty": {"name": wanted.level_name, **wanted.level.model_dump(include=_OF_QUESTIONS)},
            "description": wanted.description,
            "elements_not_shown": list(wanted.failed),
            "variant": wanted.seed,
        }
        return self._ask("question", facts, WrittenQuestion)

    def solve(self, description: str, question: str, options: Sequence[str]) -> Solved | Failed:
        """The option that the description makes right."""
        facts = {"description": description, "question": question, "options": list(options)}
        return self._ask("solve", facts, Solved)

    def _ask(self, prompt: str, facts: Mapping[str, object], answer: type[Answer]) -> Answer | Failed:
        material = untrusted(json.dumps(facts, ensure_ascii=False, indent=1))
        loaded = load_prompt(f"bench/{prompt}")
        return self.model.ask(Question(loaded.text, material, reply=loaded.reply), answer)


class ModelViewer:
    """Answers check questions from an image, one call each. It never sees the description."""

    def __init__(self, model: HostedModel) -> None:
        self.model = model
        self.service = model.version
        self.calls_at_once = model.calls_at_once
        self._prompt = load_prompt("bench/look")
        self.version = f"{model.version}-max{SENT_SIDE_MAX}+{self._prompt.version.removeprefix('bench/')}"

    def look(self, image: tuple[str, bytes], question: str, choices: Sequence[str]) -> str | Failed:
        """The model's answer."""
        listed = f"\nChoices: {'; '.join(choices)}" if choices else ""
        model_question = Question(self._prompt.text, untrusted(question + listed), (image,), self._prompt.reply)
        answer = self.model.ask(model_question, Looked)
        return answer if isinstance(answer, Failed) else answer.answer
