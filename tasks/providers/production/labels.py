"""The questions to language models of any vendor: categories, criteria, taxonomy, types of failure and topic names."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Self, TypeVar

from pydantic import create_model, model_validator

from schemas.benches.bench import FailureLabel
from schemas.row import Row
from schemas.tags import TAGS, Categories, Criteria, Sees, Taxonomy, sees
from tasks.prompts import (
    CATEGORY_SEPARATOR,
    Prompt,
    TaxonomyFile,
    criteria_prompt,
    failure_types_prompt,
    load_prompt,
    placed,
    reply_format,
    tags_prompt,
    taxonomy_file,
    taxonomy_prompt,
    untrusted,
)
from tasks.providers.capabilities import Document, Failed, TopicEvidence
from tasks.providers.cost import Count, ExpectedUse, ItemSize
from tasks.providers.production.calls import CALLS_AT_ONCE
from tasks.providers.production.language_model import HostedModel, Question, expected_answers
from tasks.providers.upload import SENT_SIDE_MAX, sent_size
from tasks.runtime.parallel import map_ordered

LABELLED_CHARACTERS = 12_500
"""Prompts are cut to this length, as in FastChat's labelling."""
LABELLED_IMAGES_MAX = 8
"""Number of a document's first images that are sent."""
KEYWORDS, EXEMPLARS, EXEMPLAR_CHARACTERS = 20, 10, 400
"""Limits of what is sent of a topic, to send no more of users' texts than a name needs."""
TOPIC_TOKENS = 1100
"""Input tokens per topic: 20 words and 10 prompts of 400 characters, at four characters a token."""
LABEL_CHARACTERS_MAX = 60
_NAME = re.compile(r"[^\W\d_](?:(?!\d{5})[\w ,&/'’().+#-])*")
"""Words and light punctuation on one line: excludes addresses, links and long numbers."""

Labels = TypeVar("Labels", bound=Row)
LabelReplies = Mapping[str, Any]


@dataclass(frozen=True)
class DocumentQuestion:
    """One question about a document."""

    prompt: Prompt
    """The instructions."""
    answer: type[Row]
    """Fields of the answer."""
    sees: Sees = Sees.BOTH
    """The parts of a document that are sent."""
    without_images: LabelReplies | None = None
    """The answer for a document without images; None when it must be asked."""


class LanguageModelTagger(Generic[Labels]):
    """Asks every question about every document. A document gets labels only when all questions are answered."""

    def __init__(self, model: HostedModel, asked: Sequence[DocumentQuestion], labels: Callable[..., Labels]) -> None:
        """`labels` makes the row; its arguments are the fields of all answers."""
        self.model, self._labels = model, labels
        self.asked = tuple(asked)
        self.looks_at_images = any(question.sees is not Sees.PROMPT for question in asked)
        self.service = model.version
        self.version = f"{model.version}-max{SENT_SIDE_MAX}+{'+'.join(question.prompt.version for question in asked)}"

    def tag(self, documents: Sequence[Document]) -> list[Labels | Failed]:
        """Labels of every document, in order; several questions are asked concurrently."""
        pairs = [(document, question) for document in documents for question in self.asked]
        answers = iter(list(map_ordered(lambda pair: self._answer(*pair), pairs, CALLS_AT_ONCE)))
        return [self._joined([next(answers) for _ in self.asked]) for _ in documents]

    def expected_use(self, items: Sequence[ItemSize], count: Count) -> ExpectedUse:
        """Every question about every document, but those whose answer is known without images."""
        use = ExpectedUse(0)
        for question in self.asked:
            about = [item for item in items if item.images or question.without_images is None]
            texts = ["" if question.sees is Sees.IMAGES else item.text[:LABELLED_CHARACTERS] for item in about]
            original_sizes = [
                size for item in about for size in item.images[:LABELLED_IMAGES_MAX] if question.sees is not Sees.PROMPT
            ]
            sizes = [sent_size(*size) for size in original_sizes]
            use = use.plus(expected_answers(count, question.prompt.text, question.answer, texts, sizes))
        return use

    def _joined(self, answers: Sequence[LabelReplies | Failed]) -> Labels | Failed:
        """The labels of one document. One failed answer fails the document: a missing label is neither no nor null."""
        fields: dict[str, Any] = {}
        for answer in answers:
            if isinstance(answer, Failed):
                return answer
            fields |= answer
        return self._labels(**fields)

    def _answer(self, document: Document, document_question: DocumentQuestion) -> LabelReplies | Failed:
        if not document.image_count and document_question.without_images is not None:
            return document_question.without_images
        question = _question(document, document_question)
        if question is None:
            return Failed("images_missing")  # an answer from the prompt alone would be a guess
        answer = self.model.ask(question, document_question.answer)
        return answer if isinstance(answer, Failed) else answer.model_dump()


def _question(document: Document, document_question: DocumentQuestion) -> Question | None:
    """Question that is sent; None when images are needed and missing."""
    prompt = "" if document_question.sees is Sees.IMAGES else document.prompt[:LABELLED_CHARACTERS]
    if document_question.sees is Sees.PROMPT:
        return Question(document_question.prompt.text, untrusted(prompt), reply=document_question.prompt.reply)
    if len(document.images) != document.image_count:
        return None
    return Question(
        document_question.prompt.text,
        untrusted(prompt),
        document.images[:LABELLED_IMAGES_MAX],
        document_question.prompt.reply,
    )


