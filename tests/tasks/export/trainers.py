"""What trainers do with an exported folder before they train, up to their checks, as their source says.

`datasets`, with which all of them read files, is installed. Where TRL is, too, its own `prepare_multimodal_messages`
takes each row; the tests need no trainer. TRL: dpo_trainer.py (714, 320, 314),
kto_trainer.py (768), data_utils.py (`prepare_multimodal_messages`) and trainer/utils.py (1086) at f2cd577.
LLaMA-Factory: data/parser.py at 01d3ac6, data/loader.py at dda34b5, data/converter.py at 908cd68 (sharegpt),
data/processor/pairwise.py at 2bbe657, and `_validate_messages` of data/mm_plugin.py at ff6d4d1. OpenAI has no loader;
its guide of preference data says what a line is.
"""

import contextlib
import json
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import PIL.Image
from datasets import Dataset, Image, List, load_dataset
from transformers.utils.chat_template_utils import render_jinja_template

Row = dict[str, Any]
TEXT_TEMPLATE = """{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] }}{% endfor %}"""
"""As the templates of models of texts do it: a role and a content are joined, so a content must be a text."""


class TrainerError(ValueError):
    """A row or file that the trainer refuses."""


def loaded(folder: Path, split: str = "train") -> Dataset:
    """The rows as the export's card says to load them; image paths are read from the current folder."""
    rows = load_dataset(str(folder), split=split, cache_dir=str(folder.with_name(f"{folder.name}-cache")))
    return rows.cast_column("images", List(Image())) if "images" in rows.column_names else rows


def trl_takes(folder: Path, split: str = "train") -> list[Row]:
    """The rows of a split as TRL's trainers of pairs (`chosen`, `rejected`) or labels (`completion`) take them."""
    with contextlib.chdir(folder):
        rows = [_without_nulls(row) for row in loaded(Path.cwd(), split)]
        answers = ("chosen", "rejected") if "chosen" in rows[0] else ("completion",)
        is_vision = "images" in rows[0] or "image" in rows[0]
        if is_vision and "label" in rows[0] and "chosen" in rows[0]:
            raise TrainerError("paired data with images is not for KTO")
        for row in rows:
            if row["prompt"][-1]["role"] != "user":
                raise TrainerError("the prompt does not end with a user")
            if is_vision:
                _require_images(row["prompt"], row["images"])
                for name in answers:
                    _require_images(row[name], [])
            else:
                _require_template(row["prompt"], *(row[name] for name in answers))
        return rows


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(field) for name, field in value.items() if field is not None}
    return [_without_nulls(element) for element in value] if isinstance(value, list) else value


def _require_images(messages: list[Row], images: list[Any]) -> None:
    """Every image part without a picture gets the next image, and none may be left over."""
    if find_spec("trl") is not None:
        try:
            import_module("trl.data_utils").prepare_multimodal_messages(messages, images=images)
        except ValueError as error:
            raise TrainerError(str(error)) from None
    parts = [part for message in messages if isinstance(message["content"], list) for part in message["content"]]
    marks = [part for part in parts if part["type"] == "image" and "image" not in part]
    if len(marks) != len(images):
        raise TrainerError(f"Number of images provided ({len(images)}) does not match number of placeholders")
    if not all(isinstance(image, PIL.Image.Image) for image in images):
        raise TrainerError("an image that cannot be read")


def _require_template(prompt: list[Row], *answers: list[Row]) -> None:
    """The text of a prompt begins that of prompt and answer."""
    texts, _ = render_jinja_template([prompt, *(prompt + answer for answer in answers)], chat_template=TEXT_TEMPLATE)
    if not all(text.startswith(texts[0]) and len(text) > len(texts[0]) for text in texts[1:]):
        raise TrainerError("the template of prompt and answer does not begin with that of the prompt")


def llama_factory_takes(folder: Path, name: str = "train") -> list[Row]:
    """The rows of a data set of `dataset_info.json` in stage rm, which is that of DPO."""
    info = json.loads((folder / "dataset_info.json").read_text())[name]
    if not info.get("ranking"):
        raise TrainerError("The dataset is not applicable in the current training stage.")
    columns = {"messages": "conversations"} | info["columns"]
    # `load_dataset("parquet", data_files=…)` makes the same, and counts the call on the network.
    file = str(folder / info["file_name"])
    rows = Dataset.from_parquet(file, cache_dir=str(folder.with_name(f"{folder.name}-cache")))
    for row in rows:
        prompt, response = _aligned(row, columns)
        if len(prompt) % 2 != 1 or len(response) < 2:
            raise TrainerError(f"Dropped invalid example: {row['id']}")
        images = [_in_media_dir(path, folder) for path in (row[columns["images"]] if "images" in columns else [])]
        for answer in response:
            _validate_messages([*prompt, answer], len(images))
        for image in images:
            PIL.Image.open(image).load()
    return list(rows)


def _aligned(row: Row, columns: Row) -> tuple[list[str], list[str]]:
    """(texts of the prompt, both answers); none of a row that is skipped."""
    accepted = (("human", "observation"), ("gpt", "function_call"))
    messages = row[columns["messages"]]
    answers = [row[columns["chosen"]], row[columns["rejected"]]]
    roles = [message["from"] for message in messages]
    in_order = all(role in accepted[place % 2] for place, role in enumerate(roles))
    if not in_order or len(messages) % 2 == 0 or not all(isinstance(answer, dict) for answer in answers):
        return [], []
    if any(answer["from"] not in accepted[1] for answer in answers):
        raise TrainerError(f"Invalid role tag in {row['id']}.")
    return [message["value"] for message in messages], [answer["value"] for answer in answers]


def _in_media_dir(path: str, folder: Path) -> str:
    if not (folder / path).is_file():
        raise TrainerError(f"Media {path} does not exist in `media_dir`.")
    return str(folder / path)


def _validate_messages(texts: list[str], images: int) -> None:
    """Marks of each kind are as many as files of that kind, over prompt and answer."""
    for mark, count in (("<image>", images), ("<video>", 0), ("<audio>", 0)):
        marks = sum(text.count(mark) for text in texts)
        if marks != count:
            raise TrainerError(f"The number of {mark} tokens ({marks}) does not match {count} files.")


def openai_takes(file: Path) -> list[Row]:
    """The lines of a file of preferences: these keys, one assistant's message each, and a user's before them."""
    rows = list(Dataset.from_json(str(file), cache_dir=str(file.with_suffix(".cache"))))
    for row in rows:
        if row.keys() != {"input", "preferred_output", "non_preferred_output"}:
            raise TrainerError(f"unknown keys {sorted(row)}")
        if row["input"]["messages"][-1]["role"] != "user":
            raise TrainerError("the last message of the input is none of a user")
        for message in (*row["input"]["messages"], *_one(row["preferred_output"]), *_one(row["non_preferred_output"])):
            if message.keys() != {"role", "content"} or not isinstance(message["content"], str):
                raise TrainerError(f"not a message: {message}")
    return rows


def _one(output: list[Row]) -> Iterator[Row]:
    if [message["role"] for message in output] != ["assistant"]:
        raise TrainerError("not one message of the assistant")
    yield from output
