"""Labelled prompts and images of the shared data, as `benchmarks/tags_quality.py` judges taggers on them.

Every source says something of some tags; of the others nothing, and they are not judged there. Labels do not depend on
file names beyond the folder, but for the exceptions that `tag_labels.yaml` lists after looking.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

IMAGES = {".jpg", ".jpeg", ".png", ".webp", ".bmp"}
CODE_SHARE = 4
"""One in so many of Arena-Hard's prompts was read."""
UNCLEAR_WRITING = {"roleplay", "counterfactual"}
"""Categories of MT-Bench and Vicuna whose prompts may ask for writing, or for an answer in a role."""


@dataclass(frozen=True)
class Labelled:
    """A prompt, perhaps with an image, and the tags that are known of it."""

    item: str
    """Where it comes from."""
    prompt: str
    image: Path | None
    tags: dict[str, bool]
    """Tag -> whether it applies; tags that nothing is known of are missing."""
    half: str | None = None
    """`tuning` or `held_out` where the source says so itself."""

    @property
    def held_out(self) -> bool:
        """Half of the items, by the hash of where they come from, unless the source divides them itself."""
        return self.half == "held_out" if self.half else _hash(self.item) % 2 == 1


def labelled(data: Path) -> list[Labelled]:
    """Every labelled item below the folder of shared data; sources that are not there give none."""
    return [
        *_math(data / "mathv"),
        *_images(data),
        *_owleval(data / "owleval"),
        *_texts(data / "text-categories"),
        *_arena(data / "judge-wildvision"),
        *_translated(data / "text-language"),
    ]


def unseen(data: Path) -> list[Labelled]:
    """The pairs of `tag-labels`, labelled by one annotator who made no rule; no rule was made with them."""
    return [
        Labelled(
            f"tag-labels/{number}",
            row["prompt"],
            data / "tag-labels" / row["image"],
            {tag: said for tag, said in row["labels"].items() if said is not None},
        )
        for number, row in enumerate(_lines(data / "tag-labels" / "labels.jsonl"))
    ]


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


@cache
def _notes() -> dict[str, Any]:
    notes: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return notes


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []


def _math(folder: Path) -> Iterator[Labelled]:
    """Competition problems, asked as arenas log them: the question, then its options.

    Most images are figures without the question, which are no homework; nobody said which are.
    """
    for row in _lines(folder / "questions.jsonl"):
        options = " ".join(f"({letter}) {text}" for letter, text in zip("ABCDE", row["options"], strict=False))
        question = f"{row['question'].replace('<image1>', '').strip()}\n{options}".strip()
        no = dict.fromkeys(("captioning", "creative_writing"), False)
        yield Labelled(f"mathv/{row['id']}", question, folder / row["image"], no)


def _images(data: Path) -> Iterator[Labelled]:
    """Images without a question, each with an everyday prompt that suits it or, every third time, a random one."""
    kinds = {
        "charts-maps-diagrams": "diagram", "ocr-documents": "ocr", "photos": "captioning", "art": "captioning",
        "faces": "captioning", "ui-screens": "captioning",
    }  # fmt: skip
    for folder, suits in kinds.items():
        for file in sorted(each for each in (data / folder).rglob("*") if each.suffix.lower() in IMAGES):
            item = file.relative_to(data).as_posix()
            pools = _notes()["prompts"]["held_out" if _hash(item) % 2 else "tuning"]
            pool = suits if suits != "captioning" or _hash(f"{item} pool") % 3 else "other"
            prompt = pools[pool][_hash(f"{item} prompt") % len(pools[pool])]
            tags = {"homework": False, "captioning": pool == "captioning", "creative_writing": False}
            if not any(part in file.name for part in _notes()["unclear_diagrams"]):
                tags["diagram"] = suits == "diagram" and not any(part in file.name for part in _notes()["not_diagrams"])
            if suits != "diagram":  # a plot's labels may matter to the question
                tags["ocr"] = pool == "ocr"
            yield Labelled(item, prompt, file, tags)


def _owleval(folder: Path) -> Iterator[Labelled]:
    notes = _notes()
    for row in _lines(folder / "questions.jsonl"):
        number = int(row["image"].split(".")[0])
        tags = {"captioning": row["question"].strip() in notes["owleval_questions"]["captioning"]}
        if number not in notes["owleval"]["unclear"]:
            tags |= {"diagram": number in notes["owleval"]["diagram"], "homework": False}
        image = folder / "images" / row["image"]
        yield Labelled(f"owleval/{row['question_id']}", row["question"], image, tags)


