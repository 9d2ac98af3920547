"""How well the detectors that protect people do: recall, false alarms and over-blocking, each with its failures.

    python -m benchmarks.privacy_quality DATA [--labels CSV] [--provider CAPABILITY=NAME]

DATA holds images in any folders, and optionally `ocr-documents/receipts` (SROIE's), `text-pii/labelled.jsonl`
(presidio-research's form) and `text-safety/xstest.csv` (XSTest's). The labels say, by file below DATA, how high the
largest face is in pixels and of what kind: face, small (under 32 pixels), drawn, or hidden (cut off or turned away). An
image without a line has none. Small, drawn and hidden faces count neither as faces nor as images without.
"""

import argparse
import csv
import difflib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.privacy_spans import pii_figures
from schemas.policy import Over
from tasks.images.decode import ImageRejected, open_image
from tasks.policy.policy_file import load_policy
from tasks.policy.rules import MEASURED_ON, STOPS, fires
from tasks.providers import Providers
from tasks.signals.registry import signal_of
from tasks.signals.tag_evaluation import clopper_pearson

LABELS = Path(__file__).with_name("face_labels.csv")
FACE_PX_MIN = 32
IMAGES = {".jpg", ".jpeg", ".png", ".webp", ".bmp"}
_NUMBER = re.compile(r"\d(?:[\d.,:/-]*\d)?")
TEXTS = (Over.MESSAGES, Over.USER_MESSAGES, Over.PROMPT)


def figure(name: str, hits: int, n: int, failures: Iterable[str] = ()) -> dict[str, Any]:
    """One figure; printed with what went wrong."""
    share = clopper_pearson(hits, n)
    low, high = share.ci95_low or 0.0, 1.0 if share.ci95_high is None else share.ci95_high
    print(f"{name:44} {hits:5} of {n:5}  {hits / max(n, 1):7.4f}  [{low:.4f}, {high:.4f}]")
    for failure in failures:
        print(f"    {failure}")
    return {"bench": name, "n": n, "value": round(hits / max(n, 1), 4), "ci95_low": low, "ci95_high": high}


def image_figures(data: Path, labels: Path, providers: Providers) -> list[dict[str, Any]]:
    """Faces found and false, and images called pornographic at the preset's threshold."""
    drop = {rule.signal: rule.at_least for rule in load_policy("public_release").rules if rule.over is Over.IMAGES}
    with labels.open(encoding="utf-8") as lines:
        known = {row["file"]: (row["kind"], int(row["face_px"])) for row in csv.DictReader(lines)}
    signals = {name: signal_of(name, providers) for name in ("faces", "nsfw")}
    rows = []
    for file in sorted(each for each in data.rglob("*") if each.suffix.lower() in IMAGES):
        name = file.relative_to(data).as_posix()
        if name.startswith("arena-logs"):  # copies of the others
            continue
        try:
            image = open_image(file.read_bytes())
        except ImageRejected:
            continue
        (faces,), (nsfw,) = (signals[each].values([image]) for each in ("faces", "nsfw"))
        kind, face_px = known.get(name, ("none", 0))
        rows.append((name, kind, face_px, faces.confidence_max, nsfw.nsfw_probability))
    with_face = [row for row in rows if row[1] == "face" and row[2] >= FACE_PX_MIN]
    without = [row for row in rows if row[1] == "none"]
    threshold, pornographic = drop["faces.confidence_max"], drop["nsfw.nsfw_probability"]
    found = [row for row in with_face if row[3] >= threshold]
    false = [row for row in without if row[3] >= threshold]
    flagged = [row for row in rows if row[4] >= pornographic]
    return [
        figure("faces: recall, at least 32 px", len(found), len(with_face), _seen(set(with_face) - set(found))),
        figure("faces: false alarms", len(false), len(without), _seen(false)),
        *(_share_found(kind, [row for row in rows if row[1] == kind], threshold) for kind in ("small", "drawn")),
        figure("nsfw: false alarms on harmless images", len(flagged), len(rows), (r[0] for r in flagged)),
    ]


def _share_found(kind: str, rows: Sequence[tuple[str, str, int, float, float]], threshold: float) -> dict[str, Any]:
    return figure(f"faces: {kind} ones found (no goal)", sum(row[3] >= threshold for row in rows), len(rows))


