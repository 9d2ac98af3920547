"""Prompts that several people saw fail, the type of each failure, and how often each model fails prompts of a type.

In: kept battles, their prompts, what people, moderation and the tagger say of them. Out: the rows of `failures`,
`failure_rates` and `failure_marks`. The step `find_failures` of bench/steps.py calls these functions in their order and
writes the tables.
"""

from collections.abc import Mapping

import polars as pl

from schemas.benches.bench import Failure, FailureRate, FailureType
from schemas.items.conversation import Winner
from schemas.items.review import QueueName
from tasks.bench.draw import draw
from tasks.storage.queries.released import released_names, require_redactions, unsafe_documents
from tasks.storage.queries.signals import Versions, signal_values, versions_in_use
from tasks.storage.reviews import reviews_of
from tasks.storage.tables import Store, frame_schema

_TAGGER = "failure_types"
"""Signal of a tagger that is asked for the type."""
UNDECIDED, ALL = "undecided", "all"
BOTH_BAD = pl.col("winner") == Winner.BOTH_BAD.value
_OTHER_MEANINGS = r"""(?xi)
    \b right \s+ (?: now | away | here | ahead | side \s+ of \s+ history )\b
    | \b (?: on | to | at | in ) \s+ the \s+ right \s+ (?: track | path | foot | page | place | time | moment | way
        | order | answers? | solution | conclusion | choice | words? | things? | persons? | people | course | road
        | direction | level | angle | price | speed | temperature | topic )\b
    | \b (?: what (?: 's | \s+ is | \s+ was | \s+ are )? | nothing | anything | something ) \s+ left \b
    | \b how \s+ (?: much | many ) (?: \s+ \w+ )? \s+ (?: is | are | was | were ) \s+ left \b
    | \b (?: meaning | ideas? | story | reason (?: s | ing )? | logic | concept | history | science | message | joke
        | intention | thoughts? | theory | motivation | symbolism ) \s+ behind \b
    | \b beside \s+ the \s+ point \b
"""
"""Phrases in which a word of `_SPATIAL_PHRASES` is about no place: "on the right track", "what is left of it"."""
_SPATIAL_PHRASES = r"""(?xi) \b (?:
    (?: on | to | at | from | towards? ) \s+ (?: the | its | his | her | their | my | your | our ) \s+ (?: far \s+ )?
        (?: left | right )
    | (?: on | from | at | to ) \s+ left
    | (?: on | from ) \s+ right
    | (?: upper | top | lower | bottom | middle | cent (?: er | re ) ) [\s-]+ (?: left | right )
    | (?: left | right ) (?: most | wards? )
    | (?: left | right ) [\s-]+ (?: side | hand | half | corner | edge | margin | border | end | panel | column | lane
        | wheel | turn | arm | leg | foot | eye | ear | wing | shoulder | knee ) s?
    | left \s+ (?: image | picture | photo | figure | graph | one )
    | (?: turn | fac | point | mov ) (?: e | s | es | ed | ing )?
        \s+ (?: left | right )
    | left \s* (?: \s or | \s and | \s to | \s vs\.? | \s versus | , | / | & ) \s* right
    | right \s* (?: \s or | \s and | \s to | \s vs\.? | \s versus | , | / | & ) \s* left
    | left \s+ of \s+ (?: the | a | an | it | him | her | them | his | its | their | my | your | this | that )
    | (?: above | below ) \s+
        (?: the | a | an | it | him | her | them | his | its | their | my | your | this | that | each )
    | (?: from | directly | just | right | immediately ) \s+ (?: above | below )
    | (?: above | below ) \s+ (?: and | or ) \s+ (?: above | below )
    | behind | in \s+ front | beside | direction | from \s+ the \s+ side
    | upside | rotat\w* | mirror\w* | fold\w*
) \b """
"""Phrases of prompts about places and views in space; linear in the length of the prompt.

`left`, `right`, `above` and `below` alone are more often about other things: "is that right?", "the text above".
"""
_OF_SUBCATEGORY = {
    "Mathematical Reasoning": FailureType.VISUAL_REASONING,
    "Data Analysis": FailureType.VISUAL_REASONING,
    "Problem Solving": FailureType.VISUAL_REASONING,
    "Comparative Analysis": FailureType.VISUAL_REASONING,
    "Attribute-based Question Answering": FailureType.VISUAL_REASONING,
    "Meme Comprehension": FailureType.CONTEXTUAL_UNDERSTANDING,
    "Cultural Analysis": FailureType.CONTEXTUAL_UNDERSTANDING,
    "Emotion Recognition": FailureType.CONTEXTUAL_UNDERSTANDING,
}
_OF_CATEGORY = {"Recognition": FailureType.VISUAL_RECOGNITION, "Descriptive": FailureType.VISUAL_RECOGNITION}
_NOBODY = pl.DataFrame(schema={"document_id": pl.String, "failure_type": pl.String})
_NO_EXPERTISE = "Art and Design"
"""The subdomain of Expert images that takes no knowledge of a field to ask about."""


