"""Signals summarised by conversation, for leaderboards, releases and reports.

Also counts of tags, how often two tags occur together (VisionArena Fig. 5 and 24), marks by which a voter may know
whose answers are, and counts of the rows of a release, made while they are written.
"""

from collections.abc import Sequence
from functools import cache

import polars as pl
from babel import Locale, UnknownLocaleError

from schemas.signals import Markdown
from schemas.tags import TAGS, Criteria, TagCount, Taxonomy
from tasks.storage.queries.signals import Versions, versions_in_use
from tasks.storage.tables import Store

PROMPT_KINDS = ("hard", "instruction_following", "longer_query", "multi_image")
"""Tags of prompts by which boards are cut, too: what arenas call hard prompts, instruction following, longer queries
and several images."""
CATEGORIES = tuple(tag for tag in TAGS if tag not in PROMPT_KINDS)
"""VisionArena's categories that a tagger decides."""
MARKDOWN = tuple(Markdown.model_fields)
CRITERIA = tuple(Criteria.model_fields)
TAXONOMY = tuple(Taxonomy.model_fields)
ALL_TAGS = (*CATEGORIES, "code", "refusal", "multi_turn")
"""Tags of the report's distribution and overlap; the last three need no tagger."""

VOTE_MARKS = ("names_model", "unseen_marks")
"""Bool columns of a vote: an answer holds the name of one of its models, or characters that are not shown."""
_NO_SIGNS = r"[^\p{L}\p{N}]+"
_UNSEEN = (
    r"[\x{2060}-\x{2064}\x{180e}\x{fff9}-\x{fffb}]|.\x{feff}"  # show nothing in any script
    r"|[\x20-\x7e]\x{200b}|\x{200b}[\x20-\x7e]"  # Khmer and Thai part words so; Latin letters have spaces
    r"|[\x21-\x7e][\x{200c}\x{200d}\x{00ad}][\x21-\x7e]"  # joiners that Latin letters do not need, and soft hyphens
    r"|[a-zA-Z,;.][\x{2000}-\x{200a}\x{202f}\x{205f}][a-zA-Z]"  # spaces of other widths between words
    r"|[a-zA-Z][\x{fe00}-\x{fe0f}\x{e0100}-\x{e01ef}]|[\x{e0020}-\x{e007f}]{8}"  # variants of letters; tags
)


_WITHOUT_TEXTS = """
    -- a row is one of the wanted conversations, as it would be released, without its texts; of one that is wanted up to
    -- a turn, the messages up to its answer
    SELECT
        conversation_id, model, user_id, tstamp, least(num_turns, last_turn) AS num_turns, prompt_id, document_id,
        if(last_turn < num_turns, images_until(image_ids, "turns.images", last_turn), image_ids) AS image_ids,
        list_slice("turns.role", 1, 2 * coalesce(last_turn, num_turns)) AS "turns.role",
        list_slice("turns.text_id", 1, 2 * coalesce(last_turn, num_turns)) AS "turns.text_id"
    FROM released JOIN wanted USING (conversation_id)
"""
_FACTS = """
    -- a row is one of the given conversations, and what is known of it
    SELECT {columns} FROM conversation_facts
"""


def conversation_features(
    store: Store,
    conversation_ids: pl.Series,
    versions: Versions,
    columns: Sequence[str],
    turns: pl.Series | None = None,
) -> pl.DataFrame:
    """`conversation_id` and columns of the view `conversation_facts` of these conversations, up to `turns` of each.

    Null where a signal was not measured. The view has the columns of a conversation without its texts; language, the
    seven categories, code, refusal, multi_turn, `PROMPT_KINDS`, context_tokens and assistant_tokens, the ten Markdown
    counts of the assistant's messages, their entities, and headers, list_items and bold; criteria and taxonomy;
    topic_id, topic, x and y.
    """
    released = released_without_texts(store, conversation_ids, turns)
    query = _FACTS.format(columns=", ".join(("conversation_id", *columns)))
    return pl.concat(store.batches(query, versions=versions_in_use(versions), released=released))


