"""Models answer the benchmark once, and what fails is asked again."""

import base64

import polars as pl
import pytest

from schemas.errors import CurateError
from schemas.items.conversation import Conversation
from tasks.judging.answers import answers_by_model
from tasks.judging.questions import bench_of_store
from tasks.runtime.budget import one_ledger, start_ledger
from tasks.storage.tables import frame_of
from tests.asked_bench import HIDDEN_PROMPT, PUBLIC, benched, completed, evaluating, last_text, models_file, said_by
from tests.builders import conversation, drawn_image
from tests.http_server import Reply

pytest.importorskip("openai", reason="production extra")
from tasks.judging.steps import collect_answers

PROMPTS = [f"Prompt {n}?" for n in range(PUBLIC)]


@pytest.fixture
def server(http_server):
    http_server.answer(Reply(said_by(lambda text: f"On {text}")))
    yield http_server
    start_ledger()


@pytest.fixture
def ask(server, tmp_path):
    """Runs the stage on one store with these models; the texts that the server was sent meanwhile."""
    store = benched(tmp_path)

    def ask(*names, models=None, budget=None, **changes):
        chosen = {name: changes.pop(name) for name in ("hidden", "bench_release") if name in changes}
        file = models or models_file(tmp_path, server.url, *names, **changes)
        before = len(server.requests)
        report = collect_answers.fn(evaluating(store, budget=budget, models=file, **chosen))
        return report, sorted(last_text(request) for request in server.requests[before:])

    ask.store = store
    return ask


def test_every_public_prompt_is_asked_with_all_its_images_in_order(ask, server):
    report, sent = ask("a")
    assert sent == PROMPTS
    urls = [part["image_url"]["url"] for part in server.requests[0]["messages"][0]["content"][1:]]
    assert [base64.b64decode(url.partition(",")[2]) for url in urls] == [drawn_image(n).encoded for n in (2, 0)]
    answers = ask.store.read("answers")
    assert answers.select("question_id", "text", "state", "tokens").rows()[1] == ("q01", "On Prompt 1?", "complete", 5)
    assert report.counts == {"complete": PUBLIC}
    assert report.model_calls == {"a": PUBLIC}


def test_a_second_run_makes_no_call_and_one_more_model_only_its_own(ask, server):
    ask("a")
    assert ask("a")[1] == []
    assert ask("a", "b")[1] == PROMPTS
    assert ask("a", "b", temperature=1)[1] == sorted(PROMPTS * 2)  # other settings are another version
    assert ask.store.read("answers").height == 4 * PUBLIC


def test_a_failed_call_stores_nothing_and_is_made_again(ask, server):
    server.answer(Reply(said_by(lambda text: Reply({}, 400) if "2" in text else "Yes.")))
    report, _ = ask("a")
    assert report.failures == {"a: http_400": 1}
    assert ask.store.read("answers").height == PUBLIC - 1
    server.answer(Reply(completed("Now.")))
    assert ask("a")[1] == ["Prompt 2?"]
    assert ask.store.read("answers").filter(text="Now.").height == 1


def test_refused_truncated_and_empty_are_answers(ask, server):
    odd = {
        "Prompt 0?": completed(None, refusal="No."),
        "Prompt 1?": completed("and so on and", "length"),
        "Prompt 2?": completed(""),
        "Prompt 3?": completed("Fine."),
    }
    server.answer(Reply(said_by(odd.get)))
    assert ask("a")[0].counts == {"complete": 1, "empty": 1, "refused": 1, "truncated": 1}
    assert ask("a")[1] == []


def test_a_prompt_that_a_vendor_blocks_is_refused_once_and_not_asked_again(ask, server):
    blocked = Reply({"error": {"message": "filtered", "code": "content_filter", "param": "prompt"}}, 400)
    server.answer(Reply(said_by(lambda text: blocked if "2" in text else "Yes.")))
    report, _ = ask("a")
    assert (report.counts, report.failures) == ({"complete": PUBLIC - 1, "refused": 1}, {})
    assert ask("a")[1] == []