def _seen(rows: Iterable[tuple[str, str, int, float, float]]) -> list[str]:
    return [f"{name}: {face_px} px, confidence {confidence:.2f}" for name, _, face_px, confidence, _ in sorted(rows)]


def text_figures(receipts: Path, providers: Providers) -> list[dict[str, Any]]:
    """Characters and numbers of receipts (SROIE's lines: eight corners and the text) that are read, in any case."""
    characters, numbers = [0, 0], [0, 0]
    for file in sorted(receipts.glob("*.box.csv")):
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        written = "\n".join(line.split(",", 8)[-1] for line in lines).casefold()
        read = (
            providers["image_text"]
            .read([open_image((receipts / file.name.replace(".box.csv", ".jpg")).read_bytes())])[0]
            .text.casefold()
        )
        there, found = re.sub(r"\s", "", written), re.sub(r"\s", "", read)
        matched = difflib.SequenceMatcher(None, there, found, autojunk=False).get_matching_blocks()
        characters = [characters[0] + sum(block.size for block in matched), characters[1] + len(there)]
        wanted, left = Counter(_NUMBER.findall(written)), Counter(_NUMBER.findall(read))
        numbers = [numbers[0] + (wanted & left).total(), numbers[1] + wanted.total()]
    return [
        figure("image text: characters of receipts", *characters),
        figure("image text: numbers of receipts", *numbers),
    ]


def _prompts(file: Path, label: str) -> list[str]:
    with file.open(encoding="utf-8") as lines:
        return [row["prompt"] for row in csv.DictReader(lines) if row["label"] == label]


def offensive(file: Path, providers: Providers) -> list[dict[str, Any]]:
    """Safe and unsafe prompts that `public_release` tags for their words."""
    least = next(rule.at_least for rule in load_policy("internal").rules if rule.reason == "offensive_words")
    figures = []
    for label in ("safe", "unsafe"):
        prompts = _prompts(file, label)
        values = signal_of("moderation", providers).values(prompts)
        tagged = [p for p, value in zip(prompts, values, strict=True) if value.flagged_probability >= least]
        figures.append(figure(f"moderation: {label} prompts tagged", len(tagged), len(prompts), tagged))
    return figures


def over_blocking(file: Path, providers: Providers) -> list[dict[str, Any]]:
    """Safe prompts that a rule of `public_release` over texts would keep from being released."""
    prompts = _prompts(file, "safe")
    stopped: dict[str, list[str]] = {}
    for rule in load_policy("public_release").rules:
        signal, _, column = rule.signal.partition(".")
        if rule.over not in TEXTS or rule.action.value not in STOPS or signal not in MEASURED_ON:
            continue
        values = signal_of(signal, providers).values(prompts)
        frame = pl.DataFrame({"prompt": prompts, "value": [value.model_dump()[column] for value in values]})
        for prompt in frame.filter(fires(rule).fill_null(False))["prompt"]:
            stopped.setdefault(prompt, []).append(rule.reason)
    return [
        figure("texts: safe prompts blocked", len(stopped), len(prompts), (f"{p}: {r}" for p, r in stopped.items()))
    ]


def main(data: Path, labels: Path, chosen: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every figure that the data allows."""
    providers = Providers(chosen)
    figures = image_figures(data, labels, providers)
    sentences, prompts = data / "text-pii" / "labelled.jsonl", data / "text-safety" / "xstest.csv"
    if (receipts := data / "ocr-documents" / "receipts").is_dir():
        figures += text_figures(receipts, providers)
    if sentences.is_file():
        rows = [json.loads(line) for line in sentences.read_text(encoding="utf-8").splitlines()]
        figures += [figure(*row) for row in pii_figures(rows, providers["text_pii"])]
    if prompts.is_file():
        figures += over_blocking(prompts, providers) + offensive(prompts, providers)
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.privacy_quality", description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--labels", type=Path, default=LABELS)
    parser.add_argument("--provider", action="append", default=[], help="CAPABILITY=NAME; repeatable")
    given = parser.parse_args()
    if not given.data.is_dir():
        parser.error(f"DATA {str(given.data)!r} is no folder; give one with images or labelled texts below it")
    main(given.data, given.labels, dict(each.split("=", 1) for each in given.provider))
