"""A store as a source. It is private: found personal data is masked, and images that may show a person are blurred."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

import polars as pl

from schemas.benches.judge_release import ITEM_BOARDS
from schemas.upkeep import Audited
from tasks.explore.alike import Closeness
from tasks.explore.asked_store import AskedStore
from tasks.explore.item_sections import found_in, has_masked, masked_section, sections_of_item, texts_of
from tasks.explore.listing import store_listing
from tasks.explore.masking import MaskedStore, blurred_images, masked_parts
from tasks.explore.questions import OfAskedStore
from tasks.product import Product
from tasks.release.registered import ShownBoard
from tasks.runtime.untrusted import one_line
from tasks.shown import (
    BATTLE,
    CONVERSATION,
    SIDE,
    Box,
    Gone,
    Item,
    ItemImage,
    Reason,
    ShownMessage,
    ShownSide,
    item_facts,
    item_key,
)
from tasks.storage.content_id import text_id
from tasks.storage.keyed_ids import UNFINISHED
from tasks.storage.queries.explain import Account, battle_account, conversation_account
from tasks.storage.queries.released import decided_policy
from tasks.storage.queries.repeated_values import FoundSpan, with_repeats
from tasks.storage.queries.signals import StoredImages, Versions, versions_in_use
from tasks.storage.queries.stored_items import StoredItems
from tasks.storage.records import REPEATS, add_audit_entry, funnel, reason_texts
from tasks.storage.tables import Store

_TABLES = (
    "conversations", "battles", "decisions", "topics", "bench", "images", "quarantine", "takedowns", "ratings",
    "fragility", "vote_checks", "rejects", "signals/text_pii", "signals/nsfw", "signals/faces", "signals/image_text",
    "signals/image_moderation", "signals/language", "signals/categories", "signals/text_embedding",
    "signals/image_embedding", "bench_items", "generated_items",
    "judge_ratings", "judge_agreement",
    *ITEM_BOARDS,
)  # fmt: skip
"""Tables whose parts are compared before every request."""
_NOT_MEASURED = "not measured yet"
_DETAILS_SHOWN = 3
_DETAILS = """
    -- a row is one reason for which lines were rejected and one detail of it, with the number of these lines; of each
    -- reason the details of the most lines, and of as many lines the one that came first: the engine's one thread reads
    -- the parts of a table in their order, and numbers the rows so
    SELECT reason, evidence, count(*) AS lines
    FROM (SELECT reason, evidence, row_number() OVER () AS place FROM rejects WHERE evidence <> '')
    GROUP BY reason, evidence
    QUALIFY row_number() OVER (PARTITION BY reason ORDER BY lines DESC, min(place)) <= $most
    ORDER BY reason, lines DESC, min(place)
"""
_SIZES = """
    -- a row is one wanted image, and its size if it is stored
    SELECT image_id, width, height
    FROM wanted LEFT JOIN (SELECT image_id, width, height FROM images SEMI JOIN wanted USING (image_id)) AS stored
    USING (image_id)
"""
_VOTE_REASON = """
    -- a row is what the voter of the battle wrote; its time is given, too, so that parts of other times are not read
    SELECT vote_reason FROM battles WHERE tstamp = $tstamp AND battle_id = $battle_id
