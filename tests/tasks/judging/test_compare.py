"""A judge compares answers with the baseline's: every verdict once, no failure as a tie, no answer fools the parser."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from schemas.errors import CurateError
from schemas.items.conversation import Conversation, ShownImage
from tasks.judging.questions import image_places
from tasks.storage.tables import frame_of
from tests.asked_bench import benched, completed, evaluating, last_text, models_file
from tests.builders import VERSIONS
from tests.http_server import Reply

pytest.importorskip("openai", reason="production extra")
from tasks.judging.steps import collect_answers, collect_verdicts
from tests.waiting import wait_until

ROOT = Path(__file__).parents[3]
SEATS = ["model_a", "model_b", "label"]


@pytest.fixture
def server(http_server):
    http_server.answer(Reply(completed("Both are fine. My final verdict is tie: [[A=B]]")))
    return http_server


@pytest.fixture
def judged(server, tmp_path):
    """Makes a store with answers, and a function that compares them with `base`; it returns report and requests."""

    def judged(public=1, **answers):
        store = benched(tmp_path, public, answers or {"base": "Long.", "m": "Short."})
        file = models_file(tmp_path, server.url, "judge")

        def compare(baseline="base", judge=file, **chosen):
            before = len(server.requests)
            report = collect_verdicts.fn(evaluating(store, judge=judge, baseline=baseline, **chosen), VERSIONS)
            return report, server.requests[before:]

        compare.store = store
        return compare

    return judged


def _seats(request):
    text = request["messages"][1]["content"][0]["text"]
    return [part.partition("\n<|The End")[0] for part in text.split("'s Answer|>\n")[1::2]]


def test_visionarena_shows_both_orders_with_the_images_and_the_published_text(judged):
    compare = judged()
    report, requests = compare()
    assert sorted(map(_seats, requests)) == [["Long.", "Short."], ["Short.", "Long."]]
    system, user = requests[0]["messages"]
    assert system["content"].startswith("Please act as an impartial judge")
    assert user["content"][0]["text"].startswith("<|User Prompt|>\nPrompt 0?\n\n<|The Start of Assistant A's Answer|>")
    assert [part["type"] for part in user["content"]] == ["text", "image_url", "image_url"]
    verdicts = compare.store.read("verdicts")
    assert sorted(verdicts.select(SEATS).rows()) == [("base", "m", "A=B"), ("m", "base", "A=B")]
    assert report.counts == {"verdicts": 2}


def test_model_and_judge_see_each_image_at_its_place_among_the_words(judged, server, tmp_path):
    compare = judged()
    rows = [Conversation.model_validate(row) for row in compare.store.read("conversations").to_dicts()]
    asked, answer = rows[0].turns
    places = [ShownImage(image=0, character=0), ShownImage(image=1, character=len("Prompt "))]
    assert (rows[0].conversation_id, asked.content) == ("q00", "Prompt 0?")
    rows[0] = rows[0].model_copy(update={"turns": [asked.model_copy(update={"images": places}), answer]})
    compare.store.replace("conversations", frame_of(Conversation, rows))
    _, requests = compare()
    first, *parts, last = requests[0]["messages"][1]["content"]
    assert [part.get("text", part["type"]) for part in (first, *parts)] == [
        *("<|User Prompt|>\n", "image_url", "Prompt ", "image_url")
    ]
    assert last["text"].startswith("0?\n\n<|The Start of Assistant A's Answer|>")
    collect_answers.fn(evaluating(compare.store, models=models_file(tmp_path, server.url, "new")))
    (content,) = [request["messages"][0]["content"] for request in server.requests[-1:]]
    assert [part.get("text", part["type"]) for part in content] == ["image_url", "Prompt ", "image_url", "0?"]


def test_images_of_later_turns_keep_their_place_and_all_in_front_have_none():
    turns = [
        {"role": "user", "content": "One", "images": [{"image": 0, "character": 0}]},
        {"role": "assistant", "content": "Yes.", "images": []},
        {"role": "user", "content": "two", "images": [{"image": 1, "character": 2}, {"image": 0, "character": 3}]},
    ]
    assert image_places(turns, 2) == (0, len("One\n\ntw"))
    assert image_places(turns, 2, numbered=True) == (len("(1) "), len("(1) One\n\n(2) tw"))
    assert image_places(turns[:2], 1) == ()  # in front, as published prompts have it: sent after the text
    assert image_places(turns, 3) == ()  # nobody knows where the third one stands


def test_wildvision_shows_the_baseline_first_and_once(judged):
    compare = judged(public=2, base="Long.", m="Short.", n="No.")
    report, requests = compare(protocol="wildvision")
    assert sorted(map(_seats, requests)) == sorted([["Long.", "Short."], ["Long.", "No."]] * 2)
    assert set(compare.store.read("verdicts")["protocol"]) == {"wildvision"}
    assert report.model_calls == {"judge": 4}


def test_another_judge_or_protocol_makes_its_own_calls(judged, server, tmp_path):
    compare = judged()
    assert len(compare()[1]) == 2
    assert len(compare(protocol="wildvision")[1]) == 1
    other = models_file(tmp_path, server.url, "other", temperature=1)
    assert len(compare(judge=other)[1]) == 2
    assert compare.store.read("verdicts")["judge_version"].n_unique() == 3


def test_verdicts_on_the_same_answers_serve_another_draw_and_another_baseline_without_a_call(judged):
    compare = judged(public=2)
    compare()
    bench = compare.store.read("bench")
    compare.store.replace("bench", bench.head(1))
    report, requests = compare()
    assert (report.counts, requests) == ({"known_already": 2}, [])
    report, requests = compare(baseline="m")
    assert (report.counts, requests) == ({"known_already": 2}, [])
    assert compare.store.read("verdicts")["draw"].n_unique() == 2


def test_without_a_label_the_judge_is_asked_once_more_and_then_there_is_no_verdict(judged, server):
    compare = judged()
    server.answer(Reply(completed("Hard to say.")))
    report, requests = compare(protocol="wildvision")
    assert [len(request["messages"]) for request in requests] == [2, 4]
    assert last_text(requests[1]).startswith("continue your judgement and finish by outputting a final verdict label")
    (row,) = compare.store.read("verdicts").to_dicts()
    assert (row["label"], row["asked_again"]) == (None, True)
    assert row["text"] == "Hard to say.\nHard to say."
    assert report.counts == {"asked_again": 1, "no_verdict": 1}
    assert compare(protocol="wildvision")[1] == []


def test_the_label_of_the_second_reply_counts_and_two_different_labels_are_none(judged, server):
    compare = judged()
    server.answer(Reply(completed("so and so and", "length")), Reply(completed("[[B>>A]]")))
    compare(protocol="wildvision")
    server.answer(Reply(completed("Not [[A>B]] but [[B>A]]")))
    assert len(compare()[1]) == 2  # conflicting labels are not asked about again
    assert compare.store.read("verdicts").filter(protocol="wildvision")["label"].to_list() == ["B>>A"]
    assert compare.store.read("verdicts").filter(protocol="visionarena")["label"].to_list() == [None, None]


KILLED = """
import sys
from pathlib import Path
from tasks.judging.answers import answers_by_model
from tasks.judging.ask import ask, model_judge
from tasks.judging.pairs import pairs_with_baseline
from tasks.judging.protocols import protocol
from tasks.judging.questions import bench_of_store
from tasks.providers.asked_models import read_models
from tasks.storage.tables import Store
store, (judge,) = Store(sys.argv[1]), read_models(Path(sys.argv[2]))
bench, how = bench_of_store(store, hidden=False), protocol("visionarena")
pairs = list(pairs_with_baseline(bench, answers_by_model(store, bench), how, "base"))
ask(store, pairs, how, model_judge(judge, how))
"""


def test_a_run_killed_between_the_two_orders_continues_with_the_second(judged, server, tmp_path, monkeypatch):
    monkeypatch.setenv("CURATE_CALLS_AT_ONCE", "1")
    compare = judged(public=20)
    reached, taken = threading.Event(), []

    def respond(request):
        taken.append(request)
        if len(taken) == 36:
            reached.set()
        if len(taken) >= 36:
            return Reply(completed("too late"), silent_seconds=60)
        return Reply({}, 400) if len(taken) == 1 else completed("[[A=B]]")  # so that a part ends between two orders

    server.answer(Reply(respond))
    command = [sys.executable, "-c", KILLED, compare.store.root, models_file(tmp_path, server.url, "judge")]
    with subprocess.Popen(command, cwd=ROOT) as run:
        wait_until(reached.is_set, run)
        run.send_signal(signal.SIGKILL)
    kept = compare.store.read("verdicts")
    assert kept.height == 32
    assert kept.group_by("question_id").len()["len"].sort().to_list() == [1, 1, *[2] * 15]
    server.answer(Reply(completed("[[A=B]]")))
    assert len(compare()[1]) == 8
    verdicts = compare.store.read("verdicts")
    assert verdicts.height == verdicts.unique(["question_id", "model_a"]).height == 40


def test_two_versions_of_a_models_answers_must_be_told_apart(judged, server, tmp_path):
    compare = judged()
    file = models_file(tmp_path, server.url, "m")
    server.answer(Reply(completed("Newer.")))
    collect_answers.fn(evaluating(compare.store, models=file))
    with pytest.raises(CurateError, match="model 'm' has answers of two versions"):
        compare()
    base = tmp_path / "only.jsonl"
    base.write_text('{"question_id": "q00", "model": "base", "output": "Long."}')
    with pytest.raises(CurateError, match=r"evaluate\.baseline: no answers of 'base'"):
        compare(models=str(base))


def test_the_baseline_of_a_choice_of_models_may_be_the_stores(judged, tmp_path):
    compare = judged(base="Long.", m="Short.")
    chosen = tmp_path / "only.jsonl"
    chosen.write_text('{"question_id": "q00", "model": "n", "output": "Newer."}')
    collect_answers.fn(evaluating(compare.store, models=str(chosen)))
    report, _ = compare(models=str(chosen))
    assert report.counts == {"verdicts": 2}
    assert {*compare.store.read("verdicts")["model_a"]} == {"base", "n"}


def test_a_judge_or_baseline_that_cannot_be_used_is_named_before_any_call(judged, server, tmp_path):
    compare = judged()
    with pytest.raises(CurateError, match=r"no answers of 'bas'. Known: base, m. Did you mean base?"):
        compare(baseline="bas")
    nothing = evaluating(benched(tmp_path / "none", 1), judge="embedded", baseline="a")
    with pytest.raises(CurateError, match="Known: none"):
        collect_verdicts.fn(nothing, VERSIONS)
    alone = evaluating(benched(tmp_path / "one", 1, {"a": "Yes."}), judge="embedded", baseline="a")
    with pytest.raises(CurateError, match="only 'a' has answers to this benchmark"):
        collect_verdicts.fn(alone, VERSIONS)
    with pytest.raises(CurateError, match=r"names 2 models \(a, b\); give a file with one"):
        compare(judge=models_file(tmp_path, server.url, "a", "b"))
    with pytest.raises(CurateError, match="its system prompt is the protocol's"):
        compare(judge=models_file(tmp_path, server.url, "c", system="Be kind."))
    with pytest.raises(CurateError, match=r"evaluate\.hidden: model 'judge' is not on a server of your own"):
        compare(hidden=True)
    assert server.requests == []
