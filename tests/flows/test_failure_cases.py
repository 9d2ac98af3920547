"""Cases of failures: who says that an answer is right, what a judge is asked, and what it is never asked."""

import json

import polars as pl
import pytest

from schemas.benches.bench import HiddenItem
from schemas.items.review import AnswerTruth
from tasks.judging.questions import bench_of_failures
from tasks.review.failures import FailureAnswersQueue
from tasks.storage.content_id import text_id
from tasks.storage.queries.failures import failure_cases, hard_prompts
from tasks.storage.tables import frame_of
from tests.asked_bench import completed, models_file
from tests.builders import facts_frame
from tests.failed_store import HIDDEN, NEW, PROMPTS, failed_store, redact_first, say
from tests.http_server import Reply

pytestmark = pytest.mark.usefixtures("prefect_server")
REFERENCE = "Five cups stand there."


@pytest.fixture
def failed(tmp_path):
    return failed_store(tmp_path)


@pytest.fixture
def server(http_server, monkeypatch):
    monkeypatch.setenv("CURATE_CALLS_AT_ONCE", "1")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    http_server.answer(Reply(completed('{"reasons": "It says four.", "answer": "wrong"}')))
    return http_server


def refer(curate, failed, folder, *texts):
    """Hand in a file of references for the first cases."""
    lines = [f'{question},"{text}"' for question, text in zip(failed.questions, texts, strict=False)]
    file = folder / "references.csv"
    file.write_text("\n".join(["item,reference", *lines, ""]))
    return curate("review", "in", "failures", file, "--store", failed.store.root)


def marks_of(failed, model=NEW):
    """Mark and whose word it is, by place of the prompt."""
    rows = hard_prompts(failed.store).filter(model=model).select("question_id", "mark", "by").iter_rows()
    return {failed.questions.index(question): (mark, by) for question, mark, by in rows}


def test_votes_alone_make_wrong_answers_and_never_a_right_one(failed):
    assert set(marks_of(failed, "amber").values()) == {("X", "votes")}
    assert set(marks_of(failed, "birch").values()) == {("?", None)}  # a third person voted otherwise
    assert set(marks_of(failed, "cedar").values()) == {("?", None)}  # every vote found it better, which proves nothing
    assert set(marks_of(failed).values()) == {("?", None)}


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["right"], ("O", "people")),
        (["wrong", "wrong", "right"], ("X", "people")),
        (["wrong", "right"], ("?", None)),
        (["unclear"], ("?", None)),
    ],
)
def test_most_reviewers_decide_over_the_votes(failed, verdicts, expected):
    say(failed, "amber", 0, *verdicts)
    assert marks_of(failed, "amber") == {0: expected, 1: ("X", "votes"), 2: ("X", "votes")}


def test_a_refusal_is_what_was_measured_of_the_answer(failed):
    answers = failed.store.read("answers")
    refused = text_id(answers["text"][1])
    failed.store.append("signals/refusal", facts_frame("refusal", {refused: {"refusal": True}}, "2"))
    assert marks_of(failed)[1] == ("R", "refusal")
    say(failed, NEW, 1, "wrong")
    assert marks_of(failed)[1] == ("R", "refusal")
    say(failed, NEW, 1, "right")  # a person looked, and the measure was wrong
    assert marks_of(failed)[1] == ("O", "people")


def test_a_model_that_declines_every_prompt_has_a_mark_for_a_refusal_at_each(failed, curate, server, tmp_path):
    server.answer(Reply(completed("I'm sorry, but I can't assist with that request.")))
    models = models_file(tmp_path, server.url, "polite")
    code, _, err = curate("judge", "answer", "--bench", "failures", "--store", failed.store.root, "--models", models)
    assert code == 0, err
    assert marks_of(failed, "polite") == dict.fromkeys(range(HIDDEN), ("R", "refusal"))


def test_a_judge_reads_the_reference_and_is_asked_about_open_answers_alone(failed, curate, server, tmp_path):
    assert refer(curate, failed, tmp_path, REFERENCE)[0] == 0
    say(failed, "cedar", 0, "right")
    judge = models_file(tmp_path, server.url, "jury")
    asked = ("judge", "failures", "--store", failed.store.root, "--judge", judge)
    assert "2 calls" in curate(*asked, "--dry-run")[1] and server.requests == []
    code, out, err = curate(*asked, "--json")
    assert (code, len(server.requests)) == (0, 2), err  # birch and the new model at the only case with a reference
    told = json.dumps(server.requests[0])
    assert REFERENCE in told and PROMPTS[0] in told and "image_url" in told
    assert marks_of(failed)[0] == marks_of(failed, "birch")[0] == ("X*", "jury")
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert {row["X*"] for row in rows if row.get("model") == NEW and "X*" in row} == {1}
    assert curate(*asked)[0] == 0 and len(server.requests) == 2


