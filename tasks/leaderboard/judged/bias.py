"""How far to trust a judge: verdicts that flip with the order, its preferred seat, and models of its own vendor."""

import re

import polars as pl

from schemas.judging import JudgeBias

_VENDORS = {
    "OpenAI": r"gpt|chatgpt|o[134]\b|davinci",
    "Anthropic": "claude",
    "Google": "gemini|gemma|palm|paligemma",
    "Meta": r"llama-?\d|meta-llama",
    "Alibaba": "qwen|qvq",
    "Mistral": "mi[sx]tral|pixtral",
    "DeepSeek": "deepseek",
    "Reka": "reka",
    "01.AI": "yi-",
    "xAI": "grok",
    "Shanghai AI Lab": "internvl|internlm",
    "Microsoft": r"phi-?\d",
    "Amazon": "nova-|amazon",
}
"""Vendor -> how names of its models begin, after an organisation and a slash."""


def vendor(model: str) -> str | None:
    """The vendor of a model, by its name."""
    name = model.rpartition("/")[2].lower()
    return next((vendor for vendor, begins in _VENDORS.items() if re.match(begins, name)), None)


def same_vendor(judge: str, model: str) -> bool:
    """Whether judge and model are of one vendor, as far as their names tell."""
    return vendor(judge) is not None and vendor(judge) == vendor(model)


def judge_bias(told: pl.DataFrame, judge: str, baseline: str) -> JudgeBias:
    """`JudgeBias` of `outcomes`, which may have a column fenced_marks."""
    models = told.filter(pl.col("model") != baseline)
    first = pl.when(pl.col("model_a") == pl.col("model")).then("outcome").otherwise(-pl.col("outcome"))
    seats = models.drop_nulls("outcome").with_columns(first=first.sign())
    pairs = seats.group_by("question_id", "model").agg(orders=pl.len(), first=pl.col("first"))
    both = pairs.filter(pl.col("orders") == 2)
    sides = both["first"].list.sum().abs()
    decisive = both["first"].explode().drop_nulls().cast(pl.Int64)
    decisive = decisive.filter(decisive != 0)
    flipped = int((sides == 2).sum())
    return JudgeBias(
        judge=judge,
        verdicts=seats.height,
        no_verdicts=models.height - seats.height,
        both_orders=both.height,
        flipped=flipped,
        flipped_fraction=flipped / both.height if both.height else None,
        first_seat_fraction=float((decisive > 0).sum()) / len(decisive) if len(decisive) else None,
        same_vendor=sorted(name for name in {*models["model"], baseline} if same_vendor(judge, name)),
        fenced_marks=int(told["fenced_marks"].sum()) if "fenced_marks" in told.columns else 0,
    )
