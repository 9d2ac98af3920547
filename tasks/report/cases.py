"""Case figures: a prompt that models fail, its picture, the reference, and what two or three models answered.

In: rows that a release would hold (`failures` and `battle`), which are screened and redacted already, and from the
store references, marks, and answers of models that were asked since, of which only texts that screening let through are
drawn. Out: figures as VisionArena Figs. 9 and 25 to 28 and WildVision App. C have them, and a page of the same cases.
"""

import base64
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tasks.report.case_figures import CasePicture, DrawnAnswer, DrawnCase, drawn_cases
from tasks.report.page import Part
from tasks.runtime.untrusted import CELL_CHARACTERS_MAX, one_file
from tasks.storage.content_id import text_id
from tasks.storage.queries.failures import FAILURE_MARKS, UNKNOWN_MARK, CaseAnswer, failure_cases, require_pictures
from tasks.storage.queries.signals import StoredImages
from tasks.storage.tables import Store

ANSWERS_MAX = 3
"""Most answers of a case, as in the papers."""
CASES_KEY = "cases"
"""Name of the figure with one case of each type, of the table and of the page of all cases."""
MARK_MEANINGS = {
    "O": "right, says a reviewer", "X": "wrong, says a reviewer or every vote", "R": "refused, as measured",
    "O*": "right, says a judge with the reference", "X*": "wrong, says a judge with the reference",
    "?": "nobody has said",
}  # fmt: skip
"""Mark -> what it means."""
_TEXT_COLUMNS = dict.fromkeys(("item_id", "question_id", "model", "text"), pl.String)
_COLUMNS = (
    "question_id", "failure_type", "typed_by", "prompt", "reference", "reference_by", "model", "answer", "mark", "by",
)  # fmt: skip


@dataclass(frozen=True)
class CaseFigures:
    """Cases that may be shown, and what of them may not."""

    cases: Sequence[DrawnCase]
    types: Mapping[str, tuple[str | None, str | None]]
    """question_id -> its type and whose word that is."""
    withheld: int
    """References and answers that are left out, because they are not screened or screening stopped them."""


