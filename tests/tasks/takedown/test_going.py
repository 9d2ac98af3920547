"""What goes from a store is what was taken down, and what nothing that stays holds."""

import random
from typing import Any

import polars as pl
import pytest

from schemas.items.reject import TakenDownKind
from schemas.row import Held
from schemas.tables import TABLES
from tasks.storage.content_id import text_id
from tasks.storage.keyed_ids import Tombstones
from tasks.storage.tables import Store, frame_schema
from tasks.takedown.going import going, unwanted_rows
from tests.builders import NOON

NOTHING = {pl.String: "", pl.Int32: 0, pl.Int64: 0, pl.Float64: 0.0, pl.Boolean: False}
TEXTS = [f"text {number}" for number in range(90)]
IDS = {
    Held.CONVERSATION: [f"conversation{number}" for number in range(9)],
    Held.IMAGE: [f"image{number}" for number in range(30)],
    Held.IMAGE_NAME: [*(f"name{number}.png" for number in range(9)), "preset:cat.png"],
    Held.USER: [f"user{number}" for number in range(20)],
    Held.CONTENT: [*map(text_id, TEXTS), *(f"image{number}" for number in range(30))],
}
FILLED = [
    "conversations", "redacted_conversations", "battles", "images", "image_files", "redacted_images", "near_images",
    "decisions", "bench", "topics", "topic_names", "answers", "verdicts", "screened_texts", "outlier_judges",
    "generated_images", "generated_items", "signals/image_text", "signals/text_pii",
]  # fmt: skip


def drawn_rows(chance: random.Random, table: str, **columns: Any) -> pl.DataFrame:
    """Twelve rows with drawn ids in the columns that name something; `columns` are functions that draw the others."""
    types = frame_schema(TABLES[table].row)
    kinds = {**TABLES[table].holds, **TABLES[table].mentions}

    def cell(name: str) -> Any:
        if name in columns:
            return columns[name]()
        if name not in kinds:
            return NOTHING.get(types[name])
        is_list = isinstance(types[name], pl.List)
        return chance.sample(IDS[kinds[name]], chance.randrange(3)) if is_list else chance.choice(IDS[kinds[name]])

    return pl.DataFrame({name: [cell(name) for _ in range(12)] for name in types}, schema=types)


def a_row_each(table: str, column: str, ids: list[str]) -> pl.DataFrame:
    """One row for each of the ids."""
    rows = drawn_rows(random.Random(0), table).head(1)
    return pl.concat([rows.with_columns(pl.lit(each).alias(column)) for each in ids])


@pytest.fixture(params=range(12))
def drawn(request, tmp_path) -> tuple[Store, Tombstones]:
    """A store whose tables name a few ids at random, and tombstones of some of them."""
    store, chance = Store(str(tmp_path)), random.Random(request.param)

    def text():
        return chance.choice(TEXTS)

    def form():
        return {"role": "user", "content": "", "text_id": text_id(text()), "images": []}

    of_conversation = {
        "turns": lambda: [form()] * chance.randrange(2),
        "prompt_id": lambda: text_id(text()),
        "served": lambda: None if chance.random() < 0.5 else [{"turn": 1, "thinking_id": text_id(text())}],
        "day": lambda: NOON.date(),
    }
    of_line = {
        "conv_id": lambda: chance.choice(IDS[Held.CONVERSATION]),
        "images": lambda: [f"name{chance.randrange(9)}"] * chance.randrange(2),
    }
    drawing = {
        "conversations": of_conversation,
        "redacted_conversations": of_conversation,
        "sightings": of_line,
        "battles": {"vote_reason_id": lambda: chance.choice([None, text_id(text())])},
        **{table: {"text": text} for table in ("answers", "verdicts", "screened_texts")},
        "signals/image_text": {"text": lambda: chance.choice([None, "", text()])},
        "generated_images": {
            "name": lambda: chance.choice([None, "name0", "name1"]),
            "description_id": lambda: chance.choice(TEXTS[:5]),
        },
        "generated_items": {"description_id": lambda: chance.choice(TEXTS[:5])},
    }
    for table in ("sightings", *FILLED):
        store.replace(table, drawn_rows(chance, table, **drawing.get(table, {})))
    store.replace("signals/text_pii", a_row_each("signals/text_pii", "content_id", IDS[Held.CONTENT]))
    store.replace("images", a_row_each("images", "image_id", IDS[Held.IMAGE]))
    some = {kind: chance.sample(ids, 1 + chance.randrange(3)) for kind, ids in IDS.items()}
    names = {name.removesuffix(".png") for name in some[Held.IMAGE_NAME] if not name.startswith("preset")}
    tombstones = Tombstones(store, b"a key")
    tombstones.add(
        {
            TakenDownKind.CONVERSATION: some[Held.CONVERSATION],
            TakenDownKind.IMAGE: [*some[Held.IMAGE], *names],
            TakenDownKind.USER: some[Held.USER],
        },
        NOON,
    )
    return store, tombstones