_KEPT_BATTLES = """
    -- a row is one kept battle whose left side is kept, too, with the document of that side; earliest first
    SELECT
        battle_id, conversation_a, battles.model_a, battles.model_b, winner, judge, battles.tstamp, kept.document_id
    FROM battles
    JOIN (SELECT item_id AS battle_id FROM decisions WHERE item_kind = 'battle' AND keep) AS decided USING (battle_id)
    JOIN kept ON conversation_a = kept.conversation_id
    ORDER BY battles.tstamp, battle_id
"""
_PROMPTS = """
    -- a row is one kept conversation on one of the wanted documents, and its prompt
    SELECT document_id, prompt
    FROM prompts
    JOIN (SELECT conversation_id, document_id FROM kept SEMI JOIN wanted USING (document_id)) AS on_documents
        USING (conversation_id)
"""
_LABELS = """
    -- a row is one of the wanted documents, if one of its labels was measured
    SELECT * FROM document_facts SEMI JOIN wanted USING (document_id)
"""


def is_spatial(prompt: pl.Expr) -> pl.Expr:
    """Whether a prompt is about places and views in space."""
    return prompt.str.replace_all(_OTHER_MEANINGS, " ").str.contains(_SPATIAL_PHRASES)


def kept_battles(store: Store) -> pl.DataFrame:
    """Kept battles under released names, by time, with the `document_id` of their left side, which is kept too."""
    require_redactions(store)
    return released_names(store, pl.concat(store.batches(_KEPT_BATTLES)))


def described_prompts(store: Store, documents: pl.Series, versions: Versions) -> pl.DataFrame:
    """Every `document_id` of kept conversations among `documents`, the columns of categories and taxonomy.

    `spatial`: the prompt is about places and views in space. `unsafe`: moderation flags a message of a conversation on
    the prompt or did not measure one, or a rule about safety fired there and only tagged it.
    """
    document_rows = pl.DataFrame({"document_id": documents.unique()}, schema={"document_id": pl.String})
    # A row is a document; the prompt is the same in all conversations on it.
    prompts = pl.concat(
        rows.select("document_id", spatial=is_spatial(pl.col("prompt")))
        for rows in store.batches(_PROMPTS, wanted=document_rows)
    ).unique("document_id", keep="first", maintain_order=True)
    labels = pl.concat(store.batches(_LABELS, versions=versions_in_use(versions), wanted=prompts))
    unsafe = unsafe_documents(store, prompts["document_id"], versions)
    described = prompts.join(labels, on="document_id", how="left", maintain_order="left")
    return described.with_columns(unsafe=pl.col("document_id").is_in(unsafe.implode()))


def said_by_tagger(store: Store, failures: pl.DataFrame, versions: Versions) -> pl.DataFrame:
    """`failures` with `tagger` and `tagged`: the tagger's name and its type, null where not asked or undecided.

    Without a chosen tagger the columns are missing.
    """
    version = versions.get(_TAGGER)
    if version is None:
        return failures
    tagged_rows = signal_values(store, _TAGGER, version, ["failure_type", "provider"], failures["document_id"])
    tagged_rows = tagged_rows.select(document_id="content_id", tagged="failure_type", tagger="provider")
    return failures.join(tagged_rows, on="document_id", how="left", maintain_order="left")


def types_of_reviewers(store: Store) -> pl.DataFrame:
    """document_id and failure_type of the failures that people decided; the last verdict counts."""
    verdicts = reviews_of(store).filter(queue=QueueName.FAILURES.value).sort("reviewed_at", maintain_order=True)
    return verdicts.unique("item_id", keep="last").select(document_id="item_id", failure_type="verdict")


def failure_pool(battles: pl.DataFrame, judges_min: int) -> pl.DataFrame:
    """The prompts that at least `judges_min` people voted both bad, with the columns of `Failure` but types and draw.

    `battles`: kept ones, by time, with the `document_id` of their prompt. Votes without a voter count nowhere here, not
    in `both_bad` either: they may all be of one person. `failure_rates` and `failure_marks` are about models, not about
    how many people saw a failure, and count them.
    """
    seats = pl.concat_list("model_a", "model_b")
    failed = battles.filter(BOTH_BAD & pl.col("judge").is_not_null())
    by_prompt = failed.group_by("document_id", maintain_order=True).agg(
        pl.col("conversation_a").first().alias("conversation_id"),
        judges=pl.col("judge").n_unique().cast(pl.Int32),
        both_bad=pl.len().cast(pl.Int32),
        models=seats.explode().unique().sort(),
    )
    return by_prompt.filter(pl.col("judges") >= judges_min)