class ReleasedCases:
    """The drawn failures of a store, in the form that a release has, as its rows come by."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cases = {case.question_id: case for case in failure_cases(store)}
        self._of_battle = dict[str, list[CaseAnswer]]()
        for case in self._cases.values():
            for answer in case.answers:
                if answer.battle_id:
                    self._of_battle.setdefault(answer.battle_id, []).append(answer)
        self._released = dict[str, Mapping[str, Any]]()
        """question_id -> its released row."""
        self._answers = dict[str, str]()
        """Content id of an answer -> its released text."""

    def add(self, config: str, rows: pl.DataFrame) -> None:
        """Take what `rows` of a released configuration say of the cases."""
        if config == "failures":
            for row in rows.select("question_id", "turns", "image_ids", "failure_type", "typed_by").iter_rows(
                named=True
            ):
                self._released[row["question_id"]] = row
        elif config == "battle":
            of_cases = rows.filter(pl.col("question_id").is_in(list(self._of_battle)))
            names = ("question_id", "model_a", "model_b", "conversation_a", "conversation_b")
            for row in of_cases.select(names).iter_rows(named=True):
                for answer in self._of_battle[row["question_id"]]:
                    side = "a" if row["model_a"] == answer.model else "b"
                    if row[f"model_{side}"] == answer.model:
                        self._answers[answer.content_id] = words_of_role(row[f"conversation_{side}"], "assistant")

    def to_screen(self) -> pl.DataFrame:
        """item_id (their content id), question_id, model and text of references and of answers to released cases.

        None of the release's rows has these texts. A reference of a prompt that has one in a benchmark is not among
        them: it may be of the hidden split.
        """
        in_benchmarks = set(self._store.read("references", ["document_id"])["document_id"])
        rows = list[tuple[str, str, str, str]]()
        for case in self._cases.values():
            if case.question_id not in self._released:
                continue
            if case.reference and case.reference.of_case and case.document_id not in in_benchmarks:
                text = case.reference.text
                rows.append((text_id(text), case.question_id, "reference", text))
            rows += [
                (text_id(answer.text), case.question_id, answer.model, answer.text)
                for answer in case.answers
                if not answer.battle_id
            ]
        return pl.DataFrame(rows, _TEXT_COLUMNS, orient="row").unique("item_id", keep="first", maintain_order=True)

    def figures(self, clean: Collection[str]) -> CaseFigures:
        """The cases of released prompts, by type and id. `clean`: content ids of texts that may leave the store."""
        images = StoredImages(self._store, "images", "redacted_images")
        cases, withheld = list[DrawnCase](), 0
        for question_id, row in self._released.items():
            case = self._cases.get(question_id)
            if case is None:
                continue
            reference = case.reference if case.reference and case.reference.text_id in clean else None
            texts = {answer.content_id: self._text(answer, clean) for answer in case.answers}
            withheld += sum(text is None for text in texts.values()) + (
                case.reference is not None and reference is None
            )
            answers = [answer for answer in case.answers if texts[answer.content_id] is not None]
            drawn = DrawnCase(
                question_id=question_id, title=(row["failure_type"] or "undecided").replace("_", " ").capitalize(),
                note=f"{question_id}, type by {row['typed_by']}" if row["typed_by"] else question_id,
                prompt=words_of_role(row["turns"], "user"), reference=reference.text if reference else None,
                reference_by=reference.by if reference else None, pictures=pictures_of(images, row["image_ids"]),
                answers=tuple(
                    DrawnAnswer(answer.model, texts[answer.content_id] or "", answer.mark, answer.by)
                    for answer in _different(answers)[:ANSWERS_MAX]
                ),
            )  # fmt: skip
            cases.append(drawn)
        types = {name: (row["failure_type"], row["typed_by"]) for name, row in self._released.items()}
        ordered = sorted(cases, key=lambda case: (types[case.question_id][0] is None, case.title, case.question_id))
        return CaseFigures(ordered, types, withheld)

    def _text(self, answer: CaseAnswer, clean: Collection[str]) -> str | None:
        """An answer as it may be shown; None where it may not."""
        if answer.battle_id:
            return self._answers.get(answer.content_id)
        return answer.text if text_id(answer.text) in clean else None


def pictures_of(images: StoredImages, image_ids: Sequence[str]) -> tuple[CasePicture, ...]:
    """Stored pictures, in order. Raises BadInput for one that is lost."""
    require_pictures(images, image_ids)
    return tuple(CasePicture(images[image_id].format, images[image_id].bytes) for image_id in image_ids)


def words_of_role(turns: Sequence[Mapping[str, str]], role: str) -> str:
    """All that the user or the assistant said, joined by blank lines."""
    return "\n\n".join(turn["content"] for turn in turns if turn["role"] == role)


def _different(answers: Sequence[CaseAnswer]) -> list[CaseAnswer]:
    """The answers so that the first ones have different marks; those without a mark come last."""
    places = dict[str, int]()

    def place(answer: CaseAnswer) -> tuple[bool, int, int]:
        places[answer.mark] = places.get(answer.mark, -1) + 1
        return answer.mark == UNKNOWN_MARK, places[answer.mark], FAILURE_MARKS.index(answer.mark)

    return sorted(answers, key=place)


def case_parts(figures: CaseFigures) -> list[Part]:
    """A figure of one case of each type with the table of all, then a figure of every case; none without cases."""
    cases = figures.cases
    if not cases:
        return []
    first_of_type = list({case.title: case for case in reversed(cases)}.values())[::-1]
    every = _table(cases, figures.types)
    parts = [Part(CASES_KEY, "Cases of failures", "", every, drawn_cases(first_of_type), CELL_CHARACTERS_MAX)]
    digits = len(str(len(cases)))
    for number, case in enumerate(cases, 1):
        key, table = f"case_{number:0{digits}d}", _table([case], figures.types)
        parts.append(Part(key, f"Case {number}", "", table, drawn_cases([case]), CELL_CHARACTERS_MAX))
    return parts


def _table(cases: Sequence[DrawnCase], types: Mapping[str, tuple[str | None, str | None]]) -> pl.DataFrame:
    """A row is one answer to a case; a case without an answer has one row without a model."""
    rows = [
        (
            case.question_id, *types[case.question_id], case.prompt, case.reference, case.reference_by,
            answer.model, answer.text, answer.mark, answer.by,
        )
        for case in cases
        for answer in case.answers or (DrawnAnswer(None, None, None, None),)
    ]  # fmt: skip
    return pl.DataFrame(rows, dict.fromkeys(_COLUMNS, pl.String), orient="row")


def case_page(figures: CaseFigures) -> str:
    """A page of one file with all cases, whole texts and pictures."""
    here = Path(__file__).parent
    pictures = {
        case.question_id: [
            f"data:image/{picture.format};base64,{base64.b64encode(picture.content).decode()}"
            for picture in case.pictures
        ]
        for case in figures.cases
    }
    values = {"cases": figures.cases, "pictures": pictures, "about": MARK_MEANINGS}
    return one_file(here / "cases.html", {}, [here / "report.css", here / "cases.css"], **values)