def categories(model: HostedModel) -> LanguageModelTagger[Categories]:
    """All tags in one question, but those whose prompts have reply formats: each of these in one of its own."""
    together = [tag for tag in TAGS if not reply_format(f"tags/{tag}")]
    alone = [_about(tag) for tag in TAGS if tag not in together]
    answer = _answer_about(together) if alone else Categories
    joint_questions = [DocumentQuestion(tags_prompt("categories", together), answer)] if together else []
    return LanguageModelTagger(model, [*joint_questions, *alone], Categories)


def categories_each_tag(model: HostedModel) -> LanguageModelTagger[Categories]:
    """One question per tag, with the parts of the document that the tag depends on."""
    return LanguageModelTagger(model, [_about(tag) for tag in TAGS], Categories)


def _about(tag: str) -> DocumentQuestion:
    """The question about one tag. Tags that depend on images alone are false without images."""
    without_images = {tag: False} if sees(tag) is Sees.IMAGES else None
    return DocumentQuestion(tags_prompt(tag, (tag,)), _answer_about([tag]), sees(tag), without_images)


def _answer_about(tags: Sequence[str]) -> type[Row]:
    fields: dict[str, Any] = {tag: (Categories.model_fields[tag].annotation, ...) for tag in tags}
    return create_model("_".join(tags), __base__=Row, **fields)


def criteria(model: HostedModel) -> LanguageModelTagger[Criteria]:
    """BenchBuilder's criteria."""
    return LanguageModelTagger(model, [DocumentQuestion(criteria_prompt(), Criteria)], Criteria)


def taxonomy(model: HostedModel) -> LanguageModelTagger[Taxonomy]:
    """A place in WildVision's taxonomy (`tasks/prompts/taxonomy.yaml`)."""
    taxonomy_trees, prompt = taxonomy_file(), taxonomy_prompt()
    if prompt.reply:
        return LanguageModelTagger(model, [DocumentQuestion(prompt, _four_columns(taxonomy_trees))], Taxonomy)
    kinds = {"question": taxonomy_trees.question, "image": taxonomy_trees.image}
    fields: dict[str, Any] = {name: (Literal[tuple(tree)] | None, ...) for name, tree in kinds.items()}
    question = DocumentQuestion(prompt, create_model("Place", __base__=Row, **fields))
    return LanguageModelTagger(model, [question], placed)


def _four_columns(taxonomy_trees: TaxonomyFile) -> type[Row]:
    """The answer in four words, which must be places of the taxonomy."""

    class Places(Taxonomy):
        """Two categories, each with its subcategory."""

        @model_validator(mode="after")
        def are_known(self) -> Self:
            question = _place(self.question_category, self.question_subcategory)
            image = _place(self.image_domain, self.image_subdomain)
            if question not in {None, *taxonomy_trees.question} or image not in {None, *taxonomy_trees.image}:
                raise ValueError("no place of the taxonomy")
            return self

    return Places


def _place(first: str | None, second: str | None) -> str | None:
    return f"{first or ''}{CATEGORY_SEPARATOR}{second}" if second else first


def failure_types(model: HostedModel) -> LanguageModelTagger[FailureLabel]:
    """Why models fail a prompt, one of `FailureType`."""
    return LanguageModelTagger(model, [DocumentQuestion(failure_types_prompt(), FailureLabel)], FailureLabel)


class TopicName(Row):
    """The subject of a group of prompts."""

    name: str
    """Two to six English words in title case."""


class TopicNames:
    """Names topics, one question per topic."""

    def __init__(self, model: HostedModel) -> None:
        self._model = model
        self.service = model.version
        prompt = load_prompt("topic_name")
        self._instructions = prompt.text
        self.version = f"{model.version}+{prompt.version}"

    def name_topics(self, topics: Sequence[TopicEvidence]) -> list[str | Failed]:
        """A few words for every topic, in order."""
        return list(map_ordered(self._name, topics, CALLS_AT_ONCE))

    def expected_use(self, items: Sequence[ItemSize], count: Count) -> ExpectedUse:
        """One question a topic, about words and prompts of the greatest length."""
        use = expected_answers(count, self._instructions, TopicName, [""] * len(items))
        return use.plus(ExpectedUse(0, input_tokens=len(items) * TOPIC_TOKENS))

    def _name(self, topic: TopicEvidence) -> str | Failed:
        answer = self._model.ask(Question(self._instructions, untrusted(_evidence(topic))), TopicName)
        if isinstance(answer, Failed):
            return answer
        name = answer.name.strip()
        return name if len(name) <= LABEL_CHARACTERS_MAX and _NAME.fullmatch(name) else Failed("unusable_name")


def _evidence(topic: TopicEvidence) -> str:
    """Keywords, then one truncated exemplar per line."""
    exemplars = [" ".join(text.split())[:EXEMPLAR_CHARACTERS] for text in topic.exemplars[:EXEMPLARS]]
    return "\n".join([f"Words: {', '.join(topic.keywords[:KEYWORDS])}", "Requests:", *(f"- {e}" for e in exemplars)])
