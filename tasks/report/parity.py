"""The section that sets the policy's counts beside upstream's."""

import polars as pl

from schemas.decision import ALL_DROPS
from tasks.report.figures import shares
from tasks.report.part import Part
from tasks.tables import Store

_ABOUT = (
    "How many conversations and battles each rule fires on, dropping or not, and how many FastChat's cleaner finds "
    "(policy upstream, the same facts, with or without pictures; its rules about votes are counted on conversations "
    "too). Rules are the same when their names are. The figure splits what either finds, for rules that upstream has."
)


def parity_part(store: Store) -> Part | None:
    """The section; none where nothing was decided."""
    table = store.read("rule_parity")
    if table.is_empty():
        return None
    larger = pl.max_horizontal("ours", "upstream")
    ordered = table.sort(
        "item_kind", pl.col("reason") == ALL_DROPS, larger, "reason", descending=[False, True, True, False]
    )
    shared = ordered.filter(pl.col("upstream") > 0) if (table["upstream"] > 0).any() else ordered
    names = [f"{reason} ({kind})" for kind, reason in shared.select("item_kind", "reason").iter_rows()]
    either = pl.sum_horizontal("only_ours", "both", "only_upstream")
    parts = {name.replace("_", " "): shared[name] / shared.select(either).to_series() for name in _PARTS}
    figure = shares(names, {name: values.to_list() for name, values in parts.items()}, "% of what either finds")
    return Part("rule_parity", "Our rules and upstream's", _ABOUT, ordered, figure, show_table=True)


_PARTS = ("only_ours", "both", "only_upstream")
