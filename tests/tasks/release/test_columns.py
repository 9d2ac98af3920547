"""What a released row looks like to Parquet, to `datasets`, and as a task of other runners."""

import io
import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import PIL.Image
import pyarrow.parquet as pq
import pytest
import yaml
from datasets import Features, Image, List, Value, load_dataset

from flows.products import problems_of
from tasks.judging.questions import bench_of_release
from tasks.providers.embedded.texts import Cl100k
from tasks.release.registered import RUNNERS
from tasks.release.shards import features
from tests.builders import NOON, drawn_image
from tests.small_store import HOSTILE_PROMPT, USER

SHOWN = List({"image": Value("int32"), "character": Value("int32")})
MESSAGES = List({"role": Value("string"), "content": Value("string"), "images": SHOWN})
NAMES = """captioning creative_writing diagram entity_recognition hard homework humor instruction_following
    is_code longer_query multi_image ocr refusal"""
CATEGORIES = dict.fromkeys(NAMES.split(), Value("bool"))
TAXONOMY = dict.fromkeys(
    ("question_category", "question_subcategory", "image_domain", "image_subdomain"), Value("string")
)
SIDE = {name: Value("int64") for name in ("assistant_tokens", "headers", "list_items", "bold", "entities")}
KINDS = {
    "text": Value("string"), "count": Value("int32"), "seconds": Value("float64"), "flag": Value("bool"),
    "messages": MESSAGES, "images": List(Image()), "categories": CATEGORIES, "taxonomy": TAXONOMY,
    "texts": List(Value("string")), "metadata": {"context_tokens": Value("int64"), "a": SIDE, "b": SIDE},
}  # fmt: skip
COLUMNS = {
    "chat": """images:images conversation_id:text model:text num_turns:count conversation:messages language:text
        user_id:text tstamp:seconds is_preset:flag preset_dataset:text categories:categories topic:text
        topic_id:count""",
    "battle": """question_id:text model_a:text model_b:text winner:text vote_reason:text refused_by:text judge:text
        conversation_a:messages conversation_b:messages num_turns:count anony:flag language:text tstamp:seconds
        images:images conv_metadata:metadata categories:categories taxonomy:taxonomy is_preset:flag in_bench:flag""",
    "bench": "question_id:text turns:messages images:images topic:text topic_id:count categories:categories",
    "failures": """question_id:text turns:messages images:images failure_type:text reviewed:flag typed_by:text
        judges:count both_bad:count models:texts categories:categories""",
}
EXPECTED = {
    config: {name: KINDS[kind] for name, kind in (each.split(":") for each in columns.split())}
    for config, columns in COLUMNS.items()
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


def test_rows_say_what_the_tables_say_in_the_published_spelling(loaded):
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
    (row,) = loaded["bench"].remove_columns("images")
    shown = [{"image": 0, "character": 0}]
    assert row["turns"] == [{"role": "user", "content": "What is in picture 0?", "images": shown}]
    assert row["topic"] == "picture, thing"
    rows = {row["question_id"]: row for row in loaded["battle"].remove_columns("images")}
    assert {row["winner"] for row in rows.values()} == {"model_a", "model_b", "tie", "tie (bothbad)"}
    assert rows["b3"]["winner"] == "tie (bothbad)"
    assert rows["b1"]["conversation_a"][1]["content"] == "Three."
    assert rows["b1"]["conversation_b"][1]["content"] == "Three.!"
    assert rows["b1"]["conv_metadata"]["context_tokens"] == Cl100k().count_tokens(["Which is larger, 1 or 3?"])[0]
    assert rows["b1"]["conv_metadata"]["b"]["assistant_tokens"] == Cl100k().count_tokens(["Three.!"])[0]
    assert rows["b1"]["conv_metadata"]["b"]["entities"] == 0
    assert rows["b1"]["anony"]


LMMS, INSPECT = "bench/runners/lmms_eval", "bench/runners/inspect_ai/arena_bench.py"


@pytest.mark.parametrize("name", RUNNERS)
def test_the_manifest_knows_every_runner_and_verify_finds_a_changed_one(own_release, name):
    assert (own_release / name).read_text() == RUNNERS[name]
    (own_release / name).write_text(f"{RUNNERS[name]}\nimport os")
    assert problems_of(own_release) == [f"{name}: changed since the release was sealed"]


def test_another_file_among_the_runners_is_found(own_release):
    (own_release / LMMS / "more.py").write_text("import os")
    assert problems_of(own_release) == [f"{LMMS}/more.py: not in the manifest"]


def test_lmms_evals_task_shows_the_prompts_and_images_of_the_release(release, monkeypatch, tmp_path):
    datasets = pytest.importorskip("datasets")
    functions = runpy.run_path(str(release / LMMS / "utils.py"))
    yaml.SafeLoader.add_constructor("!function", lambda loader, node: functions[node.value.removeprefix("utils.")])
    try:
        task = yaml.safe_load((release / LMMS / "arena_bench.yaml").read_text())
    finally:
        del yaml.SafeLoader.yaml_constructors["!function"]
    monkeypatch.chdir(release)
    monkeypatch.setattr(datasets.config, "HF_UPDATE_DOWNLOAD_COUNTS", False)
    made = datasets.load_dataset(task["dataset_path"], **task["dataset_kwargs"], cache_dir=str(tmp_path))
    rows = made[task["test_split"]]
    docs = task["process_docs"](rows)
    assert "images" not in docs.column_names
    bench = bench_of_release(Path(release))
    for doc, asked in zip(sorted(docs, key=lambda doc: doc["question_id"]), bench.questions, strict=True):
        assert (doc["question_id"], task["doc_to_text"](doc)) == (asked.question_id, asked.prompt)
        images = [PIL.Image.open(io.BytesIO(content)).convert("RGB") for _, content in bench.images(asked)]
        assert [image.tobytes() for image in task["doc_to_visual"](doc)] == [image.tobytes() for image in images]
    assert task["process_results"](docs[0], ["Yes."]) == {task["metric_list"][0]["metric"]: 1.0}


def test_inspect_ais_task_shows_the_prompts_and_images_of_the_release(release, monkeypatch):
    modules = {
        name: ModuleType(name) for name in ("inspect_ai", *(f"inspect_ai.{n}" for n in ("dataset", "model", "solver")))
    }
    made = lambda **fields: SimpleNamespace(**fields)  # noqa: E731
    modules["inspect_ai"].__dict__.update(Task=made, task=lambda function: function)
    modules["inspect_ai.dataset"].__dict__.update(MemoryDataset=lambda samples, name: samples, Sample=made)
    names = ("ChatMessageUser", "ContentImage", "ContentText", "GenerateConfig")
    modules["inspect_ai.model"].__dict__.update(dict.fromkeys(names, made))
    modules["inspect_ai.solver"].__dict__.update(generate=made)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    task = runpy.run_path(str(release / INSPECT))["arena_bench"]()
    bench = bench_of_release(Path(release))
    assert task.config.max_tokens == 4096
    for sample, asked in zip(sorted(task.dataset, key=lambda sample: sample.id), bench.questions, strict=True):
        (message,) = sample.input
        text, *images = message.content
        assert (sample.id, text.text, len(images)) == (asked.question_id, asked.prompt, len(bench.images(asked)))
        assert all(image.image.startswith("data:image/") for image in images)
