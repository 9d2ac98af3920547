"""Prompts of other authors with their own reply formats: taggers, authors and viewers read what a model then writes."""

import json

import pytest
import yaml

from schemas.tags import TAGS, Categories, Taxonomy
from tasks.prompts import replaced_prompts
from tasks.providers.capabilities import AspectsWanted, DescriptionWanted, Failed

pytest.importorskip("tenacity", reason="production extra")

from schemas.benches.generated import GeneratedAspect
from tasks.generated_bench.aspects import levels, load_capability
from tasks.providers.production import labels
from tasks.providers.production.bench_makers import ModelAuthor, ModelViewer

DECISION = {
    "reply": "visionarena-decision",
    "examples": [
        {"reply": "There is a sign to read. <decision>yes<decision>", "says": True},
        {"reply": "<decision> NO </decision>", "says": False},
    ],
}
BUILDINGS = ("Analytical", "Comparative Analysis", "Urban", "Buildings")
STORY = ("Creative", "Story Writing", None, None)
FOUR = {
    "reply": "wildvision-taxonomy",
    "examples": [
        {"reply": "[&]".join(BUILDINGS), "says": dict(zip(Taxonomy.model_fields, BUILDINGS, strict=True))},
        {
            "reply": "It is one.\nCreative [&] Story Writing [&] NA [&] NA",
            "says": dict(zip(Taxonomy.model_fields, STORY, strict=True)),
        },
    ],
}
LINES = """**General Aspect: Places**
Fined-grained Aspect: Left and right
Introduction: Where things stand in relation to each other.
2. Fine-grained Aspect 2: Near and far
Introduction: Which thing is nearer.

General Aspect: Shapes
Fined-grained Aspect: Outlines
Introduction: What form an outline has."""
ASPECTS = [
    {"general": "Places", "name": "Left and right", "introduction": "Where things stand in relation to each other."},
    {"general": "Places", "name": "Near and far", "introduction": "Which thing is nearer."},
    {"general": "Shapes", "name": "Outlines", "introduction": "What form an outline has."},
]
ONE = {"general": "Light", "name": "Shadows", "introduction": "Where they fall."}
DESCRIBED = {
    "description": "A red cup on a table.", "topic_word": "cup", "key_words": ["red", "table", "round", "day"]
}  # fmt: skip
WORDS = "An author's own words about what to say.\n"
ONE_ASPECT = "General Aspect: Light\nFined-grained Aspect: Shadows\nIntroduction: Where they fall."


def headed(folder, name, head, text=WORDS):
    """A folder with one prompt that has this head."""
    path = folder / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\n{yaml.safe_dump(head)}---\n{text}")
    return str(folder)


@pytest.fixture
def saying(vendor, http_server, short_waits, reply):
    """The model, which writes what `text` says about the system message."""

    def saying(text):
        http_server.answer(reply(lambda request: vendor.completed(text(vendor.told(request)))))
        return vendor.model()

    return saying


def test_a_tag_with_a_reply_format_is_asked_alone_in_its_authors_words(saying, vendor, http_server, document, tmp_path):
    others = json.dumps({tag: tag == "humor" for tag in TAGS if tag != "ocr"})
    model = saying(lambda told: "Words: <decision>yes<decision>" if told == WORDS else others)
    ours = labels.categories(model).version
    for make, asked in ((labels.categories, 2), (labels.categories_each_tag, len(TAGS))):
        http_server.requests.clear()
        with replaced_prompts(headed(tmp_path, "tags/ocr", DECISION)):
            tagger = make(model)
        assert tagger.version != ours
        if make is labels.categories:
            tags = Categories(**dict.fromkeys(TAGS, False) | {"ocr": True, "humor": True})
            assert tagger.tag([document()]) == [tags]
        assert len(tagger.asked) == asked
        told = [each.prompt.text for each in tagger.asked if each.prompt.reply]
        assert told == [WORDS]
    assert not any("`ocr`" in vendor.told(request) for request in http_server.requests)


@pytest.mark.parametrize(
    ("text", "ocr"),
    [
        ("<decision>no<decision>", False), ("<DECISION> Yes </decision> So <decision>yes<decision>", True),
        ("<decision>yes<decision> or <decision>no<decision>", None), ("yes", None), ("", None),
        ("<decision>perhaps<decision>", None), ('{"ocr": true}', None),
    ],
)  # fmt: skip
def test_a_decision_is_read_and_anything_else_is_a_failure(saying, document, tmp_path, text, ocr):
    with replaced_prompts(headed(tmp_path, "tags/ocr", DECISION)):
        tagger = labels.LanguageModelTagger(saying(lambda _: text or " "), [labels._about("ocr")], dict)
    assert tagger.tag([document()]) == [Failed("malformed_answer") if ocr is None else {"ocr": ocr}]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("[&]".join(BUILDINGS), BUILDINGS),
        ("I choose:\nCreative [&] Story Writing [&] none [&] none", STORY),
        ("Analytical[&]NA[&]People[&]NA", ("Analytical", None, "People", None)),
        ("Analytical[&]Portraits[&]People[&]Crowds", None),
        ("Music[&]NA[&]People[&]Crowds", None),
        ("NA[&]Story Writing[&]People[&]Crowds", None),
        ("Analytical[&]Urban[&]Buildings", None),
    ],
)  # fmt: skip
def test_four_words_are_a_place_of_the_taxonomy_or_a_failure(
    saying, vendor, http_server, document, tmp_path, text, places
):
    with replaced_prompts(headed(tmp_path, "labels/taxonomy", FOUR)):
        tagger = labels.taxonomy(saying(lambda _: text))
    read = Taxonomy(**dict(zip(Taxonomy.model_fields, places, strict=True))) if places else Failed("malformed_answer")
    assert tagger.tag([document()]) == [read]
    assert {vendor.told(request) for request in http_server.requests} == {WORDS}


