"""Labels of prompts by two readers who did not know the rules, and how far the readers agree.

    python -m benchmarks.prompts_by_readers [DATA --labels FILE]

With `--labels`, the labelled prompts below the folder of shared data are written for `curate tags evaluate`: the tags
that a prompt decides, with `made_with` for the halves that rules were worked on with. They are others' texts: commit
none.

`prompts_by_readers.csv` (VisIT-Bench) and `prompts_of_logs_by_readers.csv` (users of WildVision's arena) have no text:
`id` is the SHA-256 of the prompt. What columns mean is in the .md beside each. A prompt is of the half of
`tag_labels.py` that its items are of: the tuning half, which served to make examples, if any of them is.
"""

import argparse
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.tag_labels import Labelled, arena_prompts, visit_prompts
from benchmarks.tags_by_hand import TAGS
from tasks.signals.loose_files import read_tag_labels
from tasks.signals.tag_evaluation import TagValue, agreements

FROM_PROMPT = ("captioning", "creative_writing", "entity_recognition", "humor")
"""Tags that are measured on these prompts, whose pictures are not there; of humor the part that words tell."""
READERS = ("reader_a", "reader_b")


@dataclass(frozen=True)
class PromptSet:
    """Prompts of one source that two readers labelled."""

    labels: Path
    """The readers' labels, and those that both give."""
    prompts: Callable[[Path], Mapping[str, str]]
    """The folder of shared data -> prompt -> its half."""


SETS = {
    "VisIT-Bench": PromptSet(Path(__file__).with_suffix(".csv"), visit_prompts),
    "WildVision logs": PromptSet(Path(__file__).with_name("prompts_of_logs_by_readers.csv"), arena_prompts),
}
"""Name of the source -> its prompts."""


def read_prompts(data: Path, source: str) -> Iterator[Labelled]:
    """The labelled prompts of a source below the folder of shared data, each with the half that it is of."""
    labels = read_tag_labels(SETS[source].labels, TAGS, texts=False)
    for prompt, half in SETS[source].prompts(data).items():
        item = hashlib.sha256(prompt.encode()).hexdigest()
        if item in labels:
            decided = {tag: value for tag, value in labels[item].items() if value is not None}
            yield Labelled(item, prompt, None, decided, half)


def _labels(tags: str) -> dict[str, TagValue]:
    """Tag -> what a reader says of it, from the tags that are true or, behind `?`, undecided."""
    words = tags.split()
    return {tag: tag in words or (None if f"?{tag}" in words else False) for tag in TAGS}


def main() -> None:
    """Print the readers' agreement (n, share of equal labels, Cohen's kappa of each tag), or write their labels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--labels", type=Path, metavar="FILE")
    given = parser.parse_args()
    if bool(given.data) is not bool(given.labels):
        parser.error("give DATA and --labels FILE, or neither")
    if given.labels:
        lines = [
            {
                "id": item.item,
                "prompt": item.prompt,
                "labels": {tag: item.tags.get(tag) for tag in FROM_PROMPT},
                "made_with": not item.held_out,
            }
            for source in SETS
            for item in read_prompts(given.data, source)
        ]
        given.labels.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        print(f"{len(lines)} prompts in {given.labels}")
        return
    for source in SETS:
        _print_agreement(source)


def _print_agreement(source: str) -> None:
    """A line for each tag: how many prompts both readers decide, the yes of each, the share of equal labels, kappa."""
    rows = read_tag_labels(SETS[source].labels, READERS, texts=True)
    first, second = ({item: _labels(str(row[reader] or "")) for item, row in rows.items()} for reader in READERS)
    print(f"{source}, {len(rows)} prompts")
    print(f"{'tag':<20}{'both decided':>13}{'yes of a':>10}{'yes of b':>10}  {'equal':<24}kappa")
    for row in agreements(first, second, TAGS):
        equal, kappa = (
            "-" if share.value is None else f"{share.value:.3f} [{share.ci95_low:.3f}, {share.ci95_high:.3f}]"
            for share in (row.accuracy, row.kappa)
        )
        print(f"{row.tag:<20}{row.items:>13}{row.tagged:>10}{row.in_reference:>10}  {equal:<24}{kappa}")


if __name__ == "__main__":
    main()