def _texts(folder: Path) -> Iterator[Labelled]:
    no_image = {"captioning": False, "diagram": False, "entity_recognition": False}
    for name, coding in (("mt-bench", {"coding"}), ("vicuna-bench", {"coding"})):
        for row in _lines(folder / f"{name}.jsonl"):
            tags = dict(no_image)
            if row["category"] not in ("reasoning", "stem", "extraction", "fermi", "math"):
                tags["homework"] = False
            if row["category"] == "math":
                tags["homework"] = True
            if row["category"] != "math":
                tags["code"] = row["category"] in coding
            if row["category"] not in UNCLEAR_WRITING:
                tags["creative_writing"] = row["category"] == "writing"
            yield Labelled(f"{name}/{row['question_id']}", "\n\n".join(row["turns"]), None, tags)
    for row in _lines(folder / "arena-hard-v0.1.jsonl"):
        tags = dict(no_image)
        was_read = int(hashlib.sha256(row["uid"].encode()).hexdigest(), 16) % CODE_SHARE == 0
        if was_read and row["uid"][:6] not in _notes()["code"]["unclear"]:
            tags["code"] = row["uid"][:6] not in _notes()["code"]["without"]
        yield Labelled(f"arena-hard/{row['uid']}", row["prompt"], None, tags)
    for row in _lines(folder / "visit-bench-even.jsonl"):
        yield Labelled(f"visit/{row['id']}", row["instruction"], None, _visit_tags(row["instruction_category"]))


def visit_prompts(data: Path) -> dict[str, str]:
    """Distinct prompt of VisIT-Bench -> its half; `tuning` if any of its items is of that half."""
    halves: dict[str, str] = {}
    for row in _lines(data / "text-categories" / "visit-bench-even.jsonl"):
        half = "held_out" if Labelled(f"visit/{row['id']}", "", None, {}).held_out else "tuning"
        halves[row["instruction"]] = "tuning" if "tuning" in (half, halves.get(row["instruction"])) else "held_out"
    return halves


def arena_prompts(data: Path) -> dict[str, str]:
    """Distinct prompt of WildVision's arena -> its half, as `visit_prompts` tells them."""
    halves: dict[str, str] = {}
    for item in _arena(data / "judge-wildvision"):
        halves[item.prompt] = "tuning" if "tuning" in (item.half, halves.get(item.prompt)) else "held_out"
    return halves


def _visit_tags(family: str) -> dict[str, bool]:
    """Instructions about images that are not here: what their wording alone tells."""
    known = _notes()["visit"]
    tags = {"code": False}
    for tag in ("captioning", "homework"):
        if family not in known[f"unclear_{tag}"]:
            tags[tag] = family in known[tag]
    if family in known["ocr"]:
        tags["ocr"] = True
    if family in known["creative_writing"]:
        tags["creative_writing"] = True
    return tags


def _arena(folder: Path) -> Iterator[Labelled]:
    """Prompts of users of WildVision's arena without their images; homework, ocr and diagram need these."""
    for row in _lines(folder / "questions.jsonl"):
        half = "held_out" if hashlib.sha256(row["question_id"].encode()).digest()[0] % 2 else "tuning"
        known = _notes()["wildvision"].get(half, {})
        number = row["question_id"][:6]
        tags = {tag: number in ids["yes"] for tag, ids in known.items() if number not in ids["unclear"]}
        yield Labelled(f"wildvision/{number}", row["instruction"], None, tags, half)


def _translated(folder: Path) -> Iterator[Labelled]:
    """Vicuna's prompts in languages other than English: none served to make rules."""
    for row in _lines(folder / "chat-prompts-12lang.jsonl"):
        if row["lang"] != "en":
            tags = {"captioning": False, "entity_recognition": False, "code": row["category"] == "coding"}
            if row["category"] not in UNCLEAR_WRITING:
                tags["creative_writing"] = row["category"] == "writing"
            item = f"vicuna-{row['lang']}/{row['question_id']}"
            yield Labelled(item, row["text"], None, tags, "held_out")