def released_without_texts(store: Store, conversation_ids: pl.Series, turns: pl.Series | None = None) -> pl.DataFrame:
    """Rows of the view `released` of these conversations, without their texts, in about 350 bytes each.

    Given to a question as `released`, in place of that view, so that facts of other conversations are not computed.
    `turns`, int (conversations,), is the turn of the vote on each, after which its messages are left out: facts of
    messages are then those of what was voted on. Prompt, document and topic stay those of the whole conversation.
    """
    requested = pl.DataFrame(
        {"conversation_id": conversation_ids, "last_turn": turns},
        schema={"conversation_id": pl.String, "last_turn": pl.Int32},
    )
    requested = requested.group_by("conversation_id").agg(pl.col("last_turn").max())
    return pl.concat(store.batches(_WITHOUT_TEXTS, wanted=requested))


def tallied(rows: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Each combination of values of `columns`, and the number of rows with it (`conversations`).

    Tallies of several parts of a table may be concatenated.
    """
    return rows.group_by(columns).agg(conversations=pl.len().cast(pl.Int64))


def tag_counts(tally: pl.DataFrame, tags: Sequence[str]) -> list[TagCount]:
    """The count of each tag, most frequent first, from a tally of Boolean columns."""
    rows = _conversations(tally)
    counts = [_count(tag, _conversations(tally.filter(tag)), _not_told(tally, tag), rows) for tag in tags]
    return sorted(counts, key=lambda row: -row.items)


def taxonomy_counts(tally: pl.DataFrame) -> list[TagCount]:
    """The count of each value that occurs, as `Category` and `Category / Subcategory`; questions first, then images."""
    rows, every = [], _conversations(tally)
    for category, part in (TAXONOMY[:2], TAXONOMY[2:]):
        nulls = _not_told(tally, category)
        for columns in ([category], [category, part]):
            # A row is one value of the taxonomy that occurs, and its number of conversations.
            value_counts = tally.drop_nulls(columns).group_by(columns).agg(pl.col("conversations").sum()).sort(columns)
            rows += [_count(f"{category}: {' / '.join(names)}", n, nulls, every) for *names, n in value_counts.rows()]
    return rows


def overlap(tally: pl.DataFrame, tags: Sequence[str]) -> pl.DataFrame:
    """Columns `tag` and every tag: among conversations with the row's tag, the share that also has the column's tag.

    Conversations where one of both is unknown are left out. Null where no conversation has the row's tag.
    """
    rows = [{"tag": row, **{column: _share_within(tally, row, column) for column in tags}} for row in tags]
    return pl.DataFrame(rows, schema={"tag": pl.String, **dict.fromkeys(tags, pl.Float64)})


def _share_within(tally: pl.DataFrame, row: str, column: str) -> float | None:
    measured = tally.filter(row).drop_nulls(column)
    rows = _conversations(measured)
    return _conversations(measured.filter(column)) / rows if rows else None


def _conversations(tally: pl.DataFrame) -> int:
    return int(tally["conversations"].sum())


def _not_told(tally: pl.DataFrame, column: str) -> int:
    return _conversations(tally.filter(pl.col(column).is_null()))


def _count(tag: str, items: int, not_told: int, all_items: int) -> TagCount:
    measured_items = all_items - not_told
    # A tagger may never say yes (`embedded_figures.py`): then nobody knows the share, and it is not 0.
    share = None if not items and not_told else items / measured_items if measured_items else 0.0
    known_share = measured_items / all_items if all_items else 0.0
    return TagCount(tag=tag, items=int(items), share=share, not_told=not_told, known=known_share)


UNKNOWN = "unknown"


@cache
def english_name(code: str | None) -> str:
    """The English name of a language code, such as `English` for `en`; `unknown` for a missing or unlisted code."""
    if code is None or code == UNKNOWN:
        return UNKNOWN
    name = Locale("en").languages.get(code)
    if name is None:
        try:
            name = Locale.parse(code, sep="-").get_language_name("en")
        except (UnknownLocaleError, ValueError):
            return UNKNOWN
    return str(name or UNKNOWN)


@cache
def _codes_by_name() -> dict[str, str]:
    """English name of a language -> its shortest code."""
    codes = sorted(Locale("en").languages, key=lambda code: (len(code), code), reverse=True)
    return {english_name(code): code for code in codes}


def language_code(name: str) -> str | None:
    """The code of a language of two or three letters (ISO 639) by its English name; None for one that has none."""
    code = _codes_by_name().get(name) or _codes_by_name().get(name.partition(" (")[0])
    return code if code is not None and len(code) <= 3 else None


def answers_of(turns: pl.Expr) -> pl.Expr:
    """All answers of a list of messages, as one text; null without a list."""
    answer_texts = pl.element().filter(pl.element().struct.field("role") == "assistant").struct.field("content")
    return turns.list.eval(answer_texts).list.join("\n")


def names_model(model: pl.Expr, answers: pl.Expr) -> pl.Expr:
    """Whether answers hold the model's name, but for case and signs, if it has a digit and six letters and digits."""
    name = model.str.to_lowercase().str.replace_all(_NO_SIGNS, "")
    telling = name.str.contains(r"\p{N}") & (name.str.len_chars() >= 6)  # "command" and "phi-3" are also other things
    return telling & answers.str.to_lowercase().str.replace_all(_NO_SIGNS, "").str.contains(name, literal=True)


def unseen_marks(answers: pl.Expr) -> pl.Expr:
    """Whether answers hold characters that show nothing and that no script needs there, as hidden watermarks do."""
    return answers.str.contains(_UNSEEN)


def marks(models: Sequence[pl.Expr], answers: pl.Expr) -> dict[str, pl.Expr]:
    """The columns `VOTE_MARKS` of votes, bool: `models` that were asked, and all their `answers` in one text."""
    named = pl.any_horizontal(names_model(model, answers) for model in models)
    return dict(zip(VOTE_MARKS, (named, unseen_marks(answers)), strict=True))


CHAT, BATTLE_CONFIG = COUNTED = ("chat", "battle")
"""Configurations whose rows are counted."""
ANSWERS, PAIRS = ("model",), ("model_a", "model_b", "winner")
_EXAMPLE = "is_preset"
"""The released column of rows about the arena's own example images."""
_KEYS = {
    CHAT: (("day",), ("language",), ("num_turns",), ALL_TAGS, CRITERIA, TAXONOMY),
    BATTLE_CONFIG: (("day",), ("language",), ("num_turns",), ALL_TAGS, TAXONOMY, PAIRS),
}
_FROM_MODEL = (pl.element().struct.field("role") == "assistant").cast(pl.Int64)


class Tallies:
    """Numbers of rows by configuration and by the values of some columns.

    Memory: each combination of values once, and about 100 bytes for each user and image.
    """

    def __init__(self) -> None:
        self.rows = dict.fromkeys(COUNTED, 0)
        self.users, self.images = set[int](), set[int]()
        """64-bit hashes of their ids."""
        self.failures: list[str] = []
        """Ids of the released failures, which leave out what is hidden."""
        self._counts: dict[tuple[str, tuple[str, ...]], pl.DataFrame] = {}

    def add(self, config: str, rows: pl.DataFrame) -> None:
        """Add gathered rows of a configuration; those of others are not counted."""
        if config == "failures":
            self.failures.extend(rows["question_id"])
        if config not in self.rows:
            return
        self.rows[config] += rows.height
        self.users.update(rows["user_id" if config == CHAT else "judge"].drop_nulls().unique().hash())
        # A value is one image; hashes take less memory than ids.
        self.images.update(rows["image_ids"].explode().drop_nulls().unique().hash())
        counted = _with_columns(config, rows)
        for columns in _KEYS[config]:
            self._sum(config, columns, tallied(counted, (*columns, _EXAMPLE)))
        self._sum(config, ANSWERS, _answers(config, counted))

    def of(self, config: str, columns: tuple[str, ...], examples: bool = True) -> pl.DataFrame:
        """Each combination of values of `columns` with its number of rows in `conversations`.

        Without `examples`, rows about the arena's own example images are left out. By ANSWERS, also: answers, their
        `tokens` and the answers `counted` for them, `refusals`, and the conversations for which a refusal is `told`.
        """
        empty = dict.fromkeys(columns, pl.String) | {"conversations": pl.Int64}
        counts = self._counts.get((config, columns))
        if counts is None:
            return pl.DataFrame(schema=empty)
        chosen_counts = counts if examples else counts.filter(~pl.col(_EXAMPLE))
        return _summed(chosen_counts.drop(_EXAMPLE), columns)

    def languages(self) -> dict[str, int]:
        """English name of a language -> rows in it, most first; rows of an unknown one are left out."""
        # A row is one language of one configuration.
        counts = pl.concat(self.of(config, ("language",)).select("language", "conversations") for config in COUNTED)
        known_languages = (
            counts.filter(pl.col("language") != UNKNOWN).group_by("language").agg(pl.col("conversations").sum())
        )
        return dict(known_languages.sort("conversations", "language", descending=[True, False]).iter_rows())

    def _sum(self, config: str, columns: tuple[str, ...], counts: pl.DataFrame) -> None:
        before = self._counts.get((config, columns))
        both = counts if before is None else pl.concat([before, counts])
        self._counts[config, columns] = _summed(both, (*columns, _EXAMPLE))


def _summed(counts: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    return counts.group_by(columns).agg(pl.all().sum())


def _with_columns(config: str, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with their day, tags and places in the taxonomy as columns."""
    tags = rows["categories"].struct.unnest().rename({"is_code": "code"})
    columns = [*tags, *(rows["taxonomy"].struct.unnest() if config == BATTLE_CONFIG else ())]
    return rows.with_columns(
        *columns,
        # Null for a time that is none, which `verify` meets in a release that somebody changed.
        day=(pl.col("tstamp") * 1e6).cast(pl.Int64, strict=False).cast(pl.Datetime("us")).dt.date(),
        multi_turn=pl.col("num_turns") > 1,
    )


def _answers(config: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Sums over the models' answers; a battle has one conversation with each of two models."""
    if config == CHAT:
        return _of_models(rows.select("model", "conversation", "refusal", _EXAMPLE, tokens="assistant_tokens"))
    meta = pl.col("conv_metadata").struct
    sides = (
        rows.select(
            _EXAMPLE,
            model=f"model_{side}",
            conversation=f"conversation_{side}",
            refusal=pl.lit(None, pl.Boolean),  # the report counts those of chat
            tokens=meta.field(side).struct.field("assistant_tokens"),
        )
        for side in ("a", "b")
    )
    return _of_models(pl.concat(sides))


def _of_models(answered: pl.DataFrame) -> pl.DataFrame:
    has_tokens, answers = pl.col("tokens").is_not_null(), pl.col("conversation").list.eval(_FROM_MODEL).list.sum()
    return answered.group_by("model", _EXAMPLE).agg(
        conversations=pl.len().cast(pl.Int64),
        answers=answers.sum().cast(pl.Int64),
        tokens=pl.col("tokens").sum().cast(pl.Int64),
        counted=answers.filter(has_tokens).sum().cast(pl.Int64),
        refusals=pl.col("refusal").sum().cast(pl.Int64),
        told=pl.col("refusal").count().cast(pl.Int64),
    )
