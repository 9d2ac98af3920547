"""Synthetic stores of any size, filled in without running a model.

`decided_store` is ready for release; `logged_store` holds what ingest read, and `fill_signals` all that is measured.
"""

import io
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image
import polars as pl

from schemas.policy import policy_hash
from schemas.signals import MeasuredOn
from schemas.tables import SIGNAL_ENTRIES, SIGNALS, TABLES
from tasks.policy.policy_file import load_policy
from tasks.providers.embedded.texts import Cl100k
from tasks.storage.content_id import image_id, text_id
from tasks.storage.tables import Store, frame_schema

VERSIONS = dict.fromkeys(SIGNALS, "1")
_NOON = datetime(2024, 9, 18, 12, tzinfo=UTC)
_SECONDS = 8
"""Seconds between two conversations: a million take three months."""
_PART = 16_384
_MODELS, _TOPICS, _BENCH, _USERS = 40, 400, 500, 97_000
_DROPPED = 50
"""One of this many direct chats is dropped."""
_TEXT_WORDS, _WORDS = 8_000_000, 30_000
_PROMPT, _ANSWER, _LONGEST = 280, 860, 30_000
"""Characters: means are 70 and 215 tokens, those of LMSYS-Chat-1M."""
_WIDTHS = {"text_embedding": 512, "image_embedding": 1280}
"""Dimensions of the embedded models."""
_CENTRES, _NOISE = 40, 0.8
"""Vectors of prompts lie around so many centres; the length of the noise beside a centre of length 1."""
_WITH_MAIL = 100
"""One of this many texts has an e-mail address."""
Numbers = npt.NDArray[np.int64]


