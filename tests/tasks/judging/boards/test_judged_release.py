"""Which verdicts a board is made of: those on its draw, of one judge and answer version, and of whole slices."""

from pathlib import Path

import pytest

from flows.products import PRODUCTS, parts_of_store
from schemas.benches.judging import STAND_IN, Answer, AnswerState, Verdict
from schemas.errors import BadInput
from schemas.items.conversation import Conversation
from schemas.items.topic import TopicMember
from schemas.settings import Settings
from tasks.bench.draw import draw_name, drawn_prompts
from tasks.explore.of_release import OfRelease
from tasks.explore.of_store import OfStore
from tasks.judging.boards.judged_verdicts import mean_tokens, stored_verdicts
from tasks.judging.boards.released_board import chosen_verdicts, released_board
from tasks.policy.explained import explained
from tasks.release.fetched import read_manifest
from tasks.storage.tables import frame_of
from tests.asked_bench import benched
from tests.builders import VERSIONS, conversation, measure_clean, store_with, verdict
from tests.judged_store import ASKED, judged_store, release_judged, verdicts
from tests.looked_store import client
from tests.small_store import MODELS


def _with(store, **changes):
    store.append("verdicts", frame_of(Verdict, verdicts(store, **changes)))


def test_verdicts_on_other_draws_and_on_other_prompts_are_left_out(tmp_path):
    store = judged_store(tmp_path)
    _with(store, draw="an earlier one", judge_version="2")
    _with(store, draw="hidden-abc", judge_version="3")
    _with(store, question_id="not released", judge_version="4")
    chosen = chosen_verdicts(store, [ASKED])
    assert chosen[1] == []
    assert set(chosen[0]["question_id"]) == {ASKED}
    assert chosen_verdicts(store, ["another"]) is None


def test_the_embedded_judge_counts_only_where_there_is_no_other(tmp_path):
    store = judged_store(tmp_path)
    own = store.read("verdicts")["judge_version"][0]
    _with(store, judge=STAND_IN, judge_version="e1")
    _with(store, judge=STAND_IN, judge_version="e1", draw="other")
    assert chosen_verdicts(store, [ASKED])[0]["judge_version"].unique().to_list() == [own]
    assert chosen_verdicts(store, [ASKED])[1] == ["e1"]


def test_of_several_judge_versions_the_one_with_most_verdicts_counts_and_then_the_newest(tmp_path):
    store = judged_store(tmp_path)
    _with(store, judge_version="a newer one")
    assert set(chosen_verdicts(store, [ASKED])[0]["judge_version"]) == {"a newer one"}
    store.append("verdicts", frame_of(Verdict, verdicts(store, judge_version="the newest, and not done")[:3]))
    assert set(chosen_verdicts(store, [ASKED])[0]["judge_version"]) == {"a newer one"}


def test_a_judge_version_can_be_chosen_and_an_unknown_one_is_named_beside_the_known(tmp_path):
    store = judged_store(tmp_path)
    (own,) = set(store.read("verdicts")["judge_version"])
    _with(store, judge_version="a newer one")
    found = chosen_verdicts(store, [ASKED], own)
    assert (set(found[0]["judge_version"]), found[1]) == ({own}, ["a newer one"])
    with pytest.raises(BadInput, match=r"no verdict on this benchmark by 'a newer two'. Known: .*a newer one"):
        chosen_verdicts(store, [ASKED], "a newer two")


def test_of_a_models_answers_only_one_version_is_judged(tmp_path):
    store = judged_store(tmp_path)
    again = [row for row in verdicts(store, answer_b="newer") if row.model_b == "new-model"]
    store.append("verdicts", frame_of(Verdict, again))
    found, _ = chosen_verdicts(store, [ASKED])
    assert (found.height, "newer" in set(found["answer_b"])) == (6, False)


def test_a_draw_with_a_prompt_that_is_not_kept_any_more_has_no_board(tmp_path):
    store = judged_store(tmp_path)
    decisions = store.read("decisions")
    store.replace("decisions", decisions.with_columns(keep=decisions["item_id"] != ASKED))
    assert chosen_verdicts(store, [ASKED]) is None


ALL_PROMPTS = {"overall", "category:multi_image"}
"""Slices of all prompts of `benched`, which show two images each."""


@pytest.mark.parametrize(("prompts", "slices"), [(9, ALL_PROMPTS), (10, ALL_PROMPTS | {"topic:maps"})])
def test_slices_with_enough_judged_prompts_have_a_board(tmp_path, prompts, slices):
    store = benched(tmp_path, 12)
    asked = [Conversation.model_validate(row) for row in store.read("conversations").to_dicts()]
    drawn = sorted(row.conversation_id for row in asked if row.conversation_id != "secret")
    measure_clean(store, asked, categories={asked[0].document_id: {"ocr": True}})
    of_topic = [row.document_id for row in asked if row.conversation_id in drawn[:prompts]]
    topics = [TopicMember(document_id=d, topic=0, probability=1, name="maps", x=0, y=0) for d in of_topic]
    store.replace("topics", frame_of(TopicMember, topics))
    draw = draw_name(drawn_prompts(store, hidden=False), hidden=False)
    store.replace("verdicts", frame_of(Verdict, [verdict(question_id=name, draw=draw) for name in drawn]))
    chosen = chosen_verdicts(store, drawn)
    board = released_board(store, chosen[0], drawn, Settings(store=store.root), VERSIONS)
    assert {row.slice for row in board} == slices


def test_verdicts_come_with_the_slices_of_their_prompts_and_the_tokens_of_every_judged_answer(tmp_path):
    of_m = {"question_id": "q1", "model": "m", "state": AnswerState.COMPLETE}
    submitted = of_m | {"model": "base", "text": "A red bus.", "tokens": None}
    prompt = conversation("q2", "Where is it?", "Here.")
    store = store_with(
        tmp_path,
        conversations=[prompt],
        verdicts=[verdict(), verdict(question_id="q2", label=None)],
        answers=[
            Answer(**of_m, text="Red.", version="1", tokens=700),  # as a service counts, with what the model thought
            Answer(**of_m, text="Not judged, and long.", version="0", tokens=99),
            Answer(**submitted, version="1"),
        ],
        topics=[TopicMember(document_id=prompt.document_id, topic=0, probability=1, name="maps", x=0, y=0)],
    )
    measure_clean(store, [prompt], categories={prompt.document_id: {"ocr": True}})
    found = stored_verdicts(store, VERSIONS, {})
    assert [name for name in found.columns if ":" in name] == ["category:ocr", "topic:maps"]
    assert found.select("question_id", "label", "topic:maps").rows() == [("q1", "B>A", False), ("q2", None, True)]
    assert mean_tokens(store, found) == {"m": 2, "base": 4}


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


def test_the_explorer_shows_the_judge_s_board_of_store_and_release_with_what_it_rests_on(tmp_path):
    store = judged_store(tmp_path)
    release = Path(store.root) / str(release_judged(store).result)
    manifest = read_manifest(release)
    parts = parts_of_store(store)
    for source in (OfStore(store, explained, PRODUCTS), OfRelease(release, manifest.version, lambda: "", parts)):
        page = client(source).get("/boards").text
        about = page.partition("The judge&#39;s board")[2] or page.partition("The judge's board")[2]
        assert "gpt-x" in about and "visionarena" in about and f"those of <bdi>{MODELS[0]}</bdi> (score 50)" in about
        assert about.index(MODELS[1]) < about.index("new-model"), "the model that won stands above one that lost"
