"""The language of labelled sentences in 75 languages, of chat prompts in 12, and of English benchmark prompts.

They are `text-language` and `text-categories` of the folder that CURATE_TEST_DATA names, or of `shared/data` beside the
repository, and the tests are skipped where there is none.
"""

import json
import os
from pathlib import Path
from statistics import mean

import pytest

from tasks.providers.embedded.texts import FastTextAndCld2

BESIDE = Path(__file__).parents[4] / "shared" / "data"
DATA = Path(os.environ.get("CURATE_TEST_DATA", BESIDE))
pytestmark = pytest.mark.skipif(not (DATA / "text-language").is_dir(), reason="no labelled texts on this machine")


def _rows(file):
    return [json.loads(line) for line in (DATA / file).read_text().splitlines()]


def _recalls(rows):
    """Language -> share of its texts that are told to be in it. fastText calls both written Norwegians `no`."""
    labels = ["no" if row["lang"] in ("nb", "nn") else row["lang"] for row in rows]
    found = FastTextAndCld2().identify([row["text"] for row in rows])
    told = ["no" if each.language in ("nb", "nn") else each.language for each in found]
    return {label: mean(a == b for a, b in zip(labels, told, strict=True) if a == label) for label in set(labels)}


def test_sentences_in_75_languages_are_told_apart():
    recalls = _recalls([row for row in _rows("text-language/lingua.jsonl") if row["kind"] == "sentences"])
    assert mean(recalls.values()) >= 0.93
    assert {label for label, recall in recalls.items() if recall < 0.5} <= {"bs", "ms"}  # called Croatian, Indonesian


def test_chat_prompts_in_12_languages_are_told_apart():
    assert mean(_recalls(_rows("text-language/chat-prompts-12lang.jsonl")).values()) >= 0.98


def test_english_prompts_are_english():
    prompts = [row["prompt"] for row in _rows("text-categories/arena-hard-v0.1.jsonl")]
    prompts += [row["turns"][0] for row in _rows("text-categories/mt-bench.jsonl")]
    assert mean(each.language == "en" for each in FastTextAndCld2().identify(prompts)) >= 0.99