"""
Explained = Callable[[StoredItems, Account], list[str]]


class _Reading:
    """Parts read of a store since its tables last changed; each is made when it is first needed.

    A request that began before a change may still read here. What it makes late stays here, so that no later request
    sees what was taken down meanwhile.
    """

    def __init__(self, root: str, versions: Callable[[], Versions]) -> None:
        self.store, self._versions = MaskedStore(root), versions

    @cached_property
    def listing(self) -> pl.DataFrame:
        return store_listing(self.store)

    @cached_property
    def searchable(self) -> pl.DataFrame:
        # A run may have changed the tables between both reads: each text is put beside its own item, by its key.
        searched = store_listing(self.store, searched=True).select("key", "searched").unique("key", keep="first")
        return self.listing.join(searched, on="key", how="left", maintain_order="left")

    @cached_property
    def blurred(self) -> Mapping[str, str]:
        return blurred_images(self.store)

    @cached_property
    def images(self) -> StoredImages:
        return self.store.again(lambda: StoredImages(self.store))

    @cached_property
    def shown_ids(self) -> frozenset[str]:
        return frozenset(self.listing["image_ids"].explode().drop_nulls().unique())

    @cached_property
    def closeness(self) -> Closeness:
        return Closeness(self.store, self._versions())

    @cached_property
    def asked(self) -> OfAskedStore:
        return OfAskedStore(AskedStore(self.store.root), lambda: versions_in_use(self._versions()))

    @cached_property
    def reasons(self) -> list[Reason]:
        policy = decided_policy(self.store)
        meanings = reason_texts(policy) if policy else REPEATS
        details = self.store.ask(_DETAILS, most=_DETAILS_SHOWN)
        return [
            Reason(
                reason,
                outcome,
                lines,
                meanings.get(reason, ""),
                _words(details.filter(reason=reason)) if outcome == "rejected" else (),
            )
            for outcome, reason, lines in funnel(self.store).reasons()
        ]


class OfStore:
    """A store. `explained` turns an account of `storage/queries/explain.py` into a heading and sentences.

    `products` add sections of items and boards. `versions` gives those of all signals: vectors are of these.
    """

    private = True

    def __init__(
        self, store: Store, explained: Explained, products: Sequence[Product] = (),
        versions: Callable[[], Versions] = dict,
    ) -> None:  # fmt: skip
        self._versions = versions
        self._written, self._explained, self.title = store, explained, PurePosixPath(store.root).name
        self._products = products
        self._lists_of_parts: list[bytes | None] = []
        self.refresh()

    def refresh(self) -> None:
        """Begin a new reading when tables have changed. Raises Gone while a takedown is unfinished."""
        if self._written.read_bytes(UNFINISHED) is not None:
            raise Gone("a takedown is under way, or was interrupted: finish it with `curate takedown`, then reload")
        lists_of_parts = [self._list_of_parts(table) for table in _TABLES]
        if lists_of_parts != self._lists_of_parts:
            self._reading, self._lists_of_parts = _Reading(self._written.root, self._versions), lists_of_parts

    def _list_of_parts(self, table: str) -> bytes | None:
        return self._written.read_bytes(f"tables/{table}/parts.json")

    @property
    def _store(self) -> MaskedStore:
        return self._reading.store

    @property
    def listing(self) -> pl.DataFrame:
        """The listing, newest first."""
        return self._reading.listing

    @property
    def searchable(self) -> pl.DataFrame:
        """The listing with the column `searched`, which is read at the first search."""
        return self._reading.searchable

    @property
    def problems(self) -> list[str]:
        """One line for each table with a part that cannot be read."""
        return self._store.problems

    def hidden_image(self, image_id: str) -> str:
        """The reason for which an image is blurred; empty when it is not. What was not measured is blurred."""
        return self._reading.blurred.get(image_id, _NOT_MEASURED)

    def note_opened(self, by: str) -> None:
        """Note in the audit log that somebody is about to see what is masked."""
        add_audit_entry(self._written, Audited.LOOKED, {"items": 1}, by=by)

    def image(self, image_id: str) -> bytes | None:
        """An encoded image that an item of the listing shows."""
        reading = self._reading
        if image_id not in reading.shown_ids or image_id not in reading.images.part_of:
            return None
        return reading.images[image_id].bytes

    def item(self, key: str, opened: bool) -> Item | None:
        """A conversation, or a battle with its sides, and why it was kept or dropped."""
        listed = self.listing.filter(pl.col("key") == key)
        if listed.is_empty():
            return None
        row = listed.row(0, named=True)
        return self._store.again(lambda: self._item(row, opened))

    def _item(self, row: Mapping[str, Any], opened: bool) -> Item | None:
        """The item of a row of the listing; None where it has gone since, or a side of it."""
        items = StoredItems(self._store, [row["id"]])
        conversations = _conversations(items, row)
        if not conversations:
            return None
        account = _account(items, row["kind"], row["id"])
        twin = account.get("twin")
        twin_key = item_key(CONVERSATION, twin["conversation"]) if twin else ""
        if not (self.listing["key"] == twin_key).any():  # such as a quarantined one: nothing of it is shown
            twin = None
        twin_ids = [pair["twin"] for pair in twin["images"]] if twin else []
        images_by_id = {image.image_id: image for image in self._shown_images(items, {*row["image_ids"], *twin_ids})}
        images, twin_images = ([images_by_id[image_id] for image_id in ids] for ids in (row["image_ids"], twin_ids))
        vote_reasons = _vote_reasons(items, row["id"])
        sections = [] if row["kind"] == BATTLE else sections_of_item(self._store, row["id"], self._products)
        spans = _spans_together(items, vote_reasons, found_in(self._store, texts_of(sections)))
        # a side is one conversation of the item, masked: one, or two of a battle
        sides = [_side(items, conversation, spans, opened) for conversation in conversations]
        shown_reasons = vote_reasons if row["kind"] == BATTLE else ()
        vote_reason = [stretch for text in shown_reasons for stretch in masked_parts(text, spans[text], opened)]
        texts = [*(message.parts for side in sides for message in side.messages), vote_reason]
        masked_sections = [masked_section(section, spans, opened) for section in sections]
        masked = any(stretch.hidden for text in texts for stretch in text)
        return Item(
            key=row["key"],
            kind=row["kind"],
            item_id=row["id"],
            sides=sides,
            images=images,
            vote=row["vote"] or "",
            vote_reason=vote_reason,
            facts=item_facts(row),
            evidence=self._sentences(items, account),
            twins=[(twin_key, _likeness(twin))] if twin else [],
            twin_images=twin_images,
            battle=item_key(BATTLE, account["battle"]["battle"])
            if row["kind"] == SIDE and account.get("battle")
            else "",
            sections=masked_sections,
            has_hidden=masked or has_masked(masked_sections) or any(image.hidden for image in [*images, *twin_images]),
        )

    def _shown_images(self, items: StoredItems, image_ids: Iterable[str]) -> Iterator[ItemImage]:
        wanted_ids = pl.DataFrame({"image_id": sorted(image_ids)}, {"image_id": pl.String})
        for image_id, width, height in self._store.ask(_SIZES, wanted=wanted_ids).iter_rows():
            hidden = self.hidden_image(image_id)
            if width is None:
                yield ItemImage(image_id, hidden)
            else:
                yield ItemImage(image_id, hidden, width, height, tuple(_boxes(items, image_id)))

    def _sentences(self, items: StoredItems, account: Account) -> list[str]:
        """The account in sentences, without its heading and without names of log files."""
        if not account:
            return []
        _, *details = self._explained(items, without_sources(account))
        return [_naming_sides(detail.strip(), account.get("vote")) for detail in details]

    def evidence(self, ids: list[tuple[str, str]]) -> dict[tuple[str, str], list[str]]:
        """(kind, id) -> why it was dropped, in sentences."""

        def sentences() -> dict[tuple[str, str], list[str]]:
            items = StoredItems(self._store, [item for _, item in ids])
            return {(kind, item): self._sentences(items, _account(items, kind, item)) for kind, item in ids}

        return self._store.again(sentences)

    def closeness(self, item_id: str) -> pl.Series | None:
        """Float32 (rows of the listing,): cosine of each to an item; None where there is no vector."""
        return self._store.again(lambda: self._reading.closeness.to(item_id, self.listing))

    @property
    def has_vectors(self) -> bool:
        """Whether prompts have vectors."""
        return bool(self._store.parts("signals/text_embedding"))

    @property
    def asked(self) -> OfAskedStore:
        """The tables, to be asked in SQL as `curate sql` does without `--unmask`."""
        return self._reading.asked

    def note_ids_given(self, count: int) -> None:
        """Note in the audit log that so many ids leave as a file."""
        add_audit_entry(self._written, Audited.EXPORTED, {"ids": count})

    def boards(self) -> pl.DataFrame:
        """The table `ratings`."""
        return self._store.read("ratings")

    def of_votes(self, table: str) -> pl.DataFrame:
        """The table `fragility` or `vote_checks`."""
        return self._store.read(table)

    def judged(self) -> tuple[pl.DataFrame, dict[str, Any]]:
        """The tables `judge_ratings` and `judge_agreement`, which has one row."""
        return self._store.read("judge_ratings"), next(self._store.read("judge_agreement").iter_rows(named=True), {})

    def item_boards(self) -> list[ShownBoard]:
        """Boards of written benchmarks and of those made on demand, as the last release rated them."""
        return [board for product in self._products for board in product.item_boards(self._store.read)]

    def reasons(self) -> list[Reason]:
        """Reasons for which lines were dropped or rejected, most frequent first."""
        return self._reading.reasons


def _words(details: pl.DataFrame) -> tuple[str, ...]:
    """Details of rejected lines: kinds, numbers and places in fixed words, never text of a log (`Reject.evidence`)."""
    return tuple(f"{one_line(words)} ({lines:,})" for words, lines in details.select("evidence", "lines").iter_rows())


def _account(items: StoredItems, kind: str, item: str) -> Account:
    """The account of an item without values of signals; empty when the store does not have it any more."""
    return (battle_account if kind == BATTLE else conversation_account)(items, item, ()) or {}


def _conversations(items: StoredItems, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The conversation of an item, or both of a battle, left first; none where one of them is not stored any more."""
    battle = items.battle(row["id"]) if row["kind"] == BATTLE else None
    if row["kind"] == BATTLE and battle is None:
        return []
    ids = [battle["conversation_a"], battle["conversation_b"]] if battle else [row["id"]]
    rows = {side["conversation_id"]: side for side in items.whole_conversations.iter_rows(named=True)}
    # in the order in which they are shown; without a side that is gone
    conversations = [rows[side_id] for side_id in ids if side_id in rows]
    if len(conversations) < len(ids):  # of a battle with one side, nobody could tell which one it is
        return []
    if battle:  # it ends at its vote, also where a conversation went on; a turn is two messages, the user's first
        for conversation, side in zip(conversations, "ab", strict=True):
            conversation["turns"] = conversation["turns"][: 2 * battle[f"turns_{side}"]]
    return conversations


