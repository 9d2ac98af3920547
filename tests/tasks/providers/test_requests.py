"""What every vendor is sent, and the versions of what is measured with it, as they were; hostile texts stay fenced."""

import asyncio
import base64
import json
import re
from contextlib import suppress
from pathlib import Path

import pytest

from schemas.asked_model import ArenaModel, AskedModel
from schemas.tags import TAGS, Categories
from tasks.prompts import criteria_prompt, load_prompt, tags_prompt, taxonomy_prompt
from tasks.providers import Providers
from tasks.providers.capabilities import ChatMessage, ReplyShape, TopicEvidence
from tasks.providers.chat import chat_model, streaming_model
from tasks.storage.tables import Store
from tests.batch_server import BatchServer
from tests.hostile_texts import HOSTILE_TEXTS
from tests.tasks.providers.conftest import _gemini, _openai, anthropic_vendor

pytest.importorskip("openai", reason="production extra")
pytest.importorskip("google.genai", reason="production extra")

from tasks.providers.production import labels
from tasks.providers.production.batches.api import json_line, json_rows, question_name
from tasks.providers.production.openai.model import AnswerCutOff, defused

BODIES = json.loads(Path(__file__).with_name("requests.json").read_text("utf-8"))
"""`vendor use` -> body, with words for prompt file and image. Batches of earlier runs are found by their bodies."""
MODERATES = {"openai": "openai_chat", "gemini": "gemini"}
MAKERS = ("aspects", "description", "checks", "question", "solve")
VENDORS = {"openai": _openai, "gemini": _gemini, "anthropic": anthropic_vendor}
SHAPE = ReplyShape("verdict", {"type": "object", "properties": {"better": {"type": "string"}}})
MARKED = "<|User Prompt|>\n<|im_end|>[INST]"
"""A mark of published judge prompts, and control tokens of chat templates."""
USES = {
    "topic_names": lambda p, image: p.name_topics([TopicEvidence(("axis",), ("What is this?",))]),
    "moderation": lambda p, image: p.moderate([MARKED]),
    "viewer": lambda p, image: p.look(image, "Which?", ["red", "blue"]),
    "author": lambda p, image: p.solve("A cup.", "Which?", ["red", "blue"]),
}
CHATS = {
    "chat": lambda model, image: model.chat(
        [ChatMessage("user", MARKED, (image,)), ChatMessage("assistant", "Hm."), ChatMessage("user", "Go on.")]
    ),
    "chat, images between words": lambda model, image: model.chat(
        [ChatMessage("system", "Judge."), ChatMessage("user", "Is this it?", (image, image), (7, 10))]
    ),
    "chat with a shape": lambda model, image: model.chat([ChatMessage("user", "Go on.")], shape=SHAPE),
}


@pytest.fixture
def image(drawn_image):
    drawn = drawn_image(file_format="JPEG")
    return drawn.format, drawn.encoded


@pytest.fixture
def at(http_server, monkeypatch):
    """Points every SDK at the loopback server."""
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "test-key")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{http_server.url}/v1")
    monkeypatch.setenv("CURATE_GEMINI_BASE_URL", http_server.url)

    def at(vendor):
        address = http_server.url + ("/v1" if vendor == "openai" else "")
        asked = {"name": "m", "vendor": vendor, "model": "m-1", "base_url": address, "answer_tokens_max": 77}
        return AskedModel(**asked, system="Be brief.", key=f"{vendor.upper()}_API_KEY")

    return at


@pytest.fixture
def sent(http_server, reply, image):
    """What a vendor was sent by some work, in comparable words."""

    def sent(vendor, work):
        http_server.answer(reply(VENDORS[vendor]().completed("{}")))
        work(image)
        return _in_words(http_server.requests.pop(), image[1])

    return sent


def _in_words(body, content):
    text = json.dumps(body).replace("mime_type", "mimeType")  # Google reads both
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = text.replace(encode(content).decode(), "IMAGE")
    for name in ("topic_name", "moderation", "bench/look", "bench/solve"):
        text = text.replace(json.dumps(load_prompt(name).text), json.dumps(f"PROMPT {name}"))
    return json.loads(re.sub(r"material [0-9a-f]{16}\]", "material MARK]", text))


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("vendor", ["openai", "gemini"])
def test_a_capability_sends_what_it_sent(vendor, use, at, sent):
    provider = Providers({use: MODERATES[vendor] if use == "moderation" else vendor})[use]
    assert sent(vendor, lambda image: USES[use](provider, image)) == BODIES[f"{vendor} {use}"]


@pytest.fixture
def batch():
    server = BatchServer(lambda rows: b"")
    yield server
    server.close()


@pytest.mark.parametrize("vendor", VENDORS)
def test_an_entry_of_a_models_file_sends_what_it_sent_and_a_batch_the_same(vendor, at, sent, batch, image, tmp_path):
    pytest.importorskip("anthropic")
    model, prefix = chat_model(at(vendor)), "/openai/v1" if vendor == "openai" else ""
    overnight = chat_model(at(vendor).model_copy(update={"base_url": batch.url + prefix}))
    for use, work in CHATS.items():
        assert sent(vendor, lambda image, work=work: work(model, image)) == BODIES[f"{vendor} {use}"]
        with overnight.together(Store.open(str(tmp_path)), 0) as queue:
            work(overnight, image)
            queue.send()
        row = batch.requests[-1]
        asked = row.get("body") or row.get("request") or row["params"]
        assert _in_words(asked, image[1]) == BODIES[f"{vendor} {use}"]


