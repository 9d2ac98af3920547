"""Whether what was redacted may be released: the same rules, asked about what is left."""

import polars as pl

from schemas.decision import Decision
from schemas.policy import Action, Policy
from tasks.decide.evidence import Evidence
from tasks.decide.redact import redact_rules
from tasks.decide.rules import FIRED, fired
from tasks.tables import frame_schema


def unproven(known: Evidence, hits: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Why conversations that need redacting may not be released.

    A finder that still finds something is `redaction_failed`; what it has not seen is not measured.
    """
    redacted = known.redacted(policy)
    left = fired(redact_rules(policy), known.parts_of(redacted), known.facts, {})
    found = pl.col("action") == Action.REDACT.value
    left = left.with_columns(
        reason=pl.when(found).then(pl.lit("redaction_failed")).otherwise("reason"),
        action=pl.lit(Action.DROP.value),
    )
    wanted = hits.filter(action=Action.REDACT.value).select("item_id").unique()
    missing = wanted.join(redacted, left_on="item_id", right_on="conversation_id", how="anti").select(
        "item_id", reason=pl.lit("unmeasured_redaction"), action=pl.lit(Action.DROP.value)
    )
    dropped = hits.filter(action=Action.DROP.value)
    unseen = missing.join(dropped, on="item_id", how="anti")  # nobody redacts what is dropped anyway
    place = pl.lit(len(policy.rules), pl.Int64).alias("place")
    return pl.concat(each.with_columns(place).select(FIRED.names()) for each in (left, unseen))


def redactions(known: Evidence, items: pl.DataFrame, policy: Policy) -> pl.Series:
    """What was taken out of each item."""
    own = known.redacted(policy).select("redactions", item_id="conversation_id")
    nothing = pl.lit([], dtype=frame_schema(Decision)["redactions"])
    joined = items.select("item_id").join(own, on="item_id", how="left", maintain_order="left")
    return joined.select(pl.col("redactions").fill_null(nothing))["redactions"]
