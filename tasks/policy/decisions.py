"""Applies a policy to stored signals: one decision for every conversation and battle.

Redacted conversations are decided on their redacted texts and images: redact rules that still fire there drop them.
Rules about signals that describe an item decide in a second pass over what all other rules keep, because only that is
described; until it is, they drop it as not measured.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import polars as pl

from schemas.items.decision import Decision, ItemKind, NearPrompt
from schemas.policy import Action, Over, Policy, Rule, RuleOverSet, Scope, policy_hash
from tasks.dedup.near_images import representatives
from tasks.dedup.near_prompts import near_prompts, with_whole_prompts
from tasks.dedup.repeats import asked_ids, duplicates_of, hot_battles, in_company, preset_datasets
from tasks.policy.proof import repeated_words, unproven
from tasks.policy.review import held_reviews, reviewed
from tasks.policy.rules import (
    FIRED,
    STOPS,
    Step,
    battle_columns,
    conversation_columns,
    describes,
    fired,
    hit_columns,
    of_models,
    parts,
    reasons_of,
)
from tasks.storage.content_id import text_id
from tasks.storage.queries.blocks import BLOCK_ROWS, Blocks
from tasks.storage.queries.released import renamed
from tasks.storage.queries.signals import Versions, embeddings, signal_values
from tasks.storage.tables import Store, frame_schema

WHOLE_ROWS = 131_072
"""Conversations that are decided at once, which takes half the CPU."""
ItemFindings = Callable[[Store, pl.Series], pl.DataFrame]
"""(store, conversation ids) -> ITEM_COLUMNS of each, in order; no columns when the store has no written items."""


class StoredSignals:
    """Tables that decisions use; several policies can be applied to one instance.

    Rules about one conversation are applied to some conversations at a time (`blocks`), which alone hold texts; those
    over the whole set compare `items`.
    """

    def __init__(
        self, store: Store, versions: Versions, findings: ItemFindings, whole: "StoredSignals | None" = None
    ) -> None:
        """`findings` gives what is known of written items; `whole` is what a block is part of."""
        self.store = store
        self.versions = versions
        self._findings = findings
        self._whole = whole or self
        self._values = dict[str, pl.DataFrame]()

    def blocks(self, rules: Iterable[Rule]) -> Iterator["StoredSignals"]:
        """The same about some conversations at a time, with the signals that these rules name."""
        if self.store.height("conversations") <= WHOLE_ROWS:
            yield self
            return
        named = {rule.signal.partition(".")[0] for rule in rules} & self.versions.keys()
        read = {"image_text"} if any(rule.over is Over.IMAGE_TEXTS for rule in rules) else set[str]()
        self._blocks.divide_signals(sorted(read & self.versions.keys()))
        self._blocks.divide_signals(sorted(named))
        for block in self._blocks:
            yield StoredSignals(block, self.versions, self._findings, self)

    @cached_property
    def _blocks(self) -> Blocks:
        return Blocks(self.store, "conversations", BLOCK_ROWS)

    @cached_property
    def battles(self) -> pl.DataFrame:
        """The table `battles`."""
        return self.store.read("battles")

    @cached_property
    def conversations(self) -> pl.DataFrame:
        """Table `conversations` with the column `preset_dataset` and what is known of written items."""
        conversations, whole = self.store.read("conversations"), self._whole
        preset = preset_datasets(conversations, *whole.about_presets)
        return conversations.with_columns(preset, *self._findings(whole.store, conversations["conversation_id"]))

    @cached_property
    def items(self) -> pl.DataFrame:
        """All conversations without texts; `asked_id` is the content id of the user's words (`duplicates_of`)."""
        return pl.concat(
            asked_ids(block.conversations).select(*_COMPARED, "asked_id", "preset_dataset") for block in self.blocks([])
        )

    @cached_property
    def about_presets(self) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """Sightings that begin with a preset, `presets`, also as served, and pairs of near images with one."""
        store, presets = self.store, self.store.read("presets")
        names = ["image_id", "name"]
        served = store.read("image_files", names) if presets.height else store.empty("image_files", names)
        served = served.with_columns(logged_name=pl.col("name").str.slice(0, 32))
        as_served = presets.drop("image_id").join(served, on="logged_name").select(presets.columns)
        presets = presets.vstack(as_served)
        named, shown = presets["logged_name"].implode(), presets["image_id"].drop_nulls().implode()
        first, near = pl.col("images").list.first(), pl.any_horizontal(pl.col("image_a", "image_b").is_in(shown))
        return (
            _filtered(store, "sightings", ["conv_id", "images"], first.is_in(named)),
            presets,
            _filtered(store, "near_images", None, near),
        )

    def rows_of(self, conversation_ids: Collection[str]) -> pl.DataFrame:
        """The rows of `conversations` of these ids."""
        wanted = pl.col("conversation_id").is_in(sorted(conversation_ids))
        return _filtered(self.store, "conversations", None, wanted)

    @cached_property
    def parts(self) -> Mapping[Over, pl.DataFrame]:
        """The parts of every conversation."""
        return self.parts_of(self.conversations)

    def parts_of(self, conversations: pl.DataFrame) -> Mapping[Over, pl.DataFrame]:
        """The parts of some conversations, redacted ones too."""
        read = self.signal("image_text", ["text"])
        text_ids = {image_id: text_id(text) if text else "" for image_id, text in read.iter_rows()}
        return parts(conversations, text_ids)

    def signal(self, name: str, columns: list[str] | None = None, ids: Collection[str] | None = None) -> pl.DataFrame:
        """Values of one signal by content id, of all or of these; empty when this run does not measure it."""
        if columns is not None or ids is not None:
            return signal_values(self.store, name, self.versions.get(name, ""), columns, ids)
        if name not in self._values:  # several rules read it
            self._values[name] = signal_values(self.store, name, self.versions.get(name, ""))
        return self._values[name]

    def stands(self, rule: Rule) -> bool:
        """Whether the rule applies: rules with `if_chosen` need a chosen provider."""
        return not rule.if_chosen or rule.signal.partition(".")[0] in self.versions

    def redacted(self, policy: Policy, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Conversations as redacted by this policy."""
        names = None if columns is None else [*columns, "policy_hash"]
        return self.store.read("redacted_conversations", names).filter(policy_hash=policy_hash(policy))

    def image_of(self, items: pl.DataFrame, semantic: bool = False) -> Mapping[str, str]:
        """Image id -> its representative if it is near to others, for `items`; the earliest comes first.

        With `semantic`, semantic near-duplicates count as duplicates too.
        """
        pairs = self.store.read("near_images")
        also = self.store.read("semantic_images") if semantic else None
        near = pl.concat(rows[side] for rows in (pairs, also) if rows is not None for side in ("image_a", "image_b"))
        used = items.sort("tstamp", "conversation_id")["image_ids"].explode().drop_nulls()
        return representatives(used.filter(used.is_in(near.implode())).unique(maintain_order=True), pairs, also)


_COMPARED = ("conversation_id", "prompt_id", "image_ids", "tstamp", "voted", "num_turns")


def _filtered(store: Store, table: str, columns: Sequence[str] | None, wanted: pl.Expr) -> pl.DataFrame:
    """The wanted rows of a table; memory holds some others at a time."""
    some = (rows.filter(wanted) for rows in store.read_slices(table, columns))
    return pl.concat([store.empty(table, columns), *some])


_STOPS = pl.col("action").is_in(STOPS)
_NO_REDACTIONS = pl.lit([], dtype=frame_schema(Decision)["redactions"])


class Verdicts(NamedTuple):
    """Result of applying a policy."""

    decisions: pl.DataFrame
    """The `decisions` table."""
    of_battles_alone: pl.DataFrame
    """item_id (of conversations) and reason of fired rules with scope battle."""
    near_prompts: pl.DataFrame
    """The `near_prompts` table."""


def verdicts(known: StoredSignals, policy: Policy) -> Verdicts:
    """Apply a policy to every conversation and battle. Each step asks only about what the earlier ones leave."""
    held = held_reviews(known.store)

    # rules about what is measured on everything; what they redact must be proven
    screening, alone = _joined(_screening(block, policy, held) for block in known.blocks(policy.rules))

    # repeats among the rest
    repeats = _repeats(known, _left(known.items, screening), policy)
    duplicates = _over_set(policy.duplicates, repeats)
    screened = _left(known.items, screening, duplicates)

    # rules about what is measured only on the rest of that
    described, described_alone = _joined(_described(known, policy, held, screened))
    near = _near_prompts(known, _left(screened, described), policy)
    near_hits = _over_set(policy.near_prompts, near["conversation_a"])

    hits = pl.concat([screening, duplicates, described, near_hits])
    conversations = _of_conversations(known, hits, repeats, policy).with_columns(
        kept_by_screening=pl.col("item_id").is_in(screened["conversation_id"].implode())
    )
    of_battles_alone = pl.concat([alone, described_alone])
    sides = pl.concat([screening.filter(_STOPS), described.filter(_STOPS), of_battles_alone])
    both = pl.concat([conversations, _of_battles(known, sides, policy)], how="diagonal")
    withheld = _withheld_words(known, policy)
    return Verdicts(_decisions(both, withheld, policy), of_battles_alone.select("item_id", "reason"), near)


_Hits = tuple[pl.DataFrame, pl.DataFrame]
"""Rows of FIRED of rules with scope conversation, and of those with scope battle."""


def _joined(hits: Iterable[_Hits]) -> _Hits:
    none = pl.DataFrame(schema=FIRED)
    ours, alone = zip((none, none), *hits, strict=True)
    return pl.concat(ours), pl.concat(alone)


def _screening(known: StoredSignals, policy: Policy, held: pl.DataFrame) -> _Hits:
    """Rules of the first pass on some conversations, as reviewed, and the proof of what they redact."""
    screening, alone = conversation_hits(known, policy)
    screening, redacted = reviewed(screening, known.conversations, held), known.redacted(policy)
    proof = unproven(screening, redacted, known.parts_of(redacted), known.signal, policy)
    return pl.concat([screening, proof]), alone


def _described(known: StoredSignals, policy: Policy, held: pl.DataFrame, screened: pl.DataFrame) -> Iterator[_Hits]:
    """Rules of the second pass on what is screened, some conversations at a time."""
    rules, ids = [rule for rule in policy.rules if describes(rule)], screened["conversation_id"].implode()
    for block in known.blocks(rules) if rules else ():
        kept = block.conversations.filter(pl.col("conversation_id").is_in(ids))
        described, alone = described_hits(block, policy, kept)
        yield reviewed(described, block.conversations, held), alone


def _decisions(items: pl.DataFrame, withheld: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """The `decisions` table of conversations and battles with their reasons."""
    stamped = items.with_columns(
        keep=pl.col("reasons").list.len() == 0, policy=pl.lit(policy.name), policy_hash=pl.lit(policy_hash(policy))
    )
    stamped = stamped.with_columns(pl.col("kept_by_screening").fill_null(pl.col("keep")))
    stamped = stamped.join(withheld, on=["item_kind", "item_id"], how="left")
    return stamped.select(frame_schema(Decision).names())


def _left(items: pl.DataFrame, *hits: pl.DataFrame, key: str = "conversation_id") -> pl.DataFrame:
    """The items that none of the fired rules drops or holds."""
    return items.filter(~pl.col(key).is_in(pl.concat(hits).filter(_STOPS)["item_id"].implode()))


def conversation_hits(known: StoredSignals, policy: Policy) -> _Hits:
    """Rules of the first pass that fire: those with scope conversation, and those with scope battle."""
    rules = [r for r in policy.rules if r.over is not Over.BATTLE and known.stands(r) and not describes(r)]
    stated = {Over.CONVERSATION: conversation_columns(known.conversations, policy)}
    hits = fired(rules, known.parts, known.signal, stated)
    return _by_scope(of_models(hits, rules, known.conversations, policy), rules)


def described_hits(known: StoredSignals, policy: Policy, kept: pl.DataFrame) -> _Hits:
    """Rules of the second pass that fire on the conversations that the first one keeps, in the form to be released."""
    rules = [rule for rule in policy.rules if known.stands(rule) and describes(rule)]
    redacted = known.redacted(policy).join(kept, on="conversation_id", how="semi")
    untouched = kept.join(redacted, on="conversation_id", how="anti")
    read = ["conversation_id", "turns", "image_ids", "prompt_id", "document_id"]
    released = pl.concat([untouched.select(read), redacted.select(read)])
    parts = known.parts_of(released) if rules else {}
    hits = fired(rules, parts, known.signal, {}, Step.DESCRIPTION)
    return _by_scope(of_models(hits, rules, known.conversations, policy), rules)


def _by_scope(hits: pl.DataFrame, rules: Sequence[Rule]) -> _Hits:
    alone = pl.col("place").is_in([place for place, rule in enumerate(rules) if rule.scope is Scope.BATTLE])
    return hits.filter(~alone), hits.filter(alone)


def _over_set(rule: RuleOverSet | None, items: Iterable[str]) -> pl.DataFrame:
    """A rule over the whole set as fired on these items; nothing when the policy has no such rule."""
    if rule is None:
        return pl.DataFrame(schema=FIRED)
    rows = [(item, Step.SET, 0, rule.reason, rule.action.value) for item in sorted(items)]
    return pl.DataFrame(rows, schema=FIRED, orient="row")


def _repeats(known: StoredSignals, survivors: pl.DataFrame, policy: Policy) -> Mapping[str, str]:
    """Conversation -> the one that it repeats."""
    if policy.duplicates is None:
        return {}
    image_of = known.image_of(survivors, policy.duplicates.images == "semantic")
    together = in_company(survivors, image_of, policy.duplicates)
    prompts, versions = together["prompt_id"], {"text_embedding": "", **known.versions}
    vectors = embeddings(known.store, "text_embedding", versions, prompts) if together.height else {}
    return duplicates_of(together, vectors, image_of, policy.duplicates)


def _near_prompts(known: StoredSignals, kept: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """The `near_prompts` table of the conversations that both passes keep."""
    if policy.near_prompts is None:
        return pl.DataFrame(schema=frame_schema(NearPrompt))
    asked, ids = ["conversation_id", "tstamp", "prompt_id", "turns"], kept["conversation_id"].implode()
    read = known.store.read_slices("conversations", asked)
    some = (with_whole_prompts(rows.filter(pl.col("conversation_id").is_in(ids))) for rows in read)
    return near_prompts(
        pl.concat([with_whole_prompts(known.store.empty("conversations", asked)), *some]),
        policy.near_prompts.jaccard_min,
    )


def _of_conversations(
    known: StoredSignals, hits: pl.DataFrame, repeats: Mapping[str, str], policy: Policy
) -> pl.DataFrame:
    """The decision on each conversation."""
    own = known.redacted(policy, ["conversation_id", "redactions"]).select("redactions", item_id="conversation_id")
    reasons = reasons_of(hits, known.items["conversation_id"])
    return reasons.join(own, on="item_id", how="left", maintain_order="left").with_columns(
        pl.col("redactions").fill_null(_NO_REDACTIONS),
        item_kind=pl.lit(ItemKind.CONVERSATION.value),
        duplicate_of=pl.col("item_id").replace_strict(repeats, default=None, return_dtype=pl.String),
        preset_dataset=known.items["preset_dataset"],
    )


def _of_battles(known: StoredSignals, hits: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """A battle is dropped when a rule stops either conversation, or by a battle rule. Duplicates do not drop battles.

    A conversation that was removed by a takedown counts as not measured.
    """
    battles = renamed(known.battles, policy.renames)
    rules = [rule for rule in policy.rules if rule.over is Over.BATTLE]
    stated = {Over.BATTLE: battle_columns(battles)}
    own = fired(rules, {}, lambda name: pl.DataFrame(), stated, Step.BATTLE)
    sides = pl.concat(battles.select("battle_id", item_id=side) for side in ("conversation_a", "conversation_b"))
    gone = sides.join(known.items, left_on="item_id", right_on="conversation_id", how="anti").with_columns(
        **hit_columns(Step.SCREENING, 0, "unmeasured_conversation", Action.DROP)
    )
    inherited = pl.concat([sides.join(hits, on="item_id"), gone.select("battle_id", *FIRED.names())])
    all_hits = pl.concat([inherited.drop("item_id").rename({"battle_id": "item_id"}), own])
    hot = _hot(known, _left(battles, all_hits, key="battle_id"), policy)
    all_hits = pl.concat([all_hits, _over_set(policy.hot_prompts, hot)])
    return reasons_of(all_hits, battles["battle_id"]).with_columns(
        item_kind=pl.lit(ItemKind.BATTLE.value),
        redactions=_NO_REDACTIONS,
        duplicate_of=pl.lit(None, pl.String),
        preset_dataset=pl.lit(None, pl.String),
    )


def _withheld_words(known: StoredSignals, policy: Policy) -> pl.DataFrame:
    """item_kind, item_id and `vote_reason_withheld` of the battles whose voters wrote something.

    Withheld by every rule over users' messages that drops, holds or redacts, and where they repeat what is redacted in
    the battle: words of a vote are not redacted. A rule about a signal that describes
    withholds them until it is measured.
    """
    written = known.battles.drop_nulls("vote_reason_id").select(item_id="battle_id", content_id="vote_reason_id")
    over = {Over.MESSAGES: written, Over.USER_MESSAGES: written}
    rules = [r for r in policy.rules if r.over in over and r.action is not Action.TAG and known.stands(r)]
    hits = fired(rules, over, lambda name: known.signal(name, ids=written["content_id"]), {})
    redacted = known.redacted(policy, ["conversation_id"])
    hits = pl.concat([hits, repeated_words(known.battles, known.rows_of, redacted, known.signal, policy)])
    reasons = reasons_of(hits.with_columns(action=pl.lit(Action.DROP.value)), written["item_id"])
    battle = pl.lit(ItemKind.BATTLE.value).alias("item_kind")
    return reasons.select(battle, "item_id", vote_reason_withheld="reasons")


def _hot(known: StoredSignals, survivors: pl.DataFrame, policy: Policy) -> list[str]:
    """Battles beyond the limit for their prompt."""
    rule = policy.hot_prompts
    if rule is None:
        return []
    left = known.items.select("conversation_id", "prompt_id", "image_ids")
    shown = survivors.select("battle_id", "tstamp", conversation_id="conversation_a").join(left, on="conversation_id")
    return hot_battles(shown, known.image_of(shown) if rule.images == "near" else {}, rule)