def test_what_a_paused_model_left_is_asked_at_the_end_if_it_answers_again(server, tmp_path, monkeypatch, short_waits):
    monkeypatch.setenv("CURATE_CALLS_AT_ONCE", "1")
    store, models = benched(tmp_path, 30), models_file(tmp_path, server.url, "a")
    down = [Reply({"error": "busy"}, 503)] * 15
    for replies, failures, requests in (
        ([*down, Reply(completed("Yes."))], {"a: server_error": 3}, 15 + 27),
        ([*down, down[0]], {"a: server_error": 3}, 15),  # three prompts are left: three failures are no pause
    ):
        server.answer(*replies)
        before = len(server.requests)
        with one_ledger(None, None):
            report = collect_answers.fn(evaluating(store, models=models))
        assert (report.failures, len(server.requests) - before) == (failures, requests)
    assert store.read("answers").height == 27


def test_the_hidden_split_goes_only_to_a_server_of_ones_own(ask, server):
    with pytest.raises(CurateError, match=r"evaluate\.hidden: model 'b' is not on a server of your own"):
        ask("b", hidden=True)
    assert server.requests == []
    report, sent = ask("a", hidden=True, own=True)
    assert sent == [HIDDEN_PROMPT]
    assert report.counts == {"complete": 1}


def test_a_lost_image_is_named_before_anything_is_sent(ask, server):
    lost = drawn_image(2).image_id
    images = ask.store.read("images")
    ask.store.replace("images", images.filter(images["image_id"] != lost))
    with pytest.raises(CurateError, match=f"question 'q00': its image '{lost}' is lost"):
        ask("a")
    assert server.requests == []


BAD_FILES = {
    "models: [{name: a, vendor: opnai, model: m}]": "unknown vendor 'opnai'. Known: anthropic, embedded, gemini",
    "models: [{name: a, vendor: openai, modle: m}]": "unknown key 'modle'.*Did you mean model?",
    "models: [{vendor: openai, model: m}]": "entry 1: name: is missing",
    "models: [{name: a, vendor: openai, model: m, key: sk-secret}]": "key: .*the name of an environment variable",
    "models: [{name: a, vendor: openai, model: m, own: true}]": "own: true needs the base_url",
    "models: [{name: a, vendor: openai, model: m, own: true, base_url: 'https://api.openai.com.'}]": "not a vendor's",
    "models: [{name: a, vendor: openai, model: m, own: true, base_url: 'https://OpenAI.com'}]": "not a vendor's",
    "models: [{name: a, vendor: openai, model: m, base_url: 'https://api\u3002openai.com'}]": "base_url: .*an address",
    "models: [{name: a, vendor: openai, model: m, base_url: 'https://sk-secret@host/v1'}]": "without a user's name",
    "models: [{name: a, vendor: anthropic, model: m, temperature: 1.5}]": "Anthropic's go from 0 to 1",
    "models: [{name: a, vendor: openai, model: m, key: SK_SECRET}]": "model 'a': the variable that its `key` names is",
    "models: [{name: a, vendor: anthropic, model: m}]": "model 'a': ANTHROPIC_API_KEY is not set",
    "models: [{name: a, vendor: openai, model: m}, {name: a, vendor: openai, model: n}]": "'a' stands twice",
    "models: []": "give the list `models`",
    "- a": "give the list `models`",
    "models: {": "is not YAML",
}


@pytest.mark.parametrize("content", BAD_FILES)
def test_a_models_file_that_cannot_be_used_is_one_line_without_secrets(ask, server, tmp_path, monkeypatch, content):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    path = tmp_path / "bad.yaml"
    path.write_text(content)
    with pytest.raises(CurateError, match=BAD_FILES[content]) as stopped:
        ask(models=str(path))
    assert "\n" not in str(stopped.value)
    assert "secret" not in str(stopped.value).lower()
    assert server.requests == []


def test_a_prompt_that_was_redacted_since_is_asked_again_and_its_old_answer_is_not_compared(ask, server):
    ask("a")
    conversations = ask.store.read("conversations")
    changed = conversation("q01", "Prompt <PERSON>?", "Old answer.", image_ids=conversations["image_ids"][0].to_list())
    others = conversations.filter(pl.col("conversation_id") != "q01")
    ask.store.replace("conversations", pl.concat([others, frame_of(Conversation, [changed])]))
    assert ask("a")[1] == ["Prompt <PERSON>?"]
    bench = bench_of_store(ask.store, hidden=False)
    assert answers_by_model(ask.store, bench)["a"]["q01"]["text"] == "On Prompt <PERSON>?"
    assert ask.store.read("answers").filter(text="On Prompt 1?").height == 1  # a policy may be taken back