def test_a_proposal_holds_until_a_person_has_said(failed, curate, server, tmp_path):
    refer(curate, failed, tmp_path, REFERENCE)
    curate("judge", "failures", "--store", failed.store.root, "--judge", models_file(tmp_path, server.url, "jury"))
    items = FailureAnswersQueue().waiting(failed.store)
    assert sum("Proposed by jury, which read the reference: wrong" in item.question for item in items) == 3
    say(failed, NEW, 0, "right")
    assert marks_of(failed)[0] == ("O", "people")


def test_a_proposal_ends_with_the_reference_that_the_judge_read(failed, curate, server, tmp_path):
    refer(curate, failed, tmp_path, REFERENCE)
    curate("judge", "failures", "--store", failed.store.root, "--judge", models_file(tmp_path, server.url, "jury"))
    assert marks_of(failed)[0] == ("X*", "jury")
    refer(curate, failed, tmp_path, "Four, one of them broken.")
    assert marks_of(failed)[0] == ("?", None)


def test_no_judge_is_asked_without_a_reference_or_about_a_hidden_prompt(failed, refused, curate, server, tmp_path):
    judge = models_file(tmp_path, server.url, "jury")
    asked = ("judge", "failures", "--store", failed.store.root, "--judge", judge)
    assert "no failure has a reference" in refused(*asked)
    assert failed.questions[HIDDEN] not in {case.question_id for case in failure_cases(failed.store)}
    file = tmp_path / "hidden.csv"
    file.write_text(f"item,reference\n{failed.documents[HIDDEN]},A shop.\n")
    assert "unknown case" in refused("review", "in", "failures", file, "--store", failed.store.root)
    assert server.requests == []


def hide(failed, document_id):
    """Reserve a prompt, under the id of what was logged, for the hidden split."""
    reserved = {"topic": 0, "first_month": "2024-09", "last_month": "2024-11", "drawn": True}
    failed.store.replace("hidden", frame_of(HiddenItem, [HiddenItem(document_id=document_id, **reserved)]))


def shown_prompts(store):
    """Prompts that models are asked, and those of the cases."""
    asked = {question.prompt for question in bench_of_failures(store).questions}
    return asked, {case.prompt for case in failure_cases(store, drawn=False)}


def test_a_hidden_prompt_is_asked_of_no_model_where_redaction_gave_it_another_id(failed):
    redact_first(failed, "cups", "<EMAIL_1>")
    masked = "How many <EMAIL_1> are there?"
    assert all(masked in prompts for prompts in shown_prompts(failed.store))
    hide(failed, failed.documents[0])
    assert not any(masked in prompts for prompts in shown_prompts(failed.store))


def test_a_prompt_that_redaction_makes_equal_to_a_hidden_one_is_no_case(failed):
    redact_first(failed, "cups", "<EMAIL_1>")
    # the last of the conversations on it was logged with another address
    other = pl.when(conversation_id="f02-right").then(pl.lit("e" * 32)).otherwise("document_id")
    failed.store.replace("conversations", failed.store.read("conversations").with_columns(document_id=other))
    hide(failed, "e" * 32)
    assert not any("How many <EMAIL_1> are there?" in prompts for prompts in shown_prompts(failed.store))


@pytest.mark.parametrize(
    ("reply", "told"),
    [('{"answer": "perhaps"}', "malformed_answer"), ('{"answer": "right", "answer": "wrong"}', "malformed_answer")],
)
def test_a_reply_that_says_nothing_clear_is_no_verdict(failed, curate, server, tmp_path, reply, told):
    refer(curate, failed, tmp_path, REFERENCE)
    server.answer(Reply(completed(reply)))
    asked = ("judge", "failures", "--store", failed.store.root, "--judge", models_file(tmp_path, server.url, "jury"))
    _, _, err = curate(*asked)
    assert told in err and marks_of(failed)[0] == ("?", None)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(("--dry-run",), "no judge is given"), (("--judge", "embedded"), "cannot tell whether")],
)
def test_options_that_cannot_go_together_are_one_line(failed, refused, arguments, told):
    assert told in refused("judge", "failures", "--store", failed.store.root, *arguments)


def test_every_verdict_on_an_answer_is_a_word_of_the_queue():
    assert [choice.verdict for choice in FailureAnswersQueue.choices] == [truth.value for truth in AnswerTruth]
