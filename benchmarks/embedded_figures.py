"""Measures the embedded models and writes what they find into tasks/providers/embedded_figures.yaml.

    python -m benchmarks.embedded_figures DATA [--stores STORE…] [--only MATERIAL…]

DATA is the folder of shared data, with a checkout of gitleaks as `gitleaks`; STORES hold the prompts of
`tags_by_hand.csv` (`curate demo --out DIR`, and what `curate run` makes of `arena-logs`). Figures of material that is
not there, or not asked for, stay as they are. Of material that no rule was made with only totals are printed.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from benchmarks import gitleaks_literals, privacy_quality, privacy_unseen, refusal_quality
from benchmarks.prompts_by_readers import FROM_PROMPT, read_prompts
from benchmarks.tag_labels import Labelled, unseen
from benchmarks.tags_by_hand import TAGS, TAXONOMY, by_hand
from benchmarks.tags_quality import documents_of, said_of
from schemas.embedded_figures import EmbeddedFigures, Material, MeasuredFigure
from tasks.providers import Providers
from tasks.providers.embedded_figures import FILE, PRECISION, RECALL, read_figures
from tasks.runtime.shares import clopper_pearson
from tasks.signals.tag_evaluation import TagValue

READERS = "two readers, perhaps of one opinion"
RULES_AUTHOR = "one author, who also wrote the rules"


class Inputs(NamedTuple):
    """Where labelled material lies."""

    data: Path
    stores: Sequence[str]


class Counted(NamedTuple):
    """A share before its interval is known."""

    of: str
    label: str
    measure: str
    hits: int
    n: int


class Measuring(NamedTuple):
    """A material, and what counts the shares on it; it counts nothing where the material is missing."""

    material: Material
    counts: Callable[[Inputs], Iterator[Counted]]


def _images(inputs: Inputs) -> Iterator[Counted]:
    names = {
        "faces: recall, at least 32 px": ("faces", "recall on images with a face of at least 32 pixels"),
        "faces: small ones found (no goal)": ("faces", "recall on images with smaller faces alone"),
        "faces: drawn ones found (no goal)": ("faces", "recall on painted or drawn faces"),
        "faces: false alarms": ("faces", "false alarms on images without a face"),
        "nsfw: false alarms on harmless images": ("nsfw", "false alarms on harmless images"),
    }
    yield from _renamed(privacy_quality.image_figures(inputs.data, privacy_quality.LABELS, Providers()), names)


def _receipts(inputs: Inputs) -> Iterator[Counted]:
    names = {
        "image text: characters of receipts": ("image_text", "characters that are read"),
        "image text: numbers of receipts": ("image_text", "numbers that are read without a mistake"),
    }
    folder = inputs.data / "ocr-documents" / "receipts"
    if folder.is_dir():
        yield from _renamed(privacy_quality.text_figures(folder, Providers()), names)


def _prompts_of_xstest(inputs: Inputs) -> Iterator[Counted]:
    names = {
        "moderation: unsafe prompts tagged": ("moderation", "recall on unsafe prompts"),
        "moderation: safe prompts tagged": ("moderation", "false alarms on safe prompts"),
    }
    file = inputs.data / "text-safety" / "xstest.csv"
    if file.is_file():
        yield from _renamed(privacy_quality.offensive(file, Providers()), names)


def _renamed(rows: Sequence[Mapping[str, Any]], names: Mapping[str, tuple[str, str]]) -> Iterator[Counted]:
    for row in rows:
        capability, measure = names[row["bench"]]
        if row["n"]:
            yield Counted(capability, "", measure, round(row["value"] * row["n"]), row["n"])


def _sentences(inputs: Inputs) -> Iterator[Counted]:
    file = inputs.data / "text-pii" / "labelled.jsonl"
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.is_file() else []
    for name, hits, n, _ in privacy_quality.pii_figures(rows, Providers()["text_pii"]) if rows else ():
        kind, _, measure = name.removeprefix("pii ").partition(": ")
        if kind in ("structured", "person", "address") and n:
            yield Counted("text_pii", "values with a form" if kind == "structured" else kind, measure, hits, n)


def _chats(inputs: Inputs) -> Iterator[Counted]:
    """Findings in the texts that served for nothing but measuring."""
    given = list(privacy_unseen.later_chats(inputs.data))
    figures = privacy_unseen.false_alarms(given, Providers()["text_pii"], privacy_unseen.labels()) if given else ()
    for name, hits, n, _ in figures:
        if "messages" in name and n:
            yield Counted(
                "text_pii", "", "messages that public_release drops for nobody's data, of dropped ones", hits, n
            )


def _secrets(inputs: Inputs) -> Iterator[Counted]:
    """Texts of gitleaks' rules, where its sources are in the folder of data."""
    given = gitleaks_literals.literals(inputs.data / "gitleaks")
    figures = list(gitleaks_literals.figures(given)) if given.secrets else []
    for (_, hits, n, _), measure in zip(figures, (RECALL, "false alarms on lookalikes"), strict=bool(figures)):
        yield Counted("text_pii", "secret", measure, hits, n)


