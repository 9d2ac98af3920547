"""A store as a source. It is private: found personal data is masked, and images that may show a person are blurred."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

import polars as pl

from schemas.benches.judge_release import ITEM_BOARDS
from schemas.items.review import Stretch
from schemas.upkeep import Audited
from tasks.explore.item_sections import has_masked, sections_of_item
from tasks.explore.listing import BATTLE, CONVERSATION, SIDE, item_key, store_listing
from tasks.explore.masking import blurred_images, masked_parts, spans_found
from tasks.explore.source import Box, Gone, Item, ItemImage, Reason, ShownMessage, ShownSide, item_facts
from tasks.explore.tolerant import TolerantTables, narrowed
from tasks.generated_bench.results.boards import shown_accuracy
from tasks.judging.boards.written_boards import shown_boards
from tasks.release.registered import ShownBoard
from tasks.runtime.untrusted import one_line
from tasks.storage.content_id import text_id
from tasks.storage.keyed_ids import UNFINISHED
from tasks.storage.queries.explain import Account, explain_item
from tasks.storage.queries.released import decided_policy
from tasks.storage.queries.repeated_values import Span, with_repeats
from tasks.storage.queries.signals import StoredImages
from tasks.storage.records import REPEATS, add_audit_entry, funnel, reason_texts
from tasks.storage.tables import Store

_TABLES = (
    "conversations", "battles", "decisions", "topics", "bench", "images", "quarantine", "takedowns", "ratings",
    "fragility", "vote_checks", "rejects", "signals/text_pii", "signals/nsfw", "signals/faces", "signals/image_text",
    "signals/image_moderation", "signals/language", "signals/categories", "bench_items", "generated_items",
    "judge_ratings", "judge_agreement",
    *ITEM_BOARDS,
)  # fmt: skip
"""Tables whose parts are compared before every request."""
_NOT_MEASURED = "not measured yet"
_EVIDENCE_ROWS = 3
Explained = Callable[[Store, Account], list[str]]


class OfStore:
    """A store. `explained` turns an account of `storage/queries/explain.py` into a heading and sentences."""

    private = True

    def __init__(self, store: Store, explained: Explained) -> None:
        self._store, self._explained, self.title = store, explained, PurePosixPath(store.root).name
        self._parts: list[list[str]] = []
        self._tables = TolerantTables(store)
        self.refresh()

    def refresh(self) -> None:
        """Read the listing again when tables have changed. Raises Gone while a takedown is unfinished."""
        if self._store.read_bytes(UNFINISHED) is not None:
            raise Gone("a takedown is under way, or was interrupted: finish it with `curate takedown`, then reload")
        parts = [self._listed(table) for table in _TABLES]
        if parts != self._parts:
            self._tables, self._parts = TolerantTables(self._store), parts
            for name in ("listing", "searchable", "_blurred", "_images", "_shown_ids", "_reasons"):
                self.__dict__.pop(name, None)

    def _listed(self, table: str) -> list[str]:
        content = self._store.read_bytes(f"tables/{table}/parts.json")
        return [] if content is None else [content.decode(errors="replace")]

    @cached_property
    def listing(self) -> pl.DataFrame:
        """The listing, newest first."""
        return store_listing(self._tables)

    @cached_property
    def searchable(self) -> pl.DataFrame:
        """The listing with the column `searched`, which is read at the first search."""
        return self.listing.with_columns(store_listing(self._tables, searched=True)["searched"])

    @property
    def problems(self) -> list[str]:
        """One line for each table with a part that cannot be read."""
        return self._tables.problems

    @cached_property
    def _blurred(self) -> Mapping[str, str]:
        return blurred_images(self._tables)

    @cached_property
    def _images(self) -> StoredImages:
        parts = self._store.parts("images")
        found = {
            image_id: ("images", parts[number], group)
            for number, rows in self._tables.parts("images", ["image_id"])
            for image_id, group in zip(
                rows["image_id"], self._store.group_of_rows("images", parts[number]), strict=True
            )
        }
        return StoredImages(self._store, part_of=found or None)

    @cached_property
    def _shown_ids(self) -> frozenset[str]:
        return frozenset(self.listing["image_ids"].explode().drop_nulls().unique())

    def hidden_image(self, image_id: str) -> str:
        """The reason for which an image is blurred; empty when it is not. What was not measured is blurred."""
        return self._blurred.get(image_id, _NOT_MEASURED)

    def note_opened(self, by: str) -> None:
        """Note in the audit log that somebody is about to see what is masked."""
        add_audit_entry(self._store, Audited.LOOKED, {"items": 1}, by=by)

    def image(self, image_id: str) -> bytes | None:
        """An encoded image that an item of the listing shows."""
        if image_id not in self._shown_ids or image_id not in self._images.part_of:
            return None
        return self._images[image_id].bytes

    def item(self, key: str, opened: bool) -> Item | None:
        """A conversation or battle, with why it was kept or dropped."""
        found = self.listing.filter(pl.col("key") == key)
        if found.is_empty():
            return None
        row = found.row(0, named=True)
        narrow = narrowed(self._store, self._conversation_ids(row))
        account = self._account(narrow, row["kind"], row["id"])
        sides = self._sides(narrow, row, opened)
        images = [self._shown_image(narrow, image_id, opened) for image_id in row["image_ids"]]
        twin = account.get("twin") or {}
        twin_images = [self._shown_image(narrow, each["twin"], opened) for each in twin.get("images", [])]
        written = self._vote_reason(row, opened)
        every = [*(message.parts for side in sides for message in side.messages), written]
        sections = [] if row["kind"] == BATTLE else sections_of_item(self._store, narrow, row["id"], opened)
        masked = any(part.hidden for parts in every for part in parts)
        return Item(
            key=key,
            kind=row["kind"],
            item_id=row["id"],
            sides=sides,
            images=images,
            vote=row["vote"] or "",
            vote_reason=written,
            facts=item_facts(row),
            evidence=self._sentences(narrow, account),
            twins=[(item_key(CONVERSATION, twin["conversation"]), _likeness(twin))] if twin else [],
            twin_images=twin_images,
            battle=item_key(BATTLE, account["battle"]["battle"])
            if row["kind"] == SIDE and account.get("battle")
            else "",
            sections=sections,
            has_hidden=masked or has_masked(sections) or any(image.hidden for image in [*images, *twin_images]),
        )

    def _conversation_ids(self, row: Mapping[str, Any]) -> list[str]:
        if row["kind"] != BATTLE:
            return [row["id"]]
        names = ["battle_id", "conversation_a", "conversation_b"]
        battle = self._tables.read("battles", names).filter(battle_id=row["id"])
        return list(battle.select(names[1:]).row(0))

    def _vote_reason(self, row: Mapping[str, Any], opened: bool) -> list[Stretch]:
        """The voter's reason, masked like any message; nothing for what is not a battle."""
        if row["kind"] != BATTLE:
            return []
        votes = self._tables.read("battles", ["battle_id", "vote_reason", "vote_reason_id"]).filter(battle_id=row["id"])
        text, content_id = votes.select("vote_reason", "vote_reason_id").row(0)
        if not text:
            return []
        spans = spans_found(self._tables, pl.Series([content_id], dtype=pl.String))
        return masked_parts(text, spans.get(content_id), opened)

    def _sides(self, narrow: Store, row: Mapping[str, Any], opened: bool) -> list[ShownSide]:
        stored = {each["conversation_id"]: each for each in narrow.read("conversations").iter_rows(named=True)}
        spans = spans_found(
            TolerantTables(self._store),
            pl.Series([turn["text_id"] for each in stored.values() for turn in each["turns"]], dtype=pl.String),
        )
        ids = self._conversation_ids(row)
        outcomes = narrow.read("decisions").filter(item_kind="conversation")
        decided = {each["item_id"]: each for each in outcomes.iter_rows(named=True)}
        turns = {turn["text_id"]: turn["content"] for each in stored.values() for turn in each["turns"]}
        repeated = with_repeats([(text, spans.get(name)) for name, text in turns.items()])
        masks = dict(zip(turns, repeated, strict=True))
        return [_side(stored[each], decided.get(each), masks, opened) for each in ids if each in stored]

    def _shown_image(self, narrow: Store, image_id: str, opened: bool) -> ItemImage:
        if image_id not in self._images.part_of:
            return ItemImage(image_id, self.hidden_image(image_id))
        stored = self._images[image_id]
        rows = narrow.read("signals/faces").filter(content_id=image_id).sort("measured_at")
        faces = rows["faces"].to_list()[-1] if rows.height else []
        found = (_box(face["box"], f"face {face['confidence']:.2f}") for face in faces)
        boxes = (*found, *_text_boxes(narrow, image_id))
        return ItemImage(image_id, self.hidden_image(image_id), stored.width, stored.height, boxes)

    def _sentences(self, narrow: Store, account: Account) -> list[str]:
        """The account in sentences, without its heading and without names of log files."""
        if not account or "quarantined" in account:
            return []
        _, *details = self._explained(narrow, _without_sources(account))
        return [_naming_sides(detail.strip(), account.get("vote")) for detail in details]

    def evidence(self, ids: list[tuple[str, str]]) -> dict[tuple[str, str], list[str]]:
        """(kind, id) -> why it was dropped, in sentences."""
        battles = self._tables.read("battles", ["battle_id", "conversation_a", "conversation_b"])
        of_votes = battles.filter(pl.col("battle_id").is_in([item for kind, item in ids if kind == BATTLE]))
        sides = [side for row in of_votes.iter_rows() for side in row[1:]]
        narrow = narrowed(self._store, {*sides, *(item for kind, item in ids if kind != BATTLE)})
        return {(kind, item): self._sentences(narrow, self._account(narrow, kind, item)) for kind, item in ids}

    def _account(self, narrow: Store, kind: str, item: str) -> Account:
        """The account of an item; a battle has the id of its left conversation, whose account holds the battle's."""
        account = explain_item(narrow, item) or {}
        return account if kind != BATTLE else account.get("battle") or account

    def boards(self) -> pl.DataFrame:
        """The table `ratings`."""
        return self._tables.read("ratings")

    def of_votes(self, table: str) -> pl.DataFrame:
        """The table `fragility` or `vote_checks`."""
        return self._tables.read(table)

    def judged(self) -> tuple[pl.DataFrame, dict[str, Any]]:
        """The tables `judge_ratings` and `judge_agreement`, which has one row."""
        return self._tables.read("judge_ratings"), next(self._tables.read("judge_agreement").iter_rows(named=True), {})

    def item_boards(self) -> list[ShownBoard]:
        """Boards of written benchmarks and of those made on demand, as the last release rated them."""
        return [board for shown in (shown_boards, shown_accuracy) for board in shown(self._tables.read)]

    def reasons(self) -> list[Reason]:
        """Reasons for which lines were dropped or rejected, most frequent first."""
        return self._reasons

    @cached_property
    def _reasons(self) -> list[Reason]:
        policy = decided_policy(self._store)
        meanings = reason_texts(policy) if policy else REPEATS
        rejects = self._tables.read("rejects", ["reason", "evidence"])
        return [
            Reason(
                reason,
                outcome,
                lines,
                meanings.get(reason, ""),
                _words(rejects, reason) if outcome == "rejected" else (),
            )
            for outcome, reason, lines in funnel(self._store).reasons()
        ]


