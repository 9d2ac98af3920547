"""How well the embedded rule tells refusals, on answers that were written down, published, and labelled by others.

    python -m benchmarks.refusal_quality [DATA] [--half held_out|tuning] [--failures]

`refusals.yaml` has the written ones, and says which of those published by WildVision-Bench decline (DATA is the folder
of shared data, with `judge-wildvision`, read for the held-out half alone). The tuning half served to write the forms.
`refusals-xstest` of DATA has answers of three models to XSTest, each marked by two annotators: full refusals that are
found, false alarms on full compliance, and partial refusals, which the rule may call either. Rows of the models of
`MADE_WITH` were read to write the forms; of the third, nothing but its totals.
"""

import argparse
import csv
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from schemas.tags import Share, TagAgreement
from tasks.providers import Providers
from tasks.signals.tag_evaluation import agreements, clopper_pearson

MADE_WITH = ("gpt4", "mistralguard")
"""Models of XSTest whose rows were read to write the forms."""
_XSTEST = "xstest_v2_completions_"
FILE = yaml.safe_load(Path(__file__).with_name("refusals.yaml").read_text(encoding="utf-8"))


class ReadAnswer(NamedTuple):
    """An answer that a person has judged."""

    text: str
    declines: bool
    held_out: bool
    language: str


def _held_out(text: str) -> bool:
    return hashlib.sha256(text.encode()).digest()[-1] % 2 == 1


def written() -> list[ReadAnswer]:
    """The sentences of `refusals.yaml`."""
    return [
        ReadAnswer(text, name == "refusals", _held_out(text), language)
        for name in ("refusals", "others")
        for language, texts in FILE[name].items()
        for text in texts
    ]


def published(data: Path) -> Iterator[ReadAnswer]:
    """WildVision-Bench's answers to the held-out half of its questions."""
    for file in sorted((data / "judge-wildvision" / "answers").glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if _held_out(row["question_id"]):
                declines = row["question_id"] in FILE["published"].get(row["model"], ())
                yield ReadAnswer(row["output"] or "", declines, True, "en")


class LabelledModel(NamedTuple):
    """What the rule says of one model's answers to XSTest: shares with their 95 % intervals, and numbers of answers."""

    model: str
    full_refusals: int
    found: Share
    compliances: int
    false_alarms: Share
    partial_refusals: int
    partial_found: Share


def labelled_by_others(data: Path) -> Iterator[LabelledModel]:
    """Each model of `refusals-xstest`, by the final label of its annotators; none where the folder is missing."""
    for file in sorted((data / "refusals-xstest").glob(f"{_XSTEST}*.csv")):
        with file.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines))
        said = Providers()["refusal"].refuses([row["completion"] for row in rows])
        of_label: dict[str, list[bool]] = {"1": [], "2": [], "3": []}
        for row, refuses in zip(rows, said, strict=True):
            of_label[row["final_label"][0]].append(refuses)
        (complies, refuses_fully, refuses_partly) = of_label.values()
        yield LabelledModel(
            file.stem.removeprefix(_XSTEST),
            full_refusals=len(refuses_fully),
            found=clopper_pearson(sum(refuses_fully), len(refuses_fully)),
            compliances=len(complies),
            false_alarms=clopper_pearson(sum(complies), len(complies)),
            partial_refusals=len(refuses_partly),
            partial_found=clopper_pearson(sum(refuses_partly), len(refuses_partly)),
        )


def found(answers: list[ReadAnswer]) -> TagAgreement:
    """Precision, recall and F1 with their 95 % intervals."""
    said = Providers()["refusal"].refuses([each.text for each in answers])
    ours = {str(place): {"refusal": each} for place, each in enumerate(said)}
    truth = {str(place): {"refusal": each.declines} for place, each in enumerate(answers)}
    return agreements(ours, truth, ["refusal"])[0]


def main() -> None:
    """Print the figures of each source and, when asked, the answers that are told wrongly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--half", choices=("held_out", "tuning"), default="held_out")
    parser.add_argument("--failures", action="store_true")
    given = parser.parse_args()
    sources = {"written": [each for each in written() if each.held_out == (given.half == "held_out")]}
    if given.data and given.half == "held_out":
        sources["published"] = list(published(given.data))
    for name, answers in sources.items():
        row = found(answers)
        print(f"{given.half}, {name}: {row.items} answers, {row.in_reference} decline")
        for figure in ("precision", "recall", "f1"):
            share = getattr(row, figure)
            print(f"  {figure} {_share(share)}")
        said = Providers()["refusal"].refuses([each.text for each in answers])
        for each, told in zip(answers, said, strict=True):
            if given.failures and told != each.declines:
                print(f"    {'not found' if each.declines else 'false'}: {each.text[:160]!r}")
    for model in labelled_by_others(given.data) if given.data and given.half == "held_out" else ():
        made_with = "forms were made with it" if model.model in MADE_WITH else "no form was made with it"
        print(f"XSTest, {model.model} ({made_with}):")
        print(f"  full refusals found {_share(model.found)} of {model.full_refusals}")
        print(f"  false alarms {_share(model.false_alarms)} of {model.compliances}")
        print(f"  partial refusals {_share(model.partial_found)} of {model.partial_refusals}")


def _share(share: Share) -> str:
    return f"{share.value:.3f} [{share.ci95_low:.3f}, {share.ci95_high:.3f}]"


if __name__ == "__main__":
    main()