def typed(failures: pl.DataFrame, reviews: pl.DataFrame) -> pl.DataFrame:
    """Add `failure_type`, `reviewed` and `typed_by`.

    `failures` has spatial, unsafe, the columns of categories and taxonomy and, with a chosen tagger, tagged and tagger.
    A reviewer decides first, then moderation (safety), then the tagger; without a tagger the rule.
    """
    type_of_source = {
        "reviewer": pl.col("told"),
        "moderation": pl.when("unsafe").then(pl.lit(FailureType.SAFETY.value)),
    }
    type_of_source |= {"tagger": pl.col("tagged")} if "tagged" in failures.columns else {"rule": _rule()}
    with_reviews = failures.join(
        reviews.rename({"failure_type": "told"}), on="document_id", how="left", maintain_order="left"
    )
    who = [
        pl.when(kind.is_not_null()).then(pl.col("tagger") if name == "tagger" else pl.lit(name))
        for name, kind in type_of_source.items()
    ]
    return with_reviews.with_columns(
        failure_type=pl.coalesce(type_of_source.values()),
        reviewed=pl.col("told").is_not_null(),
        typed_by=pl.coalesce(who),
    )


def _rule() -> pl.Expr:
    """In order: space, expert image and a question that is analytical, taxonomy, text to read.

    Hallucinations cannot be told from words and tags of a prompt.
    """
    analytical = pl.col("question_category").is_in(["Analytical", "Instructive"])
    expert = (pl.col("image_domain") == "Expert") & (pl.col("image_subdomain").fill_null("") != _NO_EXPERTISE)
    return pl.coalesce(
        pl.when("spatial").then(pl.lit(FailureType.SPATIAL_IMAGINATION.value)),
        pl.when(expert & analytical & ~pl.col("homework").fill_null(False)).then(
            pl.lit(FailureType.EXPERT_DOMAIN_KNOWLEDGE.value)
        ),
        _named("question_subcategory", _OF_SUBCATEGORY),
        pl.when(pl.col("humor")).then(pl.lit(FailureType.CONTEXTUAL_UNDERSTANDING.value)),
        pl.when(pl.col("homework")).then(pl.lit(FailureType.VISUAL_REASONING.value)),
        _named("question_category", _OF_CATEGORY),
        pl.when(pl.col("ocr")).then(pl.lit(FailureType.VISUAL_RECOGNITION.value)),
    )


def _named(column: str, types: Mapping[str, FailureType]) -> pl.Expr:
    values = {name: kind.value for name, kind in types.items()}
    return pl.col(column).replace_strict(values, default=None, return_dtype=pl.String)


def failure_set(failures: pl.DataFrame, size: int, seed: int) -> pl.DataFrame:
    """Rows of `Failure`: at most `size` drawn evenly over types, undecided ones as a type of their own, none unsafe."""
    kinds = [*(kind.value for kind in FailureType if kind is not FailureType.SAFETY), UNDECIDED]
    kind = pl.col("failure_type").fill_null(UNDECIDED)
    safe = failures.filter(~pl.col("unsafe") & (kind != FailureType.SAFETY.value))
    members = {n: safe.filter(kind == name)["document_id"].sort().to_list() for n, name in enumerate(kinds)}
    documents_of_type = {n: documents for n, documents in members.items() if documents}
    chosen = [document for documents in draw(documents_of_type, size, seed).values() for document in documents]
    marked = failures.with_columns(drawn=pl.col("document_id").is_in(chosen))
    return marked.select(frame_schema(Failure).names()).sort("document_id")


def failure_rates(battles: pl.DataFrame, prompts: pl.DataFrame) -> pl.DataFrame:
    """Rows of `FailureRate` over all battles, by model and type of prompt. `battles` as for `failure_pool`.

    `prompts`: `described_prompts`. Moderation and the rule say what type every one of them is, failed or not: people
    and taggers were asked about failures alone, and their types would put failures only into the rate. So the type of a
    failure in `failures` may be another.
    """
    kinds = typed(prompts, _NOBODY).select("document_id", pl.col("failure_type").fill_null(UNDECIDED))
    seen = battles.join(kinds, on="document_id")
    sides = pl.concat(seen.select("failure_type", "winner", model=side) for side in ("model_a", "model_b"))
    both = pl.concat([sides, sides.with_columns(failure_type=pl.lit(ALL))])
    counted = both.group_by("model", "failure_type").agg(
        battles=pl.len().cast(pl.Int64), both_bad=BOTH_BAD.sum().cast(pl.Int64)
    )
    rate = pl.col("both_bad") / pl.col("battles")
    return counted.with_columns(error_rate=rate).select(frame_schema(FailureRate).names())


def failure_marks(battles: pl.DataFrame, failures: pl.DataFrame) -> pl.DataFrame:
    """Rows of `FailureMark`: every model that people voted on at a drawn failure. `battles` as for `failure_pool`."""
    drawn = failures.filter("drawn").select("document_id", "conversation_id")
    seen = battles.select("document_id", "winner", "model_a", "model_b").join(drawn, on="document_id")
    sides = pl.concat(seen.select("document_id", "conversation_id", "winner", model=s) for s in ("model_a", "model_b"))
    counts = {"votes": pl.len().cast(pl.Int32), "both_bad": BOTH_BAD.sum().cast(pl.Int32)}
    return sides.group_by("document_id", "conversation_id", "model").agg(**counts)
