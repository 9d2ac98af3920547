"""What a released row looks like, to Parquet and to `datasets`."""

import io

import PIL.Image
import pyarrow.parquet as pq
import pytest
from datasets import Features, Image, List, Value, load_dataset

from tasks.providers.embedded.texts import Cl100k
from tasks.release.shards import features
from tests.builders import NOON, drawn_image
from tests.small_store import HOSTILE_PROMPT, USER

SHOWN = List({"image": Value("int32"), "character": Value("int32")})
MESSAGES = List({"role": Value("string"), "content": Value("string"), "images": SHOWN})
NAMES = "captioning creative_writing diagram entity_recognition homework humor is_code ocr refusal"
CATEGORIES = dict.fromkeys(NAMES.split(), Value("bool"))
TAXONOMY = dict.fromkeys(
    ("question_category", "question_subcategory", "image_domain", "image_subdomain"), Value("string")
)
SIDE = {name: Value("int64") for name in ("assistant_tokens", "headers", "list_items", "bold", "entities")}
EXPECTED = {
    "chat": {
        "images": List(Image()),
        "conversation_id": Value("string"),
        "model": Value("string"),
        "num_turns": Value("int32"),
        "conversation": MESSAGES,
        "language": Value("string"),
        "user_id": Value("string"),
        "tstamp": Value("float64"),
        "is_preset": Value("bool"),
        "preset_dataset": Value("string"),
        "categories": CATEGORIES,
        "topic": Value("string"),
        "topic_id": Value("int32"),
    },
    "battle": {
        "question_id": Value("string"),
        "model_a": Value("string"),
        "model_b": Value("string"),
        "winner": Value("string"),
        "vote_reason": Value("string"),
        "judge": Value("string"),
        "conversation_a": MESSAGES,
        "conversation_b": MESSAGES,
        "num_turns": Value("int32"),
        "anony": Value("bool"),
        "language": Value("string"),
        "tstamp": Value("float64"),
        "images": List(Image()),
        "conv_metadata": {"context_tokens": Value("int64"), "a": SIDE, "b": SIDE},
        "categories": CATEGORIES,
        "taxonomy": TAXONOMY,
        "is_preset": Value("bool"),
        "in_bench": Value("bool"),
    },
    "bench": {
        "question_id": Value("string"),
        "turns": MESSAGES,
        "images": List(Image()),
        "topic": Value("string"),
        "topic_id": Value("int32"),
        "categories": CATEGORIES,
    },
    "failures": {
        "question_id": Value("string"),
        "turns": MESSAGES,
        "images": List(Image()),
        "failure_type": Value("string"),
        "reviewed": Value("bool"),
        "typed_by": Value("string"),
        "judges": Value("int32"),
        "both_bad": Value("int32"),
        "models": List(Value("string")),
        "categories": CATEGORIES,
    },
}


@pytest.fixture(scope="module")
def loaded(release, tmp_path_factory):
    """Every configuration as a user opens it: offline, from the folder and its card."""
    cache = str(tmp_path_factory.mktemp("datasets"))
    return {config: load_dataset(str(release), config, split="train", cache_dir=cache) for config in EXPECTED}


@pytest.mark.parametrize("config", EXPECTED)
def test_columns_and_types_are_the_documented_ones(loaded, release, config):
    assert features(config) == Features(EXPECTED[config])
    assert loaded[config].features == Features(EXPECTED[config])
    for shard in (release / config / "data").glob("*.parquet"):
        assert pq.read_schema(shard).names == list(EXPECTED[config])


@pytest.mark.parametrize("config", EXPECTED)
def test_every_image_decodes_to_the_stored_pixels(loaded, config):
    rows = loaded[config]
    stored = {each.image_id: each.encoded for each in map(drawn_image, range(6))}
    encoded = rows.with_format("arrow")["images"].to_pylist()
    assert sum(map(len, encoded)) == rows.num_rows > 0
    for row, images in zip(rows, encoded, strict=True):
        for decoded, image in zip(row["images"], images, strict=True):
            original = stored[image["path"].partition(".")[0]]
            assert decoded.convert("RGB").tobytes() == PIL.Image.open(io.BytesIO(original)).convert("RGB").tobytes()


def test_chat_rows_say_what_the_tables_say(loaded):
    rows = {row["conversation_id"]: row for row in loaded["chat"].remove_columns("images")}
    assert rows["c03"]["language"] == "English"
    assert rows["c04"]["language"] == "German"
    assert rows["c05"]["language"] == "unknown"
    assert rows["c03"]["tstamp"] == pytest.approx(NOON.timestamp() + 30 * 3600 + 0.001, abs=1e-6)
    assert rows["c03"]["user_id"] == USER
    assert rows["c04"]["user_id"] is None
    assert rows["c01"]["num_turns"] == 2
    shown = [{"image": 0, "character": 0}]
    assert rows["c01"]["conversation"][0] == {"role": "user", "content": HOSTILE_PROMPT, "images": shown}
    assert [turn["role"] for turn in rows["c01"]["conversation"]] == ["user", "assistant"] * 2
    assert not rows["c03"]["is_preset"]


def test_battle_rows_have_both_sides_and_the_published_spelling_of_winners(loaded):
    rows = {row["question_id"]: row for row in loaded["battle"].remove_columns("images")}
    assert {row["winner"] for row in rows.values()} == {"model_a", "model_b", "tie", "tie (bothbad)"}
    assert rows["b3"]["winner"] == "tie (bothbad)"
    assert rows["b1"]["conversation_a"][1]["content"] == "Three."
    assert rows["b1"]["conversation_b"][1]["content"] == "Three.!"
    assert rows["b1"]["conv_metadata"]["context_tokens"] == Cl100k().count_tokens(["Which is larger, 1 or 3?"])[0]
    assert rows["b1"]["conv_metadata"]["b"]["assistant_tokens"] == Cl100k().count_tokens(["Three.!"])[0]
    assert rows["b1"]["conv_metadata"]["b"]["entities"] == 0
    assert rows["b1"]["anony"]


def test_the_benchmark_holds_prompts_without_answers(loaded):
    (row,) = loaded["bench"].remove_columns("images")
    shown = [{"image": 0, "character": 0}]
    assert row["turns"] == [{"role": "user", "content": "What is in picture 0?", "images": shown}]
    assert row["topic"] == "picture, thing"
