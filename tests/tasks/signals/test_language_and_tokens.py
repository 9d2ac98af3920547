"""Rules and patterns take a text of any content in linear time; languages and tokens are those of labelled texts."""

import json
import random
import time
from functools import cache
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.providers import Providers
from tasks.providers.capabilities import Failed
from tasks.providers.embedded.pii.patterns import find_patterns
from tasks.providers.embedded.texts import FastTextAndCld2
from tasks.signals.registry import RULES_PROVIDER, text_signals
from tests.places import DATA, needs_data

pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")  # bpe-openai 0.1.4
LANGUAGES = [
    ("What is this?", "en"), ("¿Qué muestra esta imagen?", "es"), ("Was zeigt dieses Bild hier?", "de"),
    ("请描述这张图片。", "zh"), ("これは何ですか？", "ja"), ("Что это такое?", "ru"),
    ("هل يمكنك وصف هذه الصورة؟", "ar"),
]  # fmt: skip
NO_LANGUAGE = ["", " \n", "Hi", "2x + 3 = 7", "🎉🎉🎉", "https://example.com/a/page", "`import os`", "x" * 5000]
PUBLISHED = [  # OpenAI cookbook, "How to count tokens with tiktoken", cl100k_base
    ("tiktoken is great!", 6),
    ("antidisestablishmentarianism", 6),
    ("2 + 2 = 4", 7),
    ("お誕生日おめでとう", 9),
]


def identify(embedded, text):
    return text_signals(embedded)["language"].values([text])[0]


@pytest.mark.parametrize(("text", "code"), LANGUAGES)
def test_a_short_question_has_its_language(embedded, text, code):
    found = identify(embedded, text)
    assert found.language == code
    assert 0.5 <= found.confidence <= 1


CHINESE = "请推荐一条游览路线 这张图里哪个数值最高 学校作业要用 朋友发给我的我看不懂 请一步一步说明 请总结这份文件"
JAPANESE = (
    "この図形を解いてください 何と書いてありますか 一文で答えてください 東京都知事選挙の結果は何ですか 絵から物語を作る"
)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("sentences", "code"), [(CHINESE, "zh"), (JAPANESE, "ja")])
def test_chinese_and_japanese_requests_are_told_apart(embedded, sentences, code, seed):
    request = "。".join(random.Random(seed).sample(sentences.split(), 2)) + "。"
    assert identify(embedded, request).language == code, request


@pytest.mark.parametrize("text", NO_LANGUAGE)
def test_what_is_no_prose_has_no_language(embedded, text):
    found = identify(embedded, text)
    assert (found.language, found.confidence) == ("unknown", 0.0)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("What does 图片 show? Please explain it to me in plain words.", "en"),
        ("这张图片里有什么？请详细描述一下 chart 的内容。", "zh"),
        ("Was macht dieser Befehl hier? `for x in range(10): print(x)`", "de"),
        ("https://example.com/english/words Qu'est-ce que c'est que ça ?", "fr"),
    ],
)
def test_a_mixed_text_has_the_language_of_most_of_its_prose(embedded, text, code):
    assert identify(embedded, text).language == code


@pytest.mark.parametrize(("text", "count"), PUBLISHED)
def test_tokens_are_cl100k_s(embedded, text, count):
    assert text_signals(embedded)["tokens"].values([text])[0].tokens == count


def test_special_tokens_in_a_text_are_plain_characters(embedded):
    assert text_signals(embedded)["tokens"].values(["<|endoftext|>"])[0].tokens > 1


def _rows(file):
    return [json.loads(line) for line in (DATA / file).read_text().splitlines()]


def _recalls(rows):
    """Language -> share of its texts that are told to be in it. fastText calls both written Norwegians `no`."""
    labels = ["no" if row["lang"] in ("nb", "nn") else row["lang"] for row in rows]
    found = FastTextAndCld2().identify([row["text"] for row in rows])
    told = ["no" if each.language in ("nb", "nn") else each.language for each in found]
    return {label: mean(a == b for a, b in zip(labels, told, strict=True) if a == label) for label in set(labels)}


@pytest.fixture(scope="module")
def sentence_recalls():
    return _recalls([row for row in _rows("text-language/lingua.jsonl") if row["kind"] == "sentences"])


@needs_data
def test_sentences_in_75_languages_are_told_apart(sentence_recalls):
    assert mean(sentence_recalls.values()) >= 0.93


@needs_data
def test_of_75_languages_all_but_two_are_mostly_recognised(sentence_recalls):
    missed = {label for label, recall in sentence_recalls.items() if recall < 0.5}
    assert missed <= {"bs", "ms"}  # called Croatian, Indonesian


@needs_data
def test_chat_prompts_in_12_languages_are_told_apart():
    assert mean(_recalls(_rows("text-language/chat-prompts-12lang.jsonl")).values()) >= 0.98


@needs_data
def test_english_prompts_are_english():
    prompts = [row["prompt"] for row in _rows("text-categories/arena-hard-v0.1.jsonl")]
    prompts += [row["turns"][0] for row in _rows("text-categories/mt-bench.jsonl")]
    assert mean(each.language == "en" for each in FastTextAndCld2().identify(prompts)) >= 0.99


CHARACTERS = 40_000
PROSE = "The quick brown fox, 12 years old, wrote a letter. "
TIMES_MAX = 6
"""How many times as long as prose a text may take; these take up to twice as long, with a quadratic pattern twelve."""
PIECES = [
    "\n", " ", "\t\n", "1", "1 ", "12-", "1.", "a", "a:", ":", "a@", "a.", "*", "**a", "__a", "`", "# ", "(", "a://",
    "AA11 ", "card ", "ssn ", "social security ", "passport ", "pw: my_pw $a1", "I am ", "as a ", "model ",
    "me made by ", "I am a model, ",
    "我由", "import a\n", "from a ", "(error_code: 1) ", "rate limit exceeded ", "I am sorry ",
    "a_", "a.b", 'ab("', "a<b, ", "a* ", "a_t ", "f(a) ", "}\n", ")\n", "[a](b) *x* ", "\\text{a} *x* ",
    "+1 11 111 1111 1111 111 11 11a ", "+" + "1" * 71 + "a ", "\u0000", "👩‍🚀", "\ud800",
]  # fmt: skip


@cache
def rules():
    return [signal for signal in text_signals(Providers()).values() if signal.provider == RULES_PROVIDER]


def seconds_of(piece: str) -> float:
    """CPU seconds in which all rules read a text of nothing but a piece."""
    text = piece * (CHARACTERS // len(piece))
    started = time.process_time()
    for signal in rules():
        assert not isinstance(signal.values([text])[0], Failed)
    list(find_patterns([text])[0])
    return time.process_time() - started


@pytest.fixture(scope="module")
def prose_seconds():
    seconds_of(PROSE)  # the first text waits for tables to be loaded
    return seconds_of(PROSE)


@pytest.mark.parametrize("piece", PIECES)
def test_a_long_monotonous_text_takes_no_longer_than_prose(piece, prose_seconds):
    assert seconds_of(piece) < TIMES_MAX * prose_seconds


@given(st.text(max_size=400))
def test_every_text_has_a_value(text):
    for signal in rules():
        assert not isinstance(signal.values([text])[0], Failed)


@given(st.text(max_size=400))
def test_patterns_find_stretches_within_the_text_alone(text):
    assert all(0 <= span.start < span.end <= len(text) for span in find_patterns([text])[0])