def staying(store: Store, tombstones: Tombstones) -> dict[Held, set[str]]:
    """Kind -> ids that stay, by the tables one after another."""
    rows = {table: store.read(table).to_dicts() for table in ("sightings", *FILLED)}
    taken = {kind: tombstones.holds(kind, [each for ids in IDS.values() for each in ids]) for kind in TakenDownKind}
    taken_names = tombstones.holds(TakenDownKind.IMAGE, [f"name{number}" for number in range(9)])
    gone_lines = {
        row["conv_id"] for row in rows["sightings"]
        if row["conv_id"] in taken[TakenDownKind.CONVERSATION] or row["user_id"] in taken[TakenDownKind.USER]
        or {*row["images"]} & taken_names
    }  # fmt: skip
    gone_items = {r["description_id"] for r in rows["generated_items"]
                  if r["item_id"] in taken[TakenDownKind.CONVERSATION]}  # fmt: skip
    names = {name for row in rows["sightings"] if row["conv_id"] not in gone_lines for name in row["images"]}
    names |= {row["name"] for row in rows["generated_images"] if row["description_id"] not in gone_items}
    conversations = {row["conversation_id"] for row in rows["conversations"]} - taken[TakenDownKind.CONVERSATION]
    forms = [row for table in ("conversations", "redacted_conversations") for row in rows[table]
             if row["conversation_id"] in conversations]  # fmt: skip
    files = {name for name in IDS[Held.IMAGE_NAME] if name.startswith("preset") or name.removesuffix(".png") in names}
    images = {image for row in forms for image in row["image_ids"]}
    images |= {row["image_id"] for row in rows["image_files"] if row["name"] in files - taken_files(tombstones)}
    images -= taken[TakenDownKind.IMAGE]
    images |= {row["image_id"] for row in rows["redacted_images"] if row["source_image_id"] in images}
    images -= taken[TakenDownKind.IMAGE]
    votes = [row for row in rows["battles"] if {row["conversation_a"], row["conversation_b"]} <= conversations]
    contents = {turn["text_id"] for row in forms for turn in row["turns"]} | images
    contents |= {row[name] for row in forms for name in ("prompt_id", "document_id")}
    contents |= {answer["thinking_id"] for row in forms for answer in row["served"] or []}
    contents |= {row["vote_reason_id"] for row in votes}
    contents |= {text_id(r["text"]) for r in rows["signals/image_text"] if r["text"] and r["content_id"] in images}
    products = [row for table in ("answers", "verdicts", "screened_texts") for row in rows[table]]
    contents |= {text_id(row["text"]) for row in products
                 if row["question_id"] not in taken[TakenDownKind.CONVERSATION]}  # fmt: skip
    return {
        Held.CONVERSATION: conversations,
        Held.IMAGE_NAME: files - taken_files(tombstones),
        Held.IMAGE: images,
        Held.CONTENT: contents,
        Held.USER: {row["judge"] for row in votes} - taken[TakenDownKind.USER],
    }


def taken_files(tombstones: Tombstones) -> set[str]:
    """Names of images that were taken down, with and without an extension."""
    logged = [f"name{number}" for number in range(9)]
    names = [*IDS[Held.IMAGE_NAME], *logged]
    return {name for name in names if tombstones.holds(TakenDownKind.IMAGE, [name.removesuffix(".png")])}


def test_a_row_goes_when_it_holds_what_does_not_stay_or_names_what_was_taken_down(drawn):
    store, tombstones = drawn
    stay, ids = staying(store, tombstones), going(store, tombstones)
    taken = {
        Held.CONVERSATION: tombstones.conversations(IDS[Held.CONVERSATION]),
        Held.IMAGE: tombstones.holds(TakenDownKind.IMAGE, IDS[Held.IMAGE]),
        Held.IMAGE_NAME: taken_files(tombstones),
        Held.USER: tombstones.holds(TakenDownKind.USER, IDS[Held.USER]),
        Held.CONTENT: set[str](),
    }

    def goes(table: str, row: dict[str, Any]) -> bool:
        held, mentioned = (
            [(kind, each) for column, kind in columns.items() for each in pl.Series([row[column]]).explode()]
            for columns in (TABLES[table].holds, TABLES[table].mentions)
        )
        unheld = any(each is not None and each not in stay[kind] for kind, each in held)
        return unheld or any(each in taken[kind] for kind, each in mentioned)

    for table in FILLED:
        unwanted, rows = unwanted_rows(store, table, ids), store.read(table)
        assert unwanted is not None
        found = rows.select(unwanted.fill_null(False)).to_series().to_list()
        assert found == [goes(table, row) for row in rows.to_dicts()], table
