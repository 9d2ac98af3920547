"""What language models are asked, whoever hosts them: categories, criteria, taxonomy and topic names."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pydantic import create_model

from schemas.row import Row
from schemas.tags import TAGS, Categories, Criteria, Sees, Taxonomy, sees
from tasks.images.decode import ImageRejected, decode_stored
from tasks.prompts import Prompt, criteria_prompt, load_prompt, tags_prompt, taxonomy_prompt, untrusted
from tasks.prompts.taxonomy import Tree, placed, taxonomy_file
from tasks.providers.capabilities import Document, Failed, TopicEvidence
from tasks.providers.production.calls import CALLS_AT_ONCE
from tasks.providers.production.language_model import LanguageModel, Question
from tasks.providers.production.upload import SIDE_MAX, Upload, for_upload
from tasks.runtime.parallel import map_ordered

PROMPT_CHARACTERS = 12_500
"""How much of a prompt is shown, as in FastChat's labelling."""
PICTURES_MAX = 8
"""Images shown of one document; the first ones."""
KEYWORDS, EXEMPLARS, EXEMPLAR_CHARACTERS = 20, 10, 400
"""How much of a topic is shown: a name needs the gist and no more of what people wrote."""
NAME_CHARACTERS_MAX = 60
_NAME = re.compile(r"[^\W\d_](?:(?!\d{5})[\w ,&/'’().+#-])*")
"""Words and light punctuation on one line: no address, link or long number fits."""

Labels = TypeVar("Labels", bound=Row)
Answers = Mapping[str, Any]


@dataclass(frozen=True)
class Asked:
    """One question, asked of every document."""

    prompt: Prompt
    """The instructions."""
    answer: type[Row]
    """Fields of the answer."""
    sees: Sees = Sees.BOTH
    """What is shown of a document."""
    without_images: Answers | None = None
    """What is known of a document without images; None when it must be asked."""


class LanguageModelTagger(Generic[Labels]):
    """Asks every question of every document; a document has labels when all of its answers came."""

    def __init__(self, model: LanguageModel, asked: Sequence[Asked], labels: Callable[[Answers], Labels]) -> None:
        """`labels` makes the row from the fields of all answers together."""
        self.model, self._labels = model, labels
        self.asked = tuple(asked)
        self.looks_at_images = any(each.sees is not Sees.PROMPT for each in asked)
        self.service = model.version
        self.version = f"{model.version}-max{SIDE_MAX}+{'+'.join(each.prompt.version for each in asked)}"

    def tag(self, documents: Sequence[Document]) -> list[Labels | Failed]:
        """Labels of every document, in order; several questions are under way at a time."""
        pairs = [(document, each) for document in documents for each in self.asked]
        answers = iter(list(map_ordered(lambda pair: self._answer(*pair), pairs, CALLS_AT_ONCE)))
        return [self._together([next(answers) for _ in self.asked]) for _ in documents]

    def _together(self, answers: Sequence[Answers | Failed]) -> Labels | Failed:
        """One failure fails the document: a label that was not given is neither a no nor a null."""
        fields: dict[str, Any] = {}
        for answer in answers:
            if isinstance(answer, Failed):
                return answer
            fields |= answer
        return self._labels(fields)

    def _answer(self, document: Document, asked: Asked) -> Answers | Failed:
        if not document.picture_count and asked.without_images is not None:
            return asked.without_images
        try:
            question = _question(document, asked)
        except ImageRejected:
            return Failed("picture_unreadable")
        if question is None:
            return Failed("pictures_missing")  # judged from the prompt alone, the answer would be a guess
        answer = self.model.ask(question, asked.answer)
        return answer if isinstance(answer, Failed) else answer.model_dump()


def _question(document: Document, asked: Asked) -> Question | None:
    """What is sent; None when images must be shown and are not at hand. Raises ImageRejected."""
    prompt = "" if asked.sees is Sees.PICTURES else document.prompt[:PROMPT_CHARACTERS]
    if asked.sees is Sees.PROMPT:
        return Question(asked.prompt.text, untrusted(prompt))
    if len(document.pictures) != document.picture_count:
        return None
    return Question(asked.prompt.text, untrusted(prompt), _uploads(document))


def _uploads(document: Document) -> tuple[Upload, ...]:
    shown = document.pictures[:PICTURES_MAX]
    return tuple(for_upload(decode_stored(encoded, format_, "")) for format_, encoded in shown)


def categories(model: LanguageModel) -> LanguageModelTagger[Categories]:
    """All tags in one question."""
    asked = Asked(tags_prompt("categories", TAGS), Categories)
    return LanguageModelTagger(model, [asked], lambda answers: Categories(**answers))


def categories_each_tag(model: LanguageModel) -> LanguageModelTagger[Categories]:
    """One question a tag, each shown what the tag is decided from."""
    return LanguageModelTagger(model, [_alone(tag) for tag in TAGS], lambda answers: Categories(**answers))


def _alone(tag: str) -> Asked:
    """The question about one tag; a tag of the images is false where there are none."""
    field = Categories.model_fields[tag]
    answer = create_model(tag, __base__=Row, **{tag: (field.annotation, ...)})  # type: ignore[call-overload]
    known = {tag: False} if sees(tag) is Sees.PICTURES else None
    return Asked(tags_prompt(tag, (tag,)), answer, sees(tag), known)


def criteria(model: LanguageModel) -> LanguageModelTagger[Criteria]:
    """BenchBuilder's criteria."""
    return LanguageModelTagger(model, [Asked(criteria_prompt(), Criteria)], lambda answers: Criteria(**answers))


def taxonomy(model: LanguageModel) -> LanguageModelTagger[Taxonomy]:
    """A place in WildVision's taxonomy (`tasks/prompts/taxonomy.yaml`)."""
    known = taxonomy_file()
    fields: dict[str, Any] = {"question": (_one_of(known.question), ...), "image": (_one_of(known.image), ...)}
    asked = Asked(taxonomy_prompt(), create_model("Place", __base__=Row, **fields))
    return LanguageModelTagger(model, [asked], lambda answers: placed(answers["question"], answers["image"]))


def _one_of(tree: Tree) -> Any:
    """An enum of every value, or null."""
    return Literal[tree.values] | None


class TopicName(Row):
    """What a group of prompts is about."""

    name: str
    """Two to six English words in title case."""


class TopicNames:
    """Asks for one name a topic."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.service = model.version
        prompt = load_prompt("topic_name")
        self.instructions = prompt.text
        self.version = f"{model.version}+{prompt.version}"

    def name_topics(self, topics: Sequence[TopicEvidence]) -> list[str | Failed]:
        """A few words for every topic, in order."""
        return list(map_ordered(self._name, topics, CALLS_AT_ONCE))

    def _name(self, topic: TopicEvidence) -> str | Failed:
        answer = self._model.ask(Question(self.instructions, untrusted(_evidence(topic))), TopicName)
        if isinstance(answer, Failed):
            return answer
        name = answer.name.strip()
        return name if len(name) <= NAME_CHARACTERS_MAX and _NAME.fullmatch(name) else Failed("unusable_name")


def _evidence(topic: TopicEvidence) -> str:
    """Keywords, then exemplars one a line, cut short."""
    exemplars = [" ".join(text.split())[:EXEMPLAR_CHARACTERS] for text in topic.exemplars[:EXEMPLARS]]
    return "\n".join([f"Words: {', '.join(topic.keywords[:KEYWORDS])}", "Requests:", *(f"- {e}" for e in exemplars)])
