"""Facts about pictures, texts and documents, each measured once. The lists below are all there are."""

from collections.abc import Callable
from enum import StrEnum

from tasks.measure import (
    code,
    image_layout,
    markdown,
    model_names,
    named_entities,
    refusal,
    service_text,
    upstream_words,
)
from tasks.measure.embeddings import image_embedding, text_embedding
from tasks.measure.faces import faces
from tasks.measure.image_hash import image_hash
from tasks.measure.image_moderation import image_moderation
from tasks.measure.image_text import image_text
from tasks.measure.language import language
from tasks.measure.moderation import moderation
from tasks.measure.nsfw import nsfw
from tasks.measure.signal import Signal, by_rule
from tasks.measure.tags import by_tagger
from tasks.measure.text_pii import text_pii
from tasks.measure.tokens import tokens
from tasks.pixels.pictures import Picture
from tasks.providers import Providers
from tasks.providers.capabilities import Document


class Texts(StrEnum):
    """Which texts of a conversation a text signal is measured on."""

    MESSAGES = "messages"
    ASSISTANT_MESSAGES = "assistant_messages"
    PROMPT = "prompt"


PICTURE_SIGNALS: dict[str, Callable[[Providers], Signal[Picture]]] = {
    "nsfw": nsfw,
    "faces": faces,
    "image_hash": lambda _: image_hash(),
    "image_layout": lambda _: by_rule("image_layout", image_layout.VERSION, image_layout.image_layout),
    "image_text": image_text,
    "image_embedding": image_embedding,
}
"""Measured on every picture, from one decode."""

CHOSEN_PICTURE_SIGNALS: dict[str, Callable[[Providers], Signal[Picture]]] = {"image_moderation": image_moderation}
"""Measured on every picture when a provider is chosen for it: no model of this ships with the install."""

SCREENING_TEXT_SIGNALS: dict[str, tuple[Texts, Callable[[Providers], Signal[str]]]] = {
    "text_pii": (Texts.MESSAGES, text_pii),
    "moderation": (Texts.MESSAGES, moderation),
    "service_text": (
        Texts.MESSAGES,
        lambda _: by_rule("service_text", service_text.VERSION, service_text.service_text),
    ),
    "model_names": (
        Texts.ASSISTANT_MESSAGES,
        lambda _: by_rule("model_names", model_names.version(), model_names.model_names),
    ),
    "upstream_words": (
        Texts.MESSAGES,
        lambda _: by_rule("upstream_words", upstream_words.version(), upstream_words.upstream_words),
    ),
    "language": (Texts.PROMPT, language),
    "text_embedding": (Texts.PROMPT, text_embedding),
}
"""Measured on every text: what a policy may need to forbid a release, and what finds duplicates."""

DESCRIPTIVE_TEXT_SIGNALS: dict[str, tuple[Texts, Callable[[Providers], Signal[str]]]] = {
    "tokens": (Texts.MESSAGES, tokens),
    "markdown": (Texts.ASSISTANT_MESSAGES, lambda _: by_rule("markdown", markdown.VERSION, markdown.markdown)),
    "named_entities": (
        Texts.ASSISTANT_MESSAGES,
        lambda _: by_rule("named_entities", named_entities.VERSION, named_entities.named_entities),
    ),
    "code": (Texts.MESSAGES, lambda _: by_rule("code", code.VERSION, code.code)),
    "refusal": (Texts.ASSISTANT_MESSAGES, lambda _: by_rule("refusal", refusal.version(), refusal.refusal)),
}
"""Measured on the texts of what the policy keeps."""

DOCUMENT_SIGNALS: dict[str, Callable[[Providers], Signal[Document]]] = {
    name: by_tagger(name, version) for name, version in (("categories", "1"), ("criteria", "1"), ("taxonomy", "1"))
}
"""Measured on the prompts, with their pictures, of what the policy keeps."""


def picture_signals(providers: Providers) -> dict[str, Signal[Picture]]:
    """Every picture signal that the chosen providers measure, by name."""
    chosen = {name: make for name, make in CHOSEN_PICTURE_SIGNALS.items() if name in providers.names}
    return {name: make(providers) for name, make in (PICTURE_SIGNALS | chosen).items()}
