"""Preferences as trainers read them: a vote in the style of TRL, LLaMA-Factory or OpenAI, and the columns of its file.

In: a `Preference`, whose history both answers share, and the paths of its images. Out: rows. A further style is an
entry of `STYLES`, with its columns and a function that gives a vote's rows.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from schemas.publication import PreferenceStyle
from tasks.export.sft import TrainingExample, as_text, llava_example, messages_example, without_marks

_TEXT = pa.string()
_PARTS = pa.list_(pa.struct({"type": _TEXT, "text": _TEXT}))
_MESSAGES = pa.list_(pa.struct({"role": _TEXT, "content": _PARTS}))
_MESSAGES_OF_TEXTS = pa.list_(pa.struct({"role": _TEXT, "content": _TEXT}))
_SAID = pa.struct({"from": _TEXT, "value": _TEXT})
_STYLE = pa.struct(dict.fromkeys(("tokens", "headers", "list_items", "bold"), pa.int64()))
VOTE_FACTS = pa.schema({
    "id": _TEXT, "model_chosen": _TEXT, "model_rejected": _TEXT, "margin": pa.float64(), "style_difference": _STYLE,
    "category": _TEXT, "tags": pa.list_(_TEXT), "language": _TEXT, "anonymous": pa.bool_(),
})  # fmt: skip
"""Facts of a vote, in every style."""


class Preference(NamedTuple):
    """One vote that trains: what was said before, and the two last answers."""

    history: Sequence[Mapping[str, Any]]
    """Messages up to the last one of the user, with their images; those of both sides are equal."""
    chosen: str
    rejected: str
    both_bad: bool
    """Whether the voter found that neither answer is good; `chosen` is then the left one."""
    about: dict[str, Any]
    """Columns of `VOTE_FACTS`."""


def _shared(preference: Preference) -> dict[str, Any]:
    names = ("id", "model_chosen", "language", "category")
    id_, model, language, topic = (preference.about[name] for name in names)
    return {
        "conversation_id": id_, "model": model, "language": language, "topic": topic,
        "conversation": preference.history,
    }  # fmt: skip


def _answer(text: str) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": [{"type": "text", "text": without_marks(text)}]}]


def _prompt(preference: Preference, paths: Sequence[str]) -> dict[str, Any]:
    """`prompt` and `images` of TRL: a part without text stands for each image, in order."""
    example = messages_example(_shared(preference), paths)
    return {"prompt": example["messages"], "images": example["images"]}


def trl_rows(preference: Preference, paths: Sequence[str]) -> list[TrainingExample]:
    """The pair, for DPO and reward trainers."""
    pair = {"chosen": _answer(preference.chosen), "rejected": _answer(preference.rejected)}
    return [_prompt(preference, paths) | pair | preference.about]


def trl_kto_rows(preference: Preference, paths: Sequence[str]) -> list[TrainingExample]:
    """Both answers, each with a label; both are bad where the voter said so."""
    shared_columns = _prompt(preference, paths) | preference.about
    return [
        shared_columns | {"completion": _answer(preference.chosen), "label": not preference.both_bad},
        shared_columns | {"completion": _answer(preference.rejected), "label": False},
    ]


def texts_for_parts(example: TrainingExample) -> TrainingExample:
    """A row without images for models of texts, whose chat templates take a text as content and fail on parts."""
    return example | {name: as_text(value) for name, value in example.items() if name in _OF_MESSAGES}


def llama_factory_rows(preference: Preference, paths: Sequence[str]) -> list[TrainingExample]:
    """The pair with a mark for each image of the history, on a line of its own."""
    example = llava_example(_shared(preference), paths)
    answers = {
        name: {"from": "gpt", "value": without_marks(text)}
        for name, text in (("chosen", preference.chosen), ("rejected", preference.rejected))
    }
    history = {"conversations": example["conversations"], "images": example["image"]}
    return [history | answers | preference.about]


def openai_rows(preference: Preference, paths: Sequence[str]) -> list[TrainingExample]:
    """The pair, without what is known of it: OpenAI takes no further keys."""
    messages = [{"role": message["role"], "content": message["content"]} for message in preference.history]
    return [
        {
            "input": {"messages": messages},
            "preferred_output": [{"role": "assistant", "content": preference.chosen}],
            "non_preferred_output": [{"role": "assistant", "content": preference.rejected}],
        }
    ]


class WrittenStyle(NamedTuple):
    """A style of the export."""

    rows: Callable[[Preference, Sequence[str]], list[TrainingExample]]
    columns: pa.Schema | None
    """Columns of its Parquet files; None where it is written as JSON Lines."""
    takes_images: bool = True
    takes_both_bad: bool = False
    """Whether votes that both answers are bad are rows."""
    text_columns: pa.Schema | None = None
    """Columns of a file without images, whose rows are then `texts_for_parts`; null where the rows stay as they are."""


_IMAGES = pa.field("images", pa.list_(_TEXT))


def _columns(**style_columns: pa.DataType) -> pa.Schema:
    return pa.schema([*(pa.field(name, kind) for name, kind in style_columns.items()), _IMAGES, *VOTE_FACTS])


_OF_PAIRS, _OF_LABELS = ("prompt", "chosen", "rejected"), ("prompt", "completion")
_OF_MESSAGES = {*_OF_PAIRS, *_OF_LABELS}
"""Columns of messages of TRL's styles."""
_LABEL = {"label": pa.bool_()}
STYLES: dict[PreferenceStyle, WrittenStyle] = {
    PreferenceStyle.TRL: WrittenStyle(
        trl_rows,
        _columns(**dict.fromkeys(_OF_PAIRS, _MESSAGES)),
        text_columns=_columns(**dict.fromkeys(_OF_PAIRS, _MESSAGES_OF_TEXTS)),
    ),
    PreferenceStyle.TRL_KTO: WrittenStyle(
        trl_kto_rows,
        _columns(**dict.fromkeys(_OF_LABELS, _MESSAGES), **_LABEL),
        takes_both_bad=True,
        text_columns=_columns(**dict.fromkeys(_OF_LABELS, _MESSAGES_OF_TEXTS), **_LABEL),
    ),
    PreferenceStyle.LLAMA_FACTORY: WrittenStyle(
        llama_factory_rows, _columns(conversations=pa.list_(_SAID), chosen=_SAID, rejected=_SAID)
    ),
    PreferenceStyle.OPENAI: WrittenStyle(openai_rows, None, takes_images=False),
}
"""Style -> how it is written."""


def preference_dataset_info(splits: Sequence[str], has_images: bool) -> dict[str, Any]:
    """LLaMA-Factory's description of a folder: a data set of pairs for each split."""
    columns = {"messages": "conversations", "chosen": "chosen", "rejected": "rejected"}
    columns |= {"images": "images"} if has_images else {}
    described = {"formatting": "sharegpt", "ranking": True, "columns": columns}
    return {split: {"file_name": f"{split}.parquet", **described} for split in splits}
