"""How well the detectors that protect people do: recall, false alarms and over-blocking, each with its failures.

    python -m benchmarks.privacy_quality DATA [--labels CSV] [--provider CAPABILITY=NAME]
    python -m benchmarks.privacy_quality DATA --mirrored [FOLDER…]

DATA holds images in any folders, and optionally `ocr-documents/receipts` (SROIE's), `text-pii/labelled.jsonl`
(presidio-research's form) and `text-safety/xstest.csv` (XSTest's). The labels say, by file below DATA, how high the
largest face is in pixels and of what kind: face, small (under 32 pixels), drawn, or hidden (cut off or turned away). An
image without a line has none. Small, drawn and hidden faces count neither as faces nor as images without. With
--mirrored only: what reading one or two lines mirrored finds and costs, in folders of DATA and on drawn lines.
"""

import argparse
import csv
import difflib
import io
import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import PIL.Image
import PIL.ImageDraw
import PIL.ImageOps
import polars as pl

from benchmarks import spelling_values
from schemas.policy import Over
from schemas.signals import PiiSpan
from tasks.images.decode import DecodedImage, ImageRejected, open_image
from tasks.policy.policy_file import load_policy
from tasks.policy.rules import MEASURED_ON, STOPS, fires
from tasks.providers import Providers
from tasks.providers.capabilities import PiiFinder
from tasks.providers.embedded import image_text
from tasks.runtime.shares import clopper_pearson
from tasks.signals.registry import signal_of

TYPES = {
    "EMAIL_ADDRESS": "email",
    "PHONE_NUMBER": "phone",
    "CREDIT_CARD": "card",
    "IBAN_CODE": "iban",
    "IP_ADDRESS": "ip",
    "US_SSN": "national_id",
    "US_DRIVER_LICENSE": "national_id",
    "PERSON": "person",
    "STREET_ADDRESS": "address",
}
"""Label -> our type."""
BESIDE = {"GPE": "address", "ZIP_CODE": "address"}
"""Labels that may lie within a finding of the type without being counted as found."""
STRUCTURED = ("email", "phone", "card", "iban", "ip", "national_id")

Label = Mapping[str, Any]
Figure = tuple[str, int, int, list[str]]


def pii_figures(rows: Sequence[Mapping[str, Any]], finder: PiiFinder) -> Iterator[Figure]:
    """Name, hits, number and failures of each figure.

    A label is found when findings of its type cover half of its characters, and a finding is right when labels of its
    type cover half of it; town and postal code beside a street belong to an address.
    """
    found = list(zip(rows, finder.find_pii([row["full_text"] for row in rows]), strict=True))
    labels = [(TYPES[each["entity_type"]], _recalled(each, spans), _shown(row, *_place(each))) for row, spans in found
              for each in row["spans"] if each["entity_type"] in TYPES]  # fmt: skip
    findings = [(span.type, _right(span, row["spans"]), _shown(row, span.start, span.end)) for row, spans in found
                for span in spans if span.type in TYPES.values()]  # fmt: skip
    for name, kinds in [("structured", STRUCTURED), *((kind, (kind,)) for kind in dict.fromkeys(TYPES.values()))]:
        for measure, judged in (("recall", labels), ("precision", findings)):
            of_kind = [(good, text) for kind, good, text in judged if kind in kinds]
            wrong = [] if name == "structured" else [text for good, text in of_kind if not good]
            yield f"pii {name}: {measure}", sum(good for good, _ in of_kind), len(of_kind), wrong


def _place(label: Label) -> tuple[int, int]:
    return int(label["start_position"]), int(label["end_position"])


def _recalled(label: Label, spans: Sequence[PiiSpan]) -> bool:
    start, end = _place(label)
    same = [(span.start, span.end) for span in spans if span.type == TYPES[label["entity_type"]]]
    return 2 * _covered(start, end, same) >= end - start


def _right(span: PiiSpan, labels: Sequence[Label]) -> bool:
    own = [_place(each) for each in labels if TYPES.get(each["entity_type"]) == span.type]
    beside = [_place(each) for each in labels if BESIDE.get(each["entity_type"]) == span.type]
    covered = _covered(span.start, span.end, own)
    return covered > 0 and 2 * (covered + _covered(span.start, span.end, beside)) >= span.end - span.start


def _covered(start: int, end: int, stretches: Sequence[tuple[int, int]]) -> int:
    return sum(max(0, min(end, right) - max(start, left)) for left, right in stretches)