def _written_refusals(_: Inputs) -> Iterator[Counted]:
    yield from _refusals([each for each in refusal_quality.written() if each.held_out])


def _published_refusals(inputs: Inputs) -> Iterator[Counted]:
    yield from _refusals(list(refusal_quality.published(inputs.data)))


def _refusals(answers: Sequence[refusal_quality.ReadAnswer]) -> Iterator[Counted]:
    if answers:
        said = Providers()["refusal"].refuses([each.text for each in answers])
        yield from _yes_or_no("refusal", "", said, [each.declines for each in answers])


def _of_models(made_with: bool) -> Callable[[Inputs], Iterator[Counted]]:
    """Full refusals that are found, and full compliance called a refusal, of the models on one side."""

    def counts(inputs: Inputs) -> Iterator[Counted]:
        models = [
            each
            for each in refusal_quality.labelled_by_others(inputs.data)
            if (each.model in refusal_quality.MADE_WITH) is made_with
        ]
        refusals, complied = sum(each.full_refusals for each in models), sum(each.compliances for each in models)
        if models:
            found = sum(round((each.found.value or 0) * each.full_refusals) for each in models)
            false = sum(round((each.false_alarms.value or 0) * each.compliances) for each in models)
            yield Counted("refusal", "", "recall on full refusals", found, refusals)
            yield Counted("refusal", "", "false alarms on full compliance", false, complied)

    return counts


def _by_hand(inputs: Inputs) -> Iterator[Counted]:
    """Tags and taxonomy on prompts of stores."""
    hand = list(by_hand(inputs.stores, "held_out"))
    if not hand:
        return
    items = [each.labelled for each in hand]
    said = said_of(items, [each.document for each in hand])
    yield from _tags(items, said, TAGS)
    for name in TAXONOMY:
        pairs = [(said[each.labelled.item][name], each.names[name]) for each in hand if each.names[name] is not None]
        placed = [pair for pair in pairs if pair[0] is not None]
        right = sum(ours == theirs for ours, theirs in placed)
        label = name.replace("_", " ")
        for measure, n in ((PRECISION, len(placed)), (RECALL, len(pairs))):
            yield Counted("taxonomy", label, measure, right, n)


def _pairs(inputs: Inputs) -> Iterator[Counted]:
    items = unseen(inputs.data)
    if items:
        yield from _tags(items, said_of(items, documents_of(items, Providers())), TAGS)


def _prompts(source: str, half: str) -> Callable[[Inputs], Iterator[Counted]]:
    """Tags that the prompt alone decides, on one half of the prompts of a source that two readers labelled."""

    def counts(inputs: Inputs) -> Iterator[Counted]:
        items = [item for item in read_prompts(inputs.data, source) if item.half == half]
        if items:
            yield from _tags(items, said_of(items, documents_of(items, Providers())), FROM_PROMPT)

    return counts


