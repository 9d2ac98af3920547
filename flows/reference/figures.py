"""The page benchmarks/README.md: every figure, from `results.jsonl` and the recall of the embedded models."""

import json
from pathlib import Path
from typing import Any

from flows.reference.fields import page_with, table
from tasks.providers import EMBEDDED_RECALL

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results.jsonl"


def measured_figures() -> str:
    """The page in Markdown."""
    rows = [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]
    beside = [row for row in rows if "ratio" in row]
    others = [row for row in rows if "ratio" not in row]
    parts = {
        "PEERS": table(("benchmark", "n", "ours, s", "peer", "peer, s", "ratio"), map(_beside, beside)),
        "OTHERS": table(("benchmark", "n", "figures"), ((r["bench"], f"{r['n']:,}", _rest(r)) for r in others)),
        "RECALL": table(("capability", "measured"), ((f"`{name}`", line) for name, line in EMBEDDED_RECALL.items())),
    }
    return page_with("figures.md", parts)


def _beside(row: dict[str, Any]) -> tuple[str, ...]:
    seconds = (f"{row[name]:.3g}" if row[name] < 1000 else f"{row[name]:,.0f}" for name in ("ours_s", "peer_s"))
    ours, theirs = seconds
    return row["bench"], f"{row['n']:,}", ours, row["peer"], theirs, f"{row['ratio']:.3g}"


def _rest(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_short(value)}" for name, value in row.items() if name not in ("bench", "n", "peer"))


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{name} {_short(each)}" for name, each in value.items()) + ")"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