def _shown(row: Mapping[str, Any], start: int, end: int) -> str:
    text = row["full_text"]
    return repr(f"{text[max(0, start - 20) : start]}[{text[start:end]}]{text[end : end + 15]}")


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
        if name.startswith(("arena-logs", "tag-labels")):  # copies of the others; faces in them are not labelled
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


MIRRORED = ("drawn", "photos", "charts-maps-diagrams")
DRAWN = 50


def mirrored_figures(data: Path, names: Sequence[str], providers: Providers) -> list[dict[str, Any]]:
    """Images that give personal data, with one or two lines read mirrored too and without, and what that costs.

    `names`: folders of DATA, or `drawn`, which is images of one or two lines, mirrored or flipped, one of them an
    address of mail.
    """
    drop = next(rule.contains_any for rule in load_policy("public_release").rules if rule.reason == "pii_image")
    draw, figures = random.Random("mirrored"), []
    drawn = [drawn_lines(draw, number) for number in range(DRAWN)]
    providers["image_text"].read(drawn[:1])  # loads the model
    for name in names:
        files = sorted(file for file in (data / name).rglob("*") if file.suffix.lower() in IMAGES)
        of_set = [open_image(file.read_bytes()) for file in files] or drawn
        read = _read_with_and_without(of_set, providers)
        tried = [row for row in read if row[2]]
        figures.append(figure(f"{name}: lines read mirrored", len(tried), len(of_set)))
        for place, how in enumerate(("with", "without")):
            texts = [row[place] for row in read]
            types = [{span.type for span in spans} for spans in providers["text_pii"].find_pii(texts)]
            figures.append(figure(f"{name}: any personal data, {how}", sum(map(bool, types)), len(types)))
            dropped = sum(bool(found & set(drop or ())) for found in types)
            figures.append(figure(f"{name}: dropped by public_release, {how}", dropped, len(types)))
        print(f"{name}: other text in {sum(row[0] != row[1] for row in read)}")
        seconds = [sum(row[place] for row in read) / len(read) for place in (3, 2)]
        print(f"{name}: {seconds[0]:.3f} CPU seconds an image, {seconds[1]:.4f} of them for mirrored lines")
    return figures


def drawn_lines(draw: random.Random, number: int) -> DecodedImage:
    """One or two lines of text, mirrored or flipped, in one of three sizes."""
    page = PIL.Image.new("RGB", (640, 300), draw.choice(("white", "ivory", "lightgrey")))
    lines = [spelling_values.email(draw), spelling_values.address("English", draw)][: 1 + number % 2]
    for place, line in enumerate(lines):
        size = draw.choice((20, 26, 32))
        PIL.ImageDraw.Draw(page).text((20, 40 + 110 * place), line, fill="black", font_size=size)
    file = io.BytesIO()
    draw.choice((PIL.ImageOps.mirror, PIL.ImageOps.flip))(page).save(file, "PNG")
    return open_image(file.getvalue())


def _read_with_and_without(images: Iterable[DecodedImage], providers: Providers) -> list[tuple[str, str, float, float]]:
    """For each image: its text with lines read mirrored, and without; CPU seconds for such lines, and for all."""
    rows, read_mirrored = [], image_text._mirrored
    for image in images:
        spent = [0.0]

        def timed(*line: Any, spent: list[float] = spent) -> Any:
            began = time.process_time()
            read = read_mirrored(*line)
            spent[0] += time.process_time() - began
            return read

        with mock.patch.object(image_text, "_mirrored", timed):
            began = time.process_time()
            (with_them,) = providers["image_text"].read([image])
            seconds = time.process_time() - began
        without = with_them
        if spent[0]:
            with mock.patch.object(image_text, "_mirrored", lambda engine, rgb, line: line):
                (without,) = providers["image_text"].read([image])
        rows.append((with_them.text, without.text, spent[0], seconds))
    return rows


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
    parser.add_argument("--mirrored", nargs="*", metavar="FOLDER", help=f"default {' '.join(MIRRORED)}")
    given = parser.parse_args()
    if not given.data.is_dir():
        parser.error(f"DATA {str(given.data)!r} is no folder; give one with images or labelled texts below it")
    if given.mirrored is not None:
        mirrored_figures(given.data, given.mirrored or MIRRORED, Providers())
    else:
        main(given.data, given.labels, dict(each.split("=", 1) for each in given.provider))
