"""Case figures hold what a release would show, and of other texts those alone that screening let through."""

import polars as pl
import pytest
from PIL import Image

from schemas.benches.bench import CaseReference
from schemas.release import CONFIGS
from schemas.settings import BenchSettings
from tasks.policy.answers import screened
from tasks.providers import Providers
from tasks.release.gather import Gathered
from tasks.report.case_figures import PICTURE_HEIGHT, PICTURE_WIDTH, picture_in_print, size_on_figure
from tasks.report.cases import ReleasedCases, case_page, case_parts
from tasks.report.examples import ReleasedExamples
from tasks.signals.steps import signal_versions
from tasks.storage.content_id import text_id
from tasks.storage.tables import frame_of
from tests.builders import NOON, facts_frame
from tests.failed_store import HIDDEN, NEW, PROMPTS, failed_store, measured_too, redact_first, say
from tests.small_store import POLICY

SECRET = "write to jane.roe@example.com"


@pytest.fixture
def failed(tmp_path):
    return failed_store(tmp_path)


def figures_of(store):
    """The case figures of a store, as `curate export figures` makes them."""
    versions = signal_versions(Providers())
    gathered, released = (
        Gathered(store, versions, BenchSettings(), pl.Series([], dtype=pl.String)),
        ReleasedCases(store),
    )
    for config in CONFIGS:
        for rows in gathered.rows(config):
            released.add(config, rows)
    texts = released.to_screen()
    rows = screened(store, POLICY, versions, texts)
    return released.figures({row.item_id for row in rows if not row.reasons})


def refer(failed, place, text):
    """Store a person's reference of a case."""
    row = CaseReference(
        document_id=failed.documents[place], conversation_id=failed.questions[place], text=text, written_at=NOON
    )
    failed.store.append("case_references", frame_of(CaseReference, [row]))


def test_a_figure_is_made_of_every_released_case_and_of_no_hidden_one(failed):
    figures = figures_of(failed.store)
    assert {case.question_id for case in figures.cases} == {*failed.questions} - {failed.questions[HIDDEN]}
    page, parts = case_page(figures), case_parts(figures)
    assert [part.key for part in parts] == ["cases", "case_1", "case_2", "case_3"]
    assert PROMPTS[HIDDEN] not in page and PROMPTS[0] in page
    first = parts[1]
    assert all(text in first.figure.svg for text in ("amber", "wrong, says every vote", "data:image/png"))
    assert first.figure.pdf()[0].startswith(b"%PDF") and not first.figure.pdf()[1]


def test_texts_of_others_are_escaped(failed):
    figures = figures_of(failed.store)
    (asked,) = [part for part in case_parts(figures)[1:] if "b>this" in part.table["prompt"][0]]
    assert "<b>this" not in case_page(figures) and "&lt;b&gt;this" in case_page(figures)
    assert "<b>" not in asked.figure.svg and "&lt;b&gt;this" in asked.figure.svg


def test_texts_and_pictures_of_redacted_conversations_are_the_redacted_ones(failed):
    plain = figures_of(failed.store).cases
    redact_first(failed, "cups", "[email]")
    figures = figures_of(failed.store)
    (case,) = [case for case in figures.cases if case.question_id == failed.questions[0]]
    assert (case.prompt, case.answers[0].text) == ("How many [email] are there?", "I see 0 [email].")
    before = next(each for each in plain if each.question_id == case.question_id)
    assert len(case.pictures) == 1 and case.pictures != before.pictures
    assert PROMPTS[0] not in case_page(figures)


def test_a_reference_is_drawn_once_it_was_screened(failed):
    refer(failed, 0, "Five cups.")
    before = figures_of(failed.store)
    assert [case.reference for case in before.cases] == [None] * 3 and before.withheld == 1 + 3
    measured_too(failed.store, "Five cups.")
    after = figures_of(failed.store)
    assert sorted(filter(None, (case.reference for case in after.cases))) == ["Five cups."]
    assert "Five cups." in case_page(after) and after.withheld == 3  # answers of the model asked since


def test_personal_data_of_a_reference_is_never_drawn(failed):
    refer(failed, 0, SECRET)
    measured_too(failed.store, SECRET)
    found = failed.store.read("signals/text_pii")
    span = {"type": "email", "start": 9, "end": len(SECRET), "confidence": 1.0}
    version = signal_versions(Providers())["text_pii"]
    personal = facts_frame("text_pii", {text_id(SECRET): {"types": ["email"], "spans": [span]}}, version)
    failed.store.replace(
        "signals/text_pii", pl.concat([found.filter(pl.col("content_id") != text_id(SECRET)), personal])
    )
    assert "jane.roe" not in case_page(figures_of(failed.store))


def test_an_answer_of_a_model_that_was_asked_since_is_drawn_once_it_was_screened(failed):
    assert NEW not in case_page(figures_of(failed.store))
    measured_too(failed.store, *failed.store.read("answers")["text"])
    say(failed, NEW, 0, "right")
    figures = figures_of(failed.store)
    assert f"{NEW}: right, say reviewers" in case_page(figures) and figures.withheld == 0


def test_a_case_that_became_unsafe_is_in_no_figure(failed):
    tags = pl.when(pl.col("item_id") == failed.questions[0]).then(pl.lit(["nsfw_image"])).otherwise("tags")
    failed.store.replace("decisions", failed.store.read("decisions").with_columns(tags=tags))
    assert len(figures_of(failed.store).cases) == 2


def test_pictures_keep_their_proportions_and_no_more_pixels_than_print_needs(failed):
    picture = picture_in_print(figures_of(failed.store).cases[0].pictures[0])
    wide, high = size_on_figure(picture)
    assert isinstance(picture, Image.Image) and picture.size == (64, 48)
    assert wide <= PICTURE_WIDTH and high <= PICTURE_HEIGHT and abs(wide / high - 64 / 48) < 0.01


def test_the_same_cases_give_the_same_bytes(failed):
    one, other = (case_parts(figures_of(failed.store))[0].figure for _ in range(2))
    assert one.svg == other.svg and one.pdf() == other.pdf()


def test_an_example_of_each_class_is_the_first_released_battle_of_the_class(failed):
    store, versions = failed.store, signal_versions(Providers())
    classes = {document: {"question_category": "Analytical"} for document in failed.documents}
    classes[failed.documents[2]] = {"question_category": "Recognition", "image_domain": "Objects"}
    store.replace("signals/taxonomy", facts_frame("taxonomy", classes, versions.get("taxonomy", "1")))
    examples = ReleasedExamples(store)
    gathered = Gathered(store, versions, BenchSettings(), pl.Series([], dtype=pl.String))
    for config in CONFIGS:
        for rows in gathered.rows(config):
            examples.add(config, rows)
    by_question, by_image = examples.parts()
    assert by_question.table["class"].to_list() == ["Analytical", "Recognition"]
    assert by_question.table["prompt"].to_list() == [PROMPTS[0], PROMPTS[2]]
    assert by_image.table["class"].to_list() == ["Objects"] and "data:image" in by_image.figure.svg


def test_without_failures_there_is_no_figure(failed):
    failed.store.replace("failures", failed.store.read("failures").clear())
    assert case_parts(figures_of(failed.store)) == []
