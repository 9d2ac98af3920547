"""The benchmark of a release as a task of lmms-eval and of inspect_ai: files below `bench/runners`.

The files are the same in every release. They read the shards beside them, ask each prompt with its images in order, and
score nothing: answers come back through `curate judge answer`.
"""

from pathlib import Path

ANSWER_TOKENS_MAX = 4096
"""WildVision-Bench's limit for answers."""

_LMMS_YAML = f"""\
# The benchmark of this release as a task of lmms-eval. From the folder of the release:
#   lmms-eval --include_path bench/runners/lmms_eval --tasks arena_bench --model MODEL --log_samples --output_path OUT
#   curate judge answer --release . --store STORE --models OUT
task: arena_bench
dataset_path: parquet
dataset_kwargs:
  data_files:
    train: bench/data/*.parquet
test_split: train
process_docs: !function utils.process_docs
output_type: generate_until
doc_to_visual: !function utils.doc_to_visual
doc_to_text: !function utils.doc_to_text
doc_to_target: ""
generation_kwargs:
  max_new_tokens: {ANSWER_TOKENS_MAX}
  temperature: 0
  do_sample: false
process_results: !function utils.process_results
metric_list:
  - metric: answered
    aggregation: mean
    higher_is_better: true
metadata:
  version: 1.0
"""

_LMMS_UTILS = '''\
"""What arena_bench.yaml asks. Images are read from the shards when they are shown, so that no log holds them."""

import io
from functools import cache
from pathlib import Path

import PIL.Image
import pyarrow.parquet as pq

SHARDS = Path(__file__).resolve().parents[2] / "data"


def process_docs(dataset):
    return dataset.remove_columns("images")


@cache
def _images():
    tables = [pq.read_table(path, columns=["question_id", "images"]) for path in sorted(SHARDS.glob("*.parquet"))]
    rows = [row for table in tables for row in table.to_pylist()]
    return {row["question_id"]: [image["bytes"] for image in row["images"]] for row in rows}


def doc_to_visual(doc):
    return [PIL.Image.open(io.BytesIO(content)).convert("RGB") for content in _images()[doc["question_id"]]]


def doc_to_text(doc, lmms_eval_specific_kwargs=None):
    return "\\n\\n".join(turn["content"] for turn in doc["turns"] if turn["role"] == "user")


def process_results(doc, results):
    return {"answered": float(bool(results[0].strip()))}
'''

_INSPECT = f'''\
"""The benchmark of this release as a task of inspect_ai.

    inspect eval bench/runners/inspect_ai/arena_bench.py --model MODEL --log-format json --log-dir OUT
    curate judge answer --release . --store STORE --models OUT
"""

import base64
from pathlib import Path

import pyarrow.parquet as pq
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageUser, ContentImage, ContentText, GenerateConfig
from inspect_ai.solver import generate

SHARDS = Path(__file__).resolve().parents[2] / "data"


@task
def arena_bench():
    tables = [pq.read_table(path) for path in sorted(SHARDS.glob("*.parquet"))]
    samples = [_sample(row) for table in tables for row in table.to_pylist()]
    config = GenerateConfig(max_tokens={ANSWER_TOKENS_MAX}, temperature=0)
    return Task(dataset=MemoryDataset(samples, name="arena_bench"), solver=generate(), config=config)


def _sample(row):
    text = "\\n\\n".join(turn["content"] for turn in row["turns"] if turn["role"] == "user")
    images = [ContentImage(image=_data_url(image)) for image in row["images"]]
    return Sample(id=row["question_id"], input=[ChatMessageUser(content=[ContentText(text=text), *images])])


def _data_url(image):
    kind = "png" if image["path"].endswith(".png") else "jpeg"
    return f"data:image/{{kind}};base64,{{base64.b64encode(image['bytes']).decode()}}"
'''

RUNNERS = {
    "bench/runners/lmms_eval/arena_bench.yaml": _LMMS_YAML,
    "bench/runners/lmms_eval/utils.py": _LMMS_UTILS,
    "bench/runners/inspect_ai/arena_bench.py": _INSPECT,
}
"""Path in a release -> content."""


def write_runners(folder: Path) -> None:
    """Write the files into the folder of a release."""
    for name, content in RUNNERS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
