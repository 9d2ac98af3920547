"""How often the embedded judge agrees with decisive human votes; a tie counts half. Peer: the longer answer is better.

    python -m benchmarks.judging.stand_in_judge DATA

DATA is llmfao's: answers.jsonl (prompt, model, result) and human-votes.csv (prompt, model_x, model_y, winner).
"""

import argparse
import json
from pathlib import Path

import polars as pl

from schemas.benches.judging import Label
from tasks.judging.stand_ins import closeness, label_of
from tasks.providers import Providers

_LEFT = (Label.A_MUCH_BETTER, Label.A_BETTER)


def agreement(folder: Path, prompts_max: int | None = None) -> dict[str, float]:
    """Votes, and the share that agrees: `ours`, and `longer`; with `prompts_max`, only of those with most votes."""
    votes = pl.read_csv(folder / "human-votes.csv").filter(pl.col("winner") != "tie")
    chosen = votes["prompt"].value_counts(sort=True)["prompt"].to_list()[:prompts_max]
    rows = [json.loads(line) for line in (folder / "answers.jsonl").read_text(encoding="utf-8").splitlines()]
    close, length = dict[tuple[int, int], float](), dict[tuple[int, int], int]()
    for prompt in chosen:
        said = {(prompt, row["model"]): str(row["result"]) for row in rows if row["prompt"] == prompt}
        close |= zip(said, closeness(list(said.values()), "", Providers()["text_embedding"]), strict=True)
        length |= {key: len(text) for key, text in said.items()}
    votes = votes.filter(pl.col("prompt").is_in(chosen))
    ours = longer = 0.0
    for prompt, x, y, winner in votes.select("prompt", "model_x", "model_y", "winner").iter_rows():
        label = label_of(close[prompt, x], close[prompt, y])
        ours += 0.5 if label is Label.TIE else (label in _LEFT) == (winner == "left")
        gap = length[prompt, x] - length[prompt, y]
        longer += 0.5 if gap == 0 else (gap > 0) == (winner == "left")
    return {"n": votes.height, "ours": round(ours / votes.height, 3), "longer": round(longer / votes.height, 3)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    print(json.dumps({"bench": "stand_in_judge", **agreement(parser.parse_args().data)}))