def _tags(
    items: Sequence[Labelled], said: Mapping[str, Mapping[str, TagValue]], tags: Sequence[str]
) -> Iterator[Counted]:
    for tag in tags:
        labelled = [each for each in items if tag in each.tags]
        capability = "code" if tag == "code" else "categories"
        ours, theirs = ([said[each.item][tag] for each in labelled], [each.tags[tag] for each in labelled])
        yield from _yes_or_no(capability, "" if tag == "code" else tag, ours, theirs)


def _yes_or_no(of: str, label: str, ours: Sequence[TagValue], theirs: Sequence[bool]) -> Iterator[Counted]:
    """Precision and recall; a true row that the model calls undecided is not found."""
    pairs = list(zip(ours, theirs, strict=True))
    hits, tagged = pairs.count((True, True)), list(ours).count(True)
    for measure, n in ((PRECISION, tagged), (RECALL, list(theirs).count(True))):
        if n:
            yield Counted(of, label, measure, hits, n)


def _measuring(about: str, labelled_by: str, made_with: bool, command: str) -> Material:
    return Material(
        about=about, labelled_by=labelled_by, made_with=made_with, command=f"python -m benchmarks.{command}"
    )


_PRIVACY = "privacy_quality DATA"
_REFUSALS = "refusal_quality DATA"
_OWN = "embedded_figures DATA --only"
MEASURED = {
    "public pictures": Measuring(
        _measuring("Pictures of public sets; faces as in face_labels.csv.", RULES_AUTHOR, True, _PRIVACY), _images
    ),
    "receipts": Measuring(
        _measuring("22 scanned receipts of SROIE.", "SROIE's annotators", True, _PRIVACY), _receipts
    ),
    "XSTest's prompts": Measuring(
        _measuring("450 prompts that are safe or unsafe.", "XSTest's authors", False, _PRIVACY), _prompts_of_xstest
    ),
    "presidio's sentences": Measuring(
        _measuring("1,500 sentences made from templates.", "presidio-research's authors", True, _PRIVACY), _sentences
    ),
    "later texts": Measuring(
        _measuring(
            "Judgements, captions, references and prompts of public sets that served only to measure.",
            RULES_AUTHOR, False, "privacy_unseen DATA --part 2",
        ),
        _chats,
    ),
    "gitleaks' literals": Measuring(
        _measuring(
            "Texts with a secret, and lookalikes, of the tests of the rules that the finder uses: the plain literals "
            "of all rule files, copied by hand from versions near 8.30.",
            "gitleaks' authors", True, "gitleaks_literals SOURCES",
        ),
        _secrets,
    ),
    "written refusals": Measuring(
        _measuring("Sentences in seven languages, half by hash.", RULES_AUTHOR, True, _REFUSALS), _written_refusals
    ),
    "WildVision's answers": Measuring(
        _measuring("Answers to pictures of WildVision-Bench, half by hash.", RULES_AUTHOR, True, _REFUSALS),
        _published_refusals,
    ),
    "XSTest's answers": Measuring(
        _measuring(
            f"Answers of {', '.join(refusal_quality.MADE_WITH)} to XSTest.", "two annotators of XSTest", True, _REFUSALS
        ),
        _of_models(True),
    ),
    "XSTest's answers of another model": Measuring(
        _measuring(
            "Answers to XSTest of a model of which no answer was read. Forms were chosen with these totals in sight, "
            "so they are on the good side.",
            "two annotators of XSTest", False, _REFUSALS,
        ),
        _of_models(False),
    ),
    "arena prompts": Measuring(
        _measuring(
            "Prompts with pictures of the demo and of arena logs: the half that rules were not worked on with, from "
            "the same sources as the other.",
            RULES_AUTHOR, True, f"{_OWN} 'arena prompts' --stores STORE…",
        ),
        _by_hand,
    ),
    "tag-labels": Measuring(
        _measuring(
            "83 prompts with pictures of public sets; the words for entities were widened after its totals were seen.",
            "one annotator, who made no rule", False, f"{_OWN} tag-labels",
        ),
        _pairs,
    ),
    "VisIT-Bench, work half": Measuring(
        _measuring(
            "Prompts of VisIT-Bench of the half that examples were worked on with.", READERS,
            True, f"{_OWN} 'VisIT-Bench, work half'",
        ),
        _prompts("VisIT-Bench", "tuning"),
    ),
    "VisIT-Bench": Measuring(
        _measuring(
            "Prompts of VisIT-Bench of the other half.", READERS, False, f"{_OWN} VisIT-Bench"
        ),
        _prompts("VisIT-Bench", "held_out"),
    ),
    "WildVision logs": Measuring(
        _measuring(
            "Prompts of users of WildVision's arena, of the half that no rule was made with; what the picture shows, "
            "readers took from three models' answers.",
            READERS, False, f"{_OWN} 'WildVision logs'",
        ),
        _prompts("WildVision logs", "held_out"),
    ),
}  # fmt: skip
"""Name of a material -> what is known of it, and what counts the shares on it."""