def test_lines_of_aspects_and_of_a_description_are_read_as_autobench_v_writes_them(saying, tmp_path):
    replies = {"a": LINES, "d": "Prompt: A red cup on a table.\nTopic word: cup\nKey words: red, table; round, day"}
    description = {"description": "A dog.", "topic_word": "dog", "key_words": ["dog", "grass"]}
    heads = {
        "bench/aspects": {
            "reply": "autobench-aspects",
            "examples": [{"reply": LINES, "says": ASPECTS}, {"reply": ONE_ASPECT, "says": [ONE]}],
        },
        "bench/description": {
            "reply": "autobench-description",
            "examples": [
                {"reply": "Prompt: A dog.\nTopic word: dog\nKey word: dog, grass", "says": description},
                {"reply": replies["d"], "says": DESCRIBED},
            ],
        },
    }
    headed(tmp_path, "bench/aspects", heads["bench/aspects"], "a")
    headed(tmp_path, "bench/description", heads["bench/description"], "d")
    capability = load_capability("spatial")
    aspect = GeneratedAspect(bench="b", aspect=0, version="1", **ONE, guideline="")
    wanted = DescriptionWanted(capability, aspect, "easy", levels()["easy"], (), "1")
    with replaced_prompts(str(tmp_path)):
        author = ModelAuthor(saying(lambda told: replies[told.strip()]))
        read = author.aspects(AspectsWanted(capability, 2, 2)).aspects
        assert [each.model_dump() for each in read] == [each | {"guideline": ""} for each in ASPECTS]
        assert author.describe(wanted).model_dump() == DESCRIBED
        replies["a"] = "I would rather not."
        assert author.aspects(AspectsWanted(capability, 2, 2)) == Failed("malformed_answer")


def test_a_pattern_of_ones_own_reads_every_prompt_of_one_field(saying, drawn_image, tmp_path):
    pattern = {"pattern": r"^so:\s*(?P<answer>.+)$"}
    says = [{"reply": "So: a cup", "says": "a cup"}, {"reply": "Hm.\nSO: red", "says": {"answer": "red"}}]
    with replaced_prompts(headed(tmp_path, "bench/look", {"reply": pattern, "examples": says})):
        viewer = ModelViewer(saying(lambda _: "It is round.\nSo: two"))
    assert viewer.look(("png", drawn_image().encoded), "How many?", ("one", "two")) == "two"


GOOD = DECISION["examples"]
OWN = {"pattern": "(?P<answer>yes|no)"}


@pytest.mark.parametrize(
    ("name", "head", "told"),
    [
        ("tags/ocr", {"examples": GOOD}, "the head of 'tags/ocr': reply"),
        ("tags/ocr", {"reply": "visionarena-decision"}, "the head of 'tags/ocr': examples"),
        ("tags/ocr", DECISION | {"examples": GOOD[:1]}, "the head of 'tags/ocr': examples"),
        ("tags/ocr", DECISION | {"examples": [GOOD[0]] * 2}, "both examples are the same reply"),
        ("tags/ocr", DECISION | {"replies": "x"}, "unknown key 'replies'"),
        ("tags/ocr", DECISION | {"reply": "visionarena-decisions"}, "Did you mean visionarena-decision?"),
        ("tags/ocr", DECISION | {"reply": {"pattern": "(yes"}}, "the pattern cannot be read"),
        ("tags/ocr", DECISION | {"reply": {"pattern": "(?P<orc>yes|no)"}}, "unknown field 'orc'"),
        ("tags/ocr", DECISION | {"reply": OWN | {"words": {"orc": {"yes": True}}}}, "unknown field 'orc'"),
        ("tags/ocr", DECISION | {"reply": {"pattern": "yes|no"}}, "has no group (?P<ocr>"),
        ("tags/ocr", DECISION | {"reply": {"pattern": "(?P<ocr>yes|no)?"}}, "matches an empty reply"),
        ("tags/ocr", DECISION | {"examples": [GOOD[0], {"reply": "No.", "says": False}]}, "2 is read as nothing"),
        ("tags/ocr", DECISION | {"examples": [GOOD[0], GOOD[1] | {"says": True}]}, "2 is read as {'ocr': False}"),
        ("labels/taxonomy", FOUR | {"reply": {"pattern": "(?P<image_domain>.+)"}}, "group (?P<question_category>"),
        ("judges/vote", DECISION | {"reply": {"pattern": "(?P<side>left|right)"}}, "unknown field 'side'"),
        ("written/caption", DECISION, "no reply to it is read"),
        ("tags/ocr", ["reply"], "give keys and values"),
    ],
)  # fmt: skip
def test_a_head_that_cannot_be_used_is_one_line_and_nothing_is_asked(refused, http_server, tmp_path, name, head, told):
    assert told in refused("doctor", "--prompts", headed(tmp_path, name, head))
    assert http_server.requests == []


def test_a_head_without_an_end_that_is_no_yaml_or_an_authors_text_without_a_head_is_refused(refused, tmp_path):
    file = tmp_path / "tags/ocr.md"
    for text, told in (
        ("---\nreply: visionarena-decision\nDoes it need reading?", "has no end"),
        ("---\n{: [\n---\nDoes it need reading?", "is not YAML"),
        ("Does it need reading? Say <decision>yes<decision>.", "give its reply format in a head (docs/models.md)"),
    ):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        assert told in refused("doctor", "--prompts", tmp_path)
    headed(tmp_path, "tags/ocr", DECISION, text="\n")
    assert "'tags/ocr' is empty" in refused("doctor", "--prompts", tmp_path)
