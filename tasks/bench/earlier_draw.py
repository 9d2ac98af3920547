"""Says how the benchmark goes on when only the policy has changed: its prompts stay, and those it lost are replaced.

The tables `bench` and `bench_draws` are what the earlier draw left. What is drawn with another fit of topics, other
settings or another seed, or under the policy of the earlier draw, depends on nothing earlier.
"""

import hashlib
from collections import Counter
from dataclasses import dataclass

import polars as pl

from schemas.benches.bench import BenchDraw
from schemas.settings import BenchSettings, Settings
from tasks.storage.queries.bench import fit_in_use
from tasks.storage.queries.released import decided_hash
from tasks.storage.tables import Store

DRAWS = "bench_draws"
_OF_OTHERS = {name for name in BenchSettings.model_fields if name.startswith(("hidden_", "failure_"))}
"""Settings that are not about the public split."""
ASKED_ID = pl.coalesce("asked_id", "document_id")
"""Content id of a kept conversation's prompt with its images before redaction: no policy changes it."""


@dataclass(frozen=True)
class EarlierDraw:
    """A draw that stays."""

    about: BenchDraw
    prompts: pl.DataFrame
    """conversation_id, topic and asked_id of what is left of it; a takedown removes rows."""

    def first(self, kept: pl.DataFrame) -> pl.DataFrame:
        """The kept conversations with those on prompts of this draw first, of each prompt the drawn one first."""
        drawn = ASKED_ID.is_in(self.prompts["asked_id"].implode())
        itself = pl.col("conversation_id").is_in(self.prompts["conversation_id"].implode())
        return kept.sort(drawn, itself, descending=True, maintain_order=True)

    def seats(self, pool: pl.DataFrame) -> Counter[int]:
        """Prompts that each topic had; `pool` has asked_id and topic of the prompts that may be drawn now."""
        now = self.prompts.join(pool.select("asked_id", now="topic"), on="asked_id", how="left")
        return Counter(now.select(pl.coalesce("now", "topic")).to_series().to_list())


def draw_now(store: Store, settings: Settings) -> BenchDraw:
    """Key of a draw that is made now; its `prompts` are not known yet."""
    fit, chosen = fit_in_use(store), settings.bench.model_dump_json(exclude=_OF_OTHERS)
    made_of = f"{fit.model if fit else None} {settings.seed} {chosen}"
    drawn_from = hashlib.blake2b(made_of.encode(), digest_size=8).hexdigest()
    return BenchDraw(drawn_from=drawn_from, policy_hash=decided_hash(store), prompts=0)


_DRAWN = """
    -- a row is one drawn conversation that is still there, with its document as it was logged
    SELECT conversation_id, conversations.document_id AS asked_id, bench.topic
    FROM conversations JOIN bench USING (conversation_id)
    ORDER BY conversation_id
"""


def earlier_draw(store: Store, now: BenchDraw) -> EarlierDraw | None:
    """The store's draw, if only the policy is another than `now`; None when the benchmark is drawn anew."""
    same = store.read(DRAWS).filter(drawn_from=now.drawn_from)
    about = [BenchDraw(**row) for row in same.iter_rows(named=True) if row["policy_hash"] != now.policy_hash]
    if not about:
        return None
    return EarlierDraw(about[0], store.ask(_DRAWN))