def every_material() -> dict[str, Measuring]:
    """The materials above, and those that products have in a file of this name in their folders."""
    files = sorted(Path(__file__).parent.glob("*/embedded_figures.py"))
    of_products = [import_module(f"benchmarks.{file.parent.name}.{file.stem}").MEASURED for file in files]
    return MEASURED | {name: entry for materials in of_products for name, entry in materials.items()}


def measured_on(name: str, measuring: Measuring, inputs: Inputs) -> list[MeasuredFigure]:
    """The figures on a material; empty where it is missing."""
    return [
        MeasuredFigure(
            **each._asdict(),
            material=name,
            **{place: round(share, 4) for place, share in clopper_pearson(each.hits, each.n).model_dump().items()},
        )
        for each in measuring.counts(inputs)
    ]


def written(figures: EmbeddedFigures) -> str:
    """The file: one line for each figure."""
    content = figures.model_dump(exclude_defaults=True)
    head = "# By python -m benchmarks.embedded_figures; notes are written by hand.\n"
    return head + yaml.safe_dump(content, default_flow_style=None, sort_keys=False, width=10**6, allow_unicode=True)


def main() -> None:
    """Measure, write the file, and print its lines."""
    measurings = every_material()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--stores", nargs="+", default=[])
    parser.add_argument("--only", nargs="+", choices=measurings, default=list(measurings), metavar="MATERIAL")
    given = parser.parse_args()
    if not given.data.is_dir():
        parser.error(f"DATA {str(given.data)!r} is no folder")
    measured = {name: measured_on(name, measurings[name], Inputs(given.data, given.stores)) for name in given.only}
    for name in (name for name, figures in measured.items() if not figures):
        print(f"{name}: not here; its figures stay as they are")
    before = read_figures(FILE)
    figures = [
        figure for figure in before.figures if figure.material in measurings and not measured.get(figure.material)
    ]
    figures += [figure for of_material in measured.values() for figure in of_material]
    order = list(measurings)
    kept = sorted(figures, key=lambda each: (each.of, each.label, each.measure, order.index(each.material)))
    materials = {name: entry.material for name, entry in measurings.items() if any(f.material == name for f in kept)}
    FILE.write_text(written(EmbeddedFigures(materials=materials, figures=kept, notes=before.notes)), encoding="utf-8")
    for figure in kept:
        share = f"{figure.value:.3f} [{figure.ci95_low:.3f}, {figure.ci95_high:.3f}]"
        print(
            f"{figure.of:<12}{figure.label:<20}{share:<24}{figure.hits:>5} of {figure.n:>6}  {figure.measure}; "
            f"{figure.material}"
        )


if __name__ == "__main__":
    main()