def _spans_together(
    items: StoredItems,
    vote_reasons: Mapping[str, str],
    of_sections: Mapping[str, Sequence[FoundSpan] | None],
) -> dict[str, Sequence[FoundSpan] | None]:
    """Text -> what is masked in it, for all texts of an item: a value that one of them holds is masked in all.

    Texts that were read in its images are among them, and for a side of a battle all of the battle.
    """
    # a row is one conversation of the item, as it was logged
    conversations = items.whole_conversations.filter(pl.col("conversation_id").is_in(items.ids_with_sides)).to_dicts()
    # a pair is one message and its text id
    messages = ((turn["content"], turn["text_id"]) for conversation in conversations for turn in conversation["turns"])
    read = items.values("image_text")
    # an element is what was read in one image that any conversation shows
    in_images = (read[image]["text"] for row in conversations for image in row["image_ids"] if image in read)
    # every text of the item itself -> its id, then with those of other sections -> what was found in it alone
    id_by_text = dict(chain(messages, vote_reasons.items(), ((text, text_id(text)) for text in in_images if text)))
    found = {**of_sections} | {text: _spans(items, content_id) for text, content_id in id_by_text.items()}
    return dict(zip(found, with_repeats([*found.items()]), strict=True))


def _spans(items: StoredItems, content_id: str) -> list[dict[str, Any]] | None:
    """The personal data that was found in a text; None for one that nobody searched."""
    searched = items.values("text_pii").get(content_id)
    return None if searched is None else searched["spans"]


