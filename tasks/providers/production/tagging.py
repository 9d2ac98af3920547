"""Labels of documents by a language model that looks at the pictures: one question or several, asked of each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from schemas.row import Row
from schemas.tags import Sees
from tasks.pixels.pictures import PictureRejected, decode_stored
from tasks.prompts import Prompt, untrusted
from tasks.providers.capabilities import Document, Failed
from tasks.providers.production.language_model import CALLS_AT_ONCE, LanguageModel, Question
from tasks.providers.production.upload import SIDE_MAX, Upload, for_upload
from tasks.running.parallel import map_ordered

PROMPT_CHARACTERS = 12_500
"""How much of a prompt is shown, as in FastChat's labelling."""
PICTURES_MAX = 8
"""Pictures shown of one document; the first ones."""

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
    without_pictures: Answers | None = None
    """What is known of a document without pictures; None when it must be asked."""


class LanguageModelTagger(Generic[Labels]):
    """Asks every question of every document; a document has labels when all of its answers came."""

    def __init__(self, model: LanguageModel, asked: Sequence[Asked], labels: Callable[[Answers], Labels]) -> None:
        """`labels` makes the row from the fields of all answers together."""
        self.model, self._labels = model, labels
        self.asked = tuple(asked)
        self.looks_at_pictures = any(each.sees is not Sees.PROMPT for each in asked)
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
        if not document.picture_count and asked.without_pictures is not None:
            return asked.without_pictures
        try:
            question = question_about(document, asked)
        except PictureRejected:
            return Failed("picture_unreadable")
        if question is None:
            return Failed("pictures_missing")  # judged from the prompt alone, the answer would be a guess
        answer = self.model.ask(question, asked.answer)
        return answer if isinstance(answer, Failed) else answer.model_dump()


def question_about(document: Document, asked: Asked) -> Question | None:
    """What is sent; None when pictures must be shown and are not at hand. Raises PictureRejected."""
    if asked.sees is Sees.PROMPT:
        return Question(asked.prompt.text, untrusted(document.prompt[:PROMPT_CHARACTERS]))
    if len(document.pictures) != document.picture_count:
        return None
    prompt = document.prompt[:PROMPT_CHARACTERS] if asked.sees is Sees.BOTH else ""
    return Question(asked.prompt.text, untrusted(prompt), _uploads(document))


def _uploads(document: Document) -> tuple[Upload, ...]:
    shown = document.pictures[:PICTURES_MAX]
    return tuple(for_upload(decode_stored(encoded, format_, "")) for format_, encoded in shown)
