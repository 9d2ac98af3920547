"""A release has its benchmark as a task of other runners, which ask the same prompts with the same images."""

import io
import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import PIL.Image
import pytest
import yaml

from flows.products import problems_of
from tasks.judging.questions import bench_of_release
from tasks.release.registered import RUNNERS

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