def _vote_reasons(items: StoredItems, item_id: str) -> dict[str, str]:
    """Words of the voter of a battle, or of the battle of a side -> their text id; nothing for other items."""
    battle = items.battle(item_id)
    if battle is None or battle["vote_reason_id"] is None:
        return {}
    rows = items.store.ask(_VOTE_REASON, tstamp=battle["tstamp"], battle_id=battle["battle_id"])
    return dict.fromkeys(rows["vote_reason"].drop_nulls(), str(battle["vote_reason_id"]))


def _side(
    items: StoredItems,
    conversation: Mapping[str, Any],
    spans: Mapping[str, Sequence[FoundSpan] | None],
    opened: bool,
) -> ShownSide:
    messages = [
        ShownMessage(turn["role"], masked_parts(turn["content"], spans[turn["content"]], opened))
        for turn in conversation["turns"]
    ]
    decided = items.decisions.get((CONVERSATION, conversation["conversation_id"]))
    outcome = (
        "not decided" if decided is None else "kept" if decided["keep"] else "held" if decided["held"] else "dropped"
    )
    return ShownSide(conversation["model"], messages, outcome, tuple(decided["reasons"]) if decided else ())


def _boxes(items: StoredItems, image_id: str) -> Iterator[Box]:
    """Boxes of faces, and of the lines of an image's text in which personal data was found."""
    if measured_faces := items.values("faces").get(image_id):
        for face in measured_faces["faces"]:
            yield _box(face["box"], f"face {face['confidence']:.2f}")
    if (read := items.values("image_text").get(image_id)) and read["text"]:
        for span in _spans(items, text_id(read["text"])) or ():
            for line in read["boxes"]:
                if line["start"] < span["end"] and span["start"] < line["end"]:
                    yield _box(line["box"], span["type"])


def _box(place: Sequence[int], label: str) -> Box:
    x, y, width, height = place
    return Box(x, y, width, height, label)


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


def without_sources(account: Any) -> Any:
    """The account, or a value in it, without names of log files, which are paths; line numbers stay."""
    if isinstance(account, list):
        return [without_sources(value) for value in account]
    if not isinstance(account, dict):
        return account
    return {
        name: _line_alone(value) if name == "source" and isinstance(value, str) else without_sources(value)
        for name, value in account.items()
    }


def _line_alone(source: str) -> str:
    line = source.rpartition(":")[2]
    return f"line {line}" if line.isdecimal() else "log"
