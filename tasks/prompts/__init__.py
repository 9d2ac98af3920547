"""Prompts of language models, one Markdown file each, used word for word, and WildVision's taxonomy (`taxonomy.yaml`).

`labelling.md` opens every prompt that labels documents; `tags/<tag>.md` defines one tag of `schemas/tags.py`, and
`labels/<name>.md` a whole set of labels. `judges/*.md` are the published prompts of judges, without the line break at
their end: Arena-Hard's (https://github.com/lmarena/arena-hard-auto, config/judge_config.yaml, Apache-2.0), which
VisionArena uses, and WildVision-Bench's (https://github.com/WildVision-AI/WildVision-Bench, MIT): the same texts, but
for one letter of the follow-up. A folder of the user's may take their place file by file (`texts.py`, docs/models.md).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import yaml

from schemas.tags import Sees, Taxonomy, sees
from tasks.prompts.texts import TAXONOMY, TaxonomyFile, filled, shipped_text, short_hash, text_of_prompt

BETWEEN = " / "
"""Separator of category and subcategory."""


def taxonomy_file(shipped: bool = False) -> TaxonomyFile:
    """The taxonomy that holds; `shipped`: ours, whatever takes its place."""
    text = shipped_text(TAXONOMY) if shipped else text_of_prompt(TAXONOMY)
    return TaxonomyFile.model_validate(yaml.safe_load(text))


def placed(question: str | None, image: str | None) -> Taxonomy:
    """The four columns of `Taxonomy` from two values such as `Category / Subcategory`."""
    places = [part or None for value in (question, image) for part in (value or "").partition(BETWEEN)[::2]]
    return Taxonomy(**dict(zip(Taxonomy.model_fields, places, strict=True)))


_SECTIONS = {
    Sees.PROMPT: "Decide these from the prompt alone, without looking at the pictures:",
    Sees.BOTH: "Decide these from the prompt and the pictures together:",
    Sees.IMAGES: "Decide these from the pictures alone, without considering the prompt:",
}


@dataclass(frozen=True)
class Prompt:
    """Instructions for a language model, without the material to label."""

    text: str
    """The complete text."""
    version: str
    """Name and the first 8 hex digits of the text's SHA-256: any change gives another version."""


def load_prompt(name: str) -> Prompt:
    """The prompt in `<name>.md`."""
    return _prompt(name, text_of_prompt(name))


def tags_prompt(name: str, tags: Sequence[str]) -> Prompt:
    """The prompt that asks for these tags in one question, grouped by the input that each is decided from."""
    parts = [text_of_prompt("labelling") + "Each label is `true`, `false` or `null`. Labels are independent.\n"]
    for inputs, opening in _SECTIONS.items():
        of_inputs = [text_of_prompt(f"tags/{tag}") for tag in tags if sees(tag) is inputs]
        if of_inputs:
            parts.append(f"{opening}\n\n{''.join(of_inputs)}")
    keys = ", ".join(f"`{tag}`" for tag in tags)
    parts.append(f"# Answer\n\nOne JSON object with exactly these keys and nothing else: {keys}.\n")
    return _prompt(name, "\n".join(parts))


def criteria_prompt() -> Prompt:
    """The prompt that asks for the seven criteria."""
    return _prompt("criteria", text_of_prompt("labelling") + text_of_prompt("labels/criteria"))


def failure_types_prompt() -> Prompt:
    """The prompt that asks why models fail a prompt."""
    return _prompt("failure_types", text_of_prompt("labelling") + text_of_prompt("labels/failure_types"))


def taxonomy_prompt() -> Prompt:
    """The prompt that asks for a taxonomy category; its values come from `taxonomy.yaml`."""
    known = taxonomy_file()
    trees = {"question": known.question, "image": known.image}
    listed = {name: "\n".join(f"  * `{value}`: {text}" for value, text in tree.items()) for name, tree in trees.items()}
    body = filled(text_of_prompt("labels/taxonomy"), listed)
    return _prompt(f"taxonomy{known.version}", text_of_prompt("labelling") + body)


def untrusted(text: str) -> str:
    """Untrusted text between two marker lines that it cannot contain.

    The mark in both lines is the text's own hash: a text would have to contain its hash to close the block early.
    """
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"[material {mark}]\n{text}\n[end of material {mark}]"


def _prompt(name: str, text: str) -> Prompt:
    return Prompt(text, f"{name}-{short_hash(text)}")
