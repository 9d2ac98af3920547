"""A store's verdicts give the same board as files, and never mix judges, draws or versions of answers."""

import pytest

from schemas.errors import BadInput
from schemas.judging import Answer, AnswerState
from schemas.tables import SIGNALS
from schemas.topic import TopicMember
from tasks.judging.boards.judged_verdicts import mean_tokens, stored_verdicts
from tests.builders import conversation, measure_clean, store_with, verdict

VERSIONS = dict.fromkeys(SIGNALS, "1")


def test_verdicts_come_with_the_slices_of_their_prompts_and_the_tokens_of_the_judged_answers(tmp_path):
    answer = {"question_id": "q1", "model": "m", "state": AnswerState.COMPLETE, "text": "x"}
    prompt = conversation("q2", "Where is it?", "Here.")
    store = store_with(
        tmp_path,
        conversations=[prompt],
        verdicts=[verdict(), verdict(question_id="q2", label=None)],
        answers=[Answer(**answer, version="1", tokens=7), Answer(**answer, version="0", tokens=99)],
        topics=[TopicMember(document_id=prompt.document_id, topic=0, probability=1, name="maps", x=0, y=0)],
    )
    measure_clean(store, [prompt], categories={prompt.document_id: {"ocr": True}})
    found = stored_verdicts(store, VERSIONS, {})
    assert [name for name in found.columns if ":" in name] == ["category:ocr", "topic:maps"]
    assert found.select("question_id", "label", "topic:maps").rows() == [("q1", "B>A", False), ("q2", None, True)]
    assert mean_tokens(store, found) == {"m": 7}


@pytest.mark.parametrize("column", ["judge_version", "draw", "baseline"])
def test_several_judges_or_draws_must_be_chosen_from(tmp_path, column):
    store = store_with(tmp_path, verdicts=[verdict(), verdict(**{"question_id": "q2", column: "other"})])
    with pytest.raises(BadInput, match=f"never mixes verdicts of several {column}s; choose with "):
        stored_verdicts(store, VERSIONS, {})
    chosen = {column: "other"}
    assert stored_verdicts(store, VERSIONS, chosen)["question_id"].to_list() == ["q2"]
    with pytest.raises(BadInput, match=r"Known: .*other"):
        stored_verdicts(store, VERSIONS, chosen | {column: "third"})


def test_verdicts_on_two_versions_of_a_models_answers_do_not_mix(tmp_path):
    store = store_with(tmp_path, verdicts=[verdict(), verdict(question_id="q2", answer_b="2")])
    with pytest.raises(BadInput, match=r"of 'm' do not mix; choose with --answer-version: 1, 2$"):
        stored_verdicts(store, VERSIONS, {})
    assert stored_verdicts(store, VERSIONS, {}, ["2"])["question_id"].to_list() == ["q2"]
    with pytest.raises(BadInput, match=r"--answer-version '3'. Known: 1, 2"):
        stored_verdicts(store, VERSIONS, {}, ["3"])


def test_a_store_without_verdicts_says_how_to_make_them(tmp_path):
    with pytest.raises(BadInput, match="curate judge compare"):
        stored_verdicts(store_with(tmp_path), VERSIONS, {})


def test_a_store_with_verdicts_on_written_benchmarks_alone_names_them(tmp_path):
    judged = verdict(protocol="visit", draw="items-drawn", baseline="")
    with pytest.raises(BadInput, match=r"no verdicts on a drawn benchmark; .* give --bench NAME \(drawn\)"):
        stored_verdicts(store_with(tmp_path, verdicts=[judged]), VERSIONS, {})