def test_an_arena_streams_what_it_streamed(at, http_server, sent, image):
    model = streaming_model(ArenaModel(name="m-1", base_url=f"{http_server.url}/v1"))

    async def stream(image):
        asked = [ChatMessage("system", "Be kind."), ChatMessage("user", MARKED, (image,)), ChatMessage("user", "So?")]
        return [piece async for piece in model.stream(asked)]

    def work(image):
        with suppress(AnswerCutOff):  # the server of this test answers in one piece
            asyncio.run(stream(image))

    assert sent("openai", work) == BODIES["openai stream"]


@pytest.mark.parametrize("vendor", ["openai", "gemini"])
def test_versions_hold_model_size_limit_and_prompts_as_they_did(vendor, at, monkeypatch):
    monkeypatch.setenv(f"CURATE_{vendor.upper()}_MODEL", "m-1")
    model = {"openai": "openai-m-1", "gemini": "google-m-1"}[vendor]
    makers = "+".join(load_prompt(f"bench/{name}").version[6:] for name in MAKERS)
    expected = {
        ("categories", vendor): f"{model}-max1600+{tags_prompt('categories', TAGS).version}",
        ("criteria", vendor): f"{model}-max1600+{criteria_prompt().version}",
        ("taxonomy", vendor): f"{model}-max1600+{taxonomy_prompt().version}",
        ("topic_names", vendor): f"{model}+{load_prompt('topic_name').version}",
        ("moderation", MODERATES[vendor]): f"{model}+{load_prompt('moderation').version}-window8000",
        ("author", vendor): f"{model}+{makers}",
        ("viewer", vendor): f"{model}-max1600+{load_prompt('bench/look').version[6:]}",
    }
    assert {(use, name): Providers({use: name})[use].version for use, name in expected} == expected
    each = "+".join(tags_prompt(tag, (tag,)).version for tag in TAGS)
    assert Providers({"categories": f"{vendor}_each_tag"})["categories"].version == f"{model}-max1600+{each}"


def test_one_question_is_one_line_and_one_name():
    text = "a\u2028b\u2029c\x85d\ne"
    line = json_line({"text": text})
    assert len(line.decode().splitlines()) == 1
    assert json_rows(line) == json_rows(line + b"[" * 5000 + b"\n" + b"{broken\n") == [{"text": text}]
    assert question_name({"a": "x"}) != question_name({"a": "y"})
    assert question_name({"a": 1, "b": 2}) == question_name({"b": 2, "a": 1})


LABELS = Categories(**dict.fromkeys(Categories.model_fields, False))


@pytest.fixture
def hostile(vendor, http_server, short_waits, reply, document):
    """What the server is sent about hostile texts, by what they try."""
    http_server.answer(reply(vendor.completed(LABELS.model_dump_json())))
    tagger = labels.categories(vendor.model())
    requests = {}
    for name, text in HOSTILE_TEXTS.items():
        assert tagger.tag([document(text)]) == [LABELS]
        requests[name] = http_server.requests[-1]
    return requests


def test_a_text_stands_between_marks_in_the_same_shape_whatever_it_says_and_nowhere_else(vendor, hostile):
    def shape(value):
        if isinstance(value, dict):
            return {key: shape(each) for key, each in value.items()}
        return [shape(each) for each in value] if isinstance(value, list) else type(value)

    assert len(hostile) == len(HOSTILE_TEXTS) >= 20
    assert len({json.dumps(shape(request), default=str) for request in hostile.values()}) == 1
    assert {vendor.told(request) for request in hostile.values()} == {vendor.told(hostile["empty"])}
    for name, request in hostile.items():
        text = defused(HOSTILE_TEXTS[name]) if "messages" in request else HOSTILE_TEXTS[name]
        asked = vendor.asked(request)
        first, last = asked.split("\n")[0], asked.split("\n")[-1]
        mark = re.fullmatch(r"\[material ([0-9a-f]{16})\]", first)[1]
        assert asked == f"{first}\n{text}\n{last}"
        assert last == f"[end of material {mark}]"
        assert mark not in text
    for name, text in HOSTILE_TEXTS.items():
        if not text or text.startswith("{"):
            continue
        rest = json.dumps(hostile[name]).replace(json.dumps(vendor.asked(hostile[name])), "")
        assert json.dumps(text[:40])[1:-1] not in rest


@pytest.mark.parametrize("name", HOSTILE_TEXTS)
def test_no_control_token_of_a_chat_template_survives(name):
    harmless = defused(HOSTILE_TEXTS[name])
    token = r"<[|｜]|[|｜]>|</?(?:s|think|tool_call)>|<(?:start|end)_of_turn>|\[/?INST\]|<</?SYS>>"
    assert not re.search(token, harmless)
    assert harmless.replace(" ", "") == HOSTILE_TEXTS[name].replace(" ", "")
    assert defused(harmless) == harmless


def test_ordinary_text_is_left_alone():
    text = "if a < b | c > d: print([1], '<b>bold</b>', x |> f, a<|b) [INSTALL] <sys/types.h> 3<5"
    assert defused(text).replace("a< |b", "a<|b").replace("x | > f", "x |> f") == text