def decided_store(folder: Path, conversations: int, votes: int) -> Store:
    """A store with this many conversations, of two turns on average, two of which are the sides of each vote.

    Each prompt has its own image of 250 bytes. About 500 prompts are in the benchmark.
    """
    store, policy, texts = Store.open(str(folder)), load_policy("public_release"), _Texts()
    store.write_bytes(f"policies/{policy_hash(policy)}.json", policy.model_dump_json().encode())
    about = {"held": False, "policy": policy.name, "policy_hash": policy_hash(policy)}
    for start in range(0, conversations, _PART):
        numbers = np.arange(start, min(start + _PART, conversations))
        # each conversation's own number; for right sides of votes, that of the left side, the conversation before
        every = conversations // votes if votes else conversations + 1
        left = numbers - ((numbers % every == every - 1) & (numbers // every < votes) & (numbers > numbers[0]))
        rows = _conversations(numbers, left, texts)
        first = rows.filter(pl.Series(numbers == left))
        votes_of = first.join(rows.filter(pl.Series(numbers != left)), on="document_id", suffix="_b")
        _append_items(store, rows, votes_of, about)
        _append(store, "images", _images(numbers[numbers == left]))
        topics = _topics(first["document_id"])
        _append(store, "topics", topics)
        _append(store, "topic_model", topics | {"model": "the fit that these topics are of"})
        drawn = first.filter(pl.col("line") % max(1, conversations // _BENCH) == 1)
        of_bench = {"conversation_id": drawn["conversation_id"], "document_id": drawn["document_id"], "topic": 0}
        _append(store, "bench", of_bench)
        for signal, content_ids in _measured(rows, first):
            _append(store, f"signals/{signal}", _facts(signal, content_ids))
    _append(store, "ratings", _ratings())
    return store


def logged_store(folder: Path, conversations: int, votes: int, images: int) -> Store:
    """A store as ingest leaves it: log lines and images are read, and nothing is assembled or measured.

    Conversations and votes are those of `decided_store`; the conversations show `images` distinct ones in turn.
    """
    store, texts = Store.open(str(folder)), _Texts()
    for start in range(0, conversations, _PART):
        numbers = np.arange(start, min(start + _PART, conversations))
        left = _left_sides(numbers, conversations, votes)
        rows = _conversations(numbers, left, texts)
        said = rows["turns"].list.eval(pl.element().struct.field("content"))
        sides = pl.Series(np.where(numbers != left, 1, np.where(np.append(left[1:], -1) == numbers, 0, -1)))
        voted = pl.select(pl.when(sides >= 0).then(pl.lit("leftvote")).otherwise(pl.lit("chat"))).to_series()
        place = pl.Series([[{"image": 0, "character": 0, "message": 0}]]).new_from_index(0, rows.height)
        about = {name: rows[name] for name in ("source", "line", "tstamp", "model", "user_id")}
        lines = {
            "line": pl.Series(left + 1), "side": sides.clip(0), "record_type": voted,
            "conv_id": rows["conversation_id"], "texts": said,
            "opening_id": pl.Series([text_id(each[0]) for each in said]),
            "num_messages": said.list.len(), "images": pl.Series([[each] for each in _hex(left % images)]),
            "image_places": place, "anonymous": voted == "leftvote",
            "winner": pl.select(pl.when(sides >= 0).then(pl.lit("model_a"))).to_series(),
        }  # fmt: skip
        _append(store, "sightings", about | lines)
    for start in range(0, images, _PART):
        numbers = np.arange(start, min(start + _PART, images))
        _append(store, "images", _images(numbers))
        files = {"name": _hex(numbers) + ".png", "image_id": _image_ids(numbers), "size_bytes": 250, "modified_ns": 0}
        _append(store, "image_files", files | dict.fromkeys(("evidence", "md5", "sha1", "sha256"), ""))
    return store


def fill_signals(store: Store, versions: Mapping[str, str]) -> None:
    """Every signal of every text, document and image of an assembled store; one text of a hundred has an address."""
    for images in store.read_slices("images", ["image_id"]):
        _fill(store, versions, {MeasuredOn.IMAGES: images["image_id"]})
        _append(store, "signals/code", _facts("code", images["image_id"]) | {"version": versions["code"]})
    for rows in store.read_slices("conversations", ["turns", "prompt_id", "document_id"]):
        turns = rows["turns"].explode().struct.unnest()
        messages = turns.unique("text_id", maintain_order=True)
        counts = pl.Series(Cl100k().count_tokens(messages["content"].to_list()), dtype=pl.Int32)
        about = {"version": versions["tokens"], "tokens": counts}  # `verify` counts them again
        _append(store, "signals/tokens", _facts("tokens", messages["text_id"]) | about)
        on = {MeasuredOn.MESSAGES: turns["text_id"], MeasuredOn.PROMPT: rows["prompt_id"]}
        on[MeasuredOn.ASSISTANT_MESSAGES] = turns.filter(role="assistant")["text_id"]
        _fill(store, versions, on | {MeasuredOn.DOCUMENTS: rows["document_id"]})


def _fill(store: Store, versions: Mapping[str, str], ids_on: Mapping[MeasuredOn, pl.Series]) -> None:
    for signal in (versions.keys() & SIGNAL_ENTRIES.keys()) - {"tokens"}:
        ids = ids_on.get(SIGNAL_ENTRIES[signal].on)
        if ids is not None:
            facts = _facts(signal, ids.unique(maintain_order=True)) | {"version": versions[signal]}
            _append(store, f"signals/{signal}", facts)


def _left_sides(numbers: Numbers, conversations: int, votes: int) -> Numbers:
    """Each conversation's own number; for right sides of votes, that of the left side, the conversation before."""
    every = conversations // votes if votes else conversations + 1
    return numbers - ((numbers % every == every - 1) & (numbers // every < votes) & (numbers > numbers[0]))


class _Texts:
    """Slices of one long text, with word frequencies as in natural text (Zipf, Mandelbrot)."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)
        words = [f"{'bcdfgklmnprst'[n % 13]}{'aeiou'[n % 5]}{n:x}" for n in range(_WORDS)]
        often = 1 / (np.arange(_WORDS) + 2.7)
        drawn = self._random.choice(_WORDS, _TEXT_WORDS, p=often / often.sum())
        self._text = " ".join([words[number] for number in drawn.tolist()])

    def turns(self, count: int) -> Numbers:
        """Numbers of turns of `count` conversations, two on average."""
        return np.minimum(self._random.geometric(0.5, count), 20)

    def draw(self, count: int, mean: int) -> list[str]:
        """`count` texts with log-normal lengths of mean `mean`."""
        lengths = 8 + np.minimum(self._random.lognormal(np.log(mean) - 0.5, 1.0, count), _LONGEST).astype(int)
        starts = self._random.integers(0, len(self._text) - 2 * _LONGEST, count)
        return [self._text[a : a + n].strip() for a, n in zip(starts.tolist(), lengths.tolist(), strict=True)]


def _hex(numbers: Numbers, first: str = "0", digits: int = 32) -> pl.Series:
    """Ids; the first digit distinguishes texts, prompts and conversations."""
    return pl.Series([f"{first}{number:0{digits - 1}x}" for number in numbers.tolist()])


def _conversations(numbers: Numbers, left: Numbers, texts: _Texts) -> pl.DataFrame:
    turns = texts.turns(len(numbers))
    right = np.flatnonzero(numbers != left)
    turns[right] = turns[right - 1]
    total, starts = int(turns.sum()), np.cumsum(turns) - turns
    asked = np.array(texts.draw(total, _PROMPT), object)
    for side in right:  # both sides of a vote were asked the same
        asked[starts[side] : starts[side] + turns[side]] = asked[starts[side - 1] : starts[side]]
    messages = [text for pair in zip(asked, texts.draw(total, _ANSWER), strict=True) for text in pair]
    each = pl.DataFrame({"row": np.repeat(np.arange(len(numbers)), 2 * turns), "content": messages}).with_columns(
        role=pl.Series(["user", "assistant"] * total), text_id=_hex((numbers[0] << 12) + np.arange(2 * total), "e")
    )
    first = (pl.col("row") != pl.col("row").shift()).fill_null(
        True
    )  # the first message shows the image, before its text
    shown = pl.concat_list(pl.struct(image=pl.lit(0, pl.Int32), character=pl.lit(0, pl.Int32)))
    each = each.with_columns(images=pl.when(first).then(shown).otherwise([]))
    tstamp = pl.Series(numbers * (_SECONDS * 1_000_000)).cast(pl.Duration("us")) + _NOON
    return _frame(
        "conversations",
        {
            "conversation_id": _hex(numbers),
            "model": pl.Series([f"model-{number % _MODELS}" for number in numbers.tolist()]),
            "turns": each.group_by("row", maintain_order=True).agg(
                turns=pl.struct("role", "content", "text_id", "images")
            )["turns"],
            "num_turns": pl.Series(turns),
            "prompt_id": _hex(left, "f"),
            "document_id": _hex(left, "d"),
            "image_ids": pl.Series([[image] for image in _image_ids(left)]),
            "tstamp": tstamp,
            "day": tstamp.dt.date(),
            "user_id": _hex(left % _USERS, digits=24),
            "voted": False,
            "source": "2024-09-18-conv.json",
            "line": pl.Series(numbers + 1),
        },
    )


def _append_items(store: Store, rows: pl.DataFrame, votes_of: pl.DataFrame, about: dict[str, Any]) -> None:
    """Append conversations, votes, their decisions and their log lines."""
    ids, sides = rows["conversation_id"], pl.concat([votes_of["conversation_id"], votes_of["conversation_id_b"]])
    keep = (rows["line"] % _DROPPED > 0) | ids.is_in(sides.implode())
    reasons = pl.Series([[] if kept else ["face"] for kept in keep], dtype=pl.List(pl.String))
    store.append("conversations", rows)
    _append(store, "decisions", about | {"item_kind": "conversation", "item_id": ids, "keep": keep, "reasons": reasons})
    line = {"source": rows["source"], "line": rows["line"]}
    _append(store, "sightings", line | {"side": 0, "record_type": "chat", "tstamp": rows["tstamp"]})
    if votes_of.is_empty():
        return
    battles = {
        "battle_id": votes_of["conversation_id"], "conversation_a": votes_of["conversation_id"],
        "conversation_b": votes_of["conversation_id_b"], "model_a": votes_of["model"], "model_b": votes_of["model_b"],
        "winner": pl.Series(["model_a", "model_b", "tie", "tie_bothbad"] * votes_of.height).head(votes_of.height),
        "anonymous": True, "turns_a": votes_of["num_turns"], "turns_b": votes_of["num_turns"],
        "tstamp": votes_of["tstamp_b"], "day": votes_of["day_b"], "judge": votes_of["user_id"],
        "source": "2024-09-18-votes.json", "line": votes_of["line"],
    }  # fmt: skip
    _append(store, "battles", battles)
    _append(store, "decisions", about | {"item_kind": "battle", "item_id": battles["battle_id"], "keep": True})
    line = {"source": "2024-09-18-votes.json", "line": votes_of["line"]}
    _append(store, "sightings", line | {"side": 0, "record_type": "leftvote", "tstamp": votes_of["tstamp_b"]})


def _pixels(number: int) -> npt.NDArray[np.uint8]:
    """8 x 8 pixels that no other number has."""
    pixels = np.full((8, 8, 3), 127, np.uint8)
    pixels[0].flat[:8] = list(int(number).to_bytes(8, "little"))
    return pixels


def _image_ids(numbers: Numbers) -> pl.Series:
    return pl.Series([image_id(_pixels(number)) for number in numbers])


def _images(numbers: Numbers) -> dict[str, Any]:
    contents = []
    for number in numbers:
        stream = io.BytesIO()
        PIL.Image.fromarray(_pixels(number)).save(stream, "PNG")
        contents.append(stream.getvalue())
    return {"image_id": _image_ids(numbers), "bytes": pl.Series(contents), "format": "png", "width": 8, "height": 8}


def _topics(documents: pl.Series) -> dict[str, Any]:
    topic = np.random.default_rng(len(documents)).integers(0, _TOPICS, len(documents))
    names = pl.Series([f"topic {number}, its words" for number in topic.tolist()])
    places = np.random.default_rng(1).normal(size=(2, len(documents)))
    about = {"document_id": documents, "topic": pl.Series(topic), "name": names, "probability": 1.0, "reach": 1.0}
    return about | {"x": pl.Series(places[0]), "y": pl.Series(places[1])}


def _ratings() -> dict[str, Any]:
    points = 1200.0 - np.arange(_MODELS)
    return {
        "slice": "overall", "model": pl.Series([f"model-{number}" for number in range(_MODELS)]),
        "rating": pl.Series(points), "ci95_low": pl.Series(points - 9), "ci95_high": pl.Series(points + 9), "rank": 1,
        "battles": 1000,
    }  # fmt: skip


def _measured(rows: pl.DataFrame, first: pl.DataFrame) -> Iterator[tuple[str, pl.Series]]:
    """(signal, content ids) for the signals that a release reads."""
    texts = rows["turns"].list.eval(pl.element().struct.field("text_id"))
    for signal in ("tokens", "code"):
        yield signal, texts.explode()
    for signal in ("refusal", "markdown", "named_entities"):
        yield signal, texts.list.gather_every(2, 1).explode()
    for signal in ("language", "text_embedding"):
        yield signal, first["prompt_id"]
    for signal in ("categories", "criteria", "taxonomy"):
        yield signal, first["document_id"]


def _facts(signal: str, content_ids: pl.Series) -> dict[str, Any]:
    facts = {"content_id": content_ids, "version": "1", "provider": "none", "measured_at": _NOON}
    random = np.random.default_rng(len(content_ids))
    if signal in _WIDTHS:
        return facts | {"vector": _vectors(content_ids, _WIDTHS[signal], signal == "text_embedding", random)}
    if signal == "image_hash":
        hashes = {"phash": 8, "pdq": 32}
        drawn = {name: pl.Series([random.bytes(size).hex() for _ in content_ids]) for name, size in hashes.items()}
        return facts | drawn | {"pdq_quality": 100, "grey": "7f" * 1024}
    if signal == "image_colour":
        return facts | {"chroma": "80" * 512}
    if signal == "text_pii":
        found = [["email"] if int(each[-6:], 16) % _WITH_MAIL == 0 else [] for each in content_ids]
        spans = [[{"type": "email", "start": 0, "end": 6, "confidence": 1.0} for _ in kinds] for kinds in found]
        return facts | {"types": pl.Series(found, dtype=pl.List(pl.String)), "spans": pl.Series(spans)}
    values: dict[str, Any] = {
        "is_code": False,
        "refusal": False,
        "tokens": 300,
        "entities": 3,
        "language": "en",
        "confidence": 1.0,
    }
    screens = SIGNAL_ENTRIES[signal].screens or signal == "markdown"
    schema = frame_schema(SIGNALS[signal])
    return facts | {name: values.get(name, _nothing(kind) if screens else None) for name, kind in schema.items()}


def _nothing(kind: pl.DataType) -> Any:
    return [] if isinstance(kind, pl.List) else "" if kind == pl.String else 0


def _vectors(ids: pl.Series, width: int, in_topics: bool, random: np.random.Generator) -> pl.Series:
    """Unit vectors around a centre that the id says, or around one for all."""
    centres = np.random.default_rng(0).standard_normal((_CENTRES, width), np.float32) / np.sqrt(np.float32(width))
    chosen = [int(each[-6:], 16) % _CENTRES if in_topics else 0 for each in ids]
    drawn = centres[chosen] + random.standard_normal((len(ids), width), np.float32) * _NOISE / np.sqrt(width)
    return pl.Series((drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)).cast(
        pl.List(pl.Float32)
    )


def _append(store: Store, table: str, columns: dict[str, Any]) -> None:
    store.append(table, _frame(table, columns))


def _frame(table: str, columns: dict[str, Any]) -> pl.DataFrame:
    """Rows of a table. A single value is used for all rows; columns that are not given are null, or empty lists."""
    schema = frame_schema(TABLES[table].row)
    rows = next(len(values) for values in columns.values() if isinstance(values, pl.Series))
    whole = []
    for name, kind in schema.items():
        value = columns.get(name, [] if isinstance(kind, pl.List) else None)
        one = value if isinstance(value, pl.Series) else pl.Series([value], dtype=kind).new_from_index(0, rows)
        whole.append(one.cast(kind).alias(name))
    return pl.DataFrame(whole)