def _words(rejects: pl.DataFrame, reason: str) -> tuple[str, ...]:
    counted = Counter(rejects.filter(pl.col("evidence") != "", reason=reason)["evidence"].to_list())
    return tuple(f"{one_line(words)} ({count:,})" for words, count in counted.most_common(_EVIDENCE_ROWS))


def _side(
    row: Mapping[str, Any], decided: Mapping[str, Any] | None, spans: Mapping[str, Sequence[Span] | None], opened: bool
) -> ShownSide:
    messages = [
        ShownMessage(turn["role"], masked_parts(turn["content"], spans.get(turn["text_id"]), opened))
        for turn in row["turns"]
    ]
    outcome = (
        "not decided" if decided is None else "kept" if decided["keep"] else "held" if decided["held"] else "dropped"
    )
    return ShownSide(row["model"], messages, outcome, tuple(decided["reasons"]) if decided else ())


def _box(place: Sequence[int], label: str) -> Box:
    x, y, width, height = place
    return Box(x, y, width, height, label)


def _text_boxes(narrow: Store, image_id: str) -> list[Box]:
    """Boxes of the lines of an image's text in which personal data was found."""
    rows = narrow.read("signals/image_text").filter(content_id=image_id).sort("measured_at")
    if rows.is_empty() or not rows["text"].to_list()[-1]:
        return []
    text, boxes = rows["text"].to_list()[-1], rows["boxes"].to_list()[-1]
    spans = spans_found(TolerantTables(narrow), pl.Series([text_id(text)])).get(text_id(text), [])
    return [
        _box(box["box"], span["type"])
        for span in spans
        for box in boxes
        if box["start"] < span["end"] and span["start"] < box["end"]
    ]


def _naming_sides(sentence: str, vote: Mapping[str, Any] | None) -> str:
    """The sentence with `left side` and `right side` in place of the ids of a battle's conversations."""
    for column, name in (("conversation_a", "left side"), ("conversation_b", "right side")):
        if vote and sentence.startswith(f"{vote[column]}: "):
            return name + sentence.removeprefix(vote[column])
    return sentence


def _likeness(twin: Mapping[str, Any]) -> str:
    relations = ", ".join(sorted({pair["relation"] for pair in twin["images"]})) or "no images"
    prompts = "equal prompts" if twin["same_prompt"] else f"prompts with cosine {twin['prompt_cosine']}"
    return f"images: {relations}; {prompts}"


def _without_sources(account: Account) -> Account:
    """The account without names of log files, which are paths; line numbers stay."""
    changed = dict(account)
    for name, value in account.items():
        if name == "source" and isinstance(value, str):
            line = value.rpartition(":")[2]
            changed[name] = f"line {line}" if line.isdecimal() else "log"
        elif isinstance(value, dict):
            changed[name] = _without_sources(value)
    return changed
