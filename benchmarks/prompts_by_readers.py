"""Labels of 160 prompts of VisIT-Bench by two readers, and how far they agree.

    python -m benchmarks.prompts_by_readers [DATA --labels FILE]

With `--labels`, the labelled prompts below the folder of shared data are written for `curate tags evaluate`: the tags
that a prompt decides, with `made_with` for the half that rules were worked on with. They are others' texts: commit
none.

`prompts_by_readers.csv` has no text: `id` is the SHA-256 of the prompt. What columns mean is in the .md beside it. A
prompt is of the half of `tag_labels.py` that its items are of: the tuning half, which served to make examples, if any
of them is.
"""

import argparse
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from benchmarks.tag_labels import Labelled, visit_prompts
from benchmarks.tags_by_hand import TAGS
from tasks.signals.loose_files import read_tag_labels
from tasks.signals.tag_evaluation import Said, agreements

FILE = Path(__file__).with_suffix(".csv")
FROM_PROMPT = ("captioning", "creative_writing", "entity_recognition", "humor")
"""Tags that are measured on these prompts, whose pictures are not there; of humor the part that words tell."""
READERS = ("reader_a", "reader_b")


def read_prompts(data: Path) -> Iterator[Labelled]:
    """The labelled prompts below the folder of shared data, each with the half that it is of."""
    labels = read_tag_labels(FILE, TAGS, texts=False)
    for prompt, half in visit_prompts(data).items():
        item = hashlib.sha256(prompt.encode()).hexdigest()
        if item in labels:
            known = {tag: bool(said) for tag, said in labels[item].items() if said is not None}
            yield Labelled(item, prompt, None, known, half)


def _labels(said: str) -> dict[str, Said]:
    """Tag -> what a reader says of it, from the tags that are true or, behind `?`, undecided."""
    words = said.split()
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
                "id": each.item,
                "prompt": each.prompt,
                "labels": {tag: each.tags.get(tag) for tag in FROM_PROMPT},
                "made_with": not each.held_out,
            }
            for each in read_prompts(given.data)
        ]
        given.labels.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        print(f"{len(lines)} prompts in {given.labels}")
        return
    rows = read_tag_labels(FILE, READERS, texts=True)
    said = [{item: _labels(str(row[reader] or "")) for item, row in rows.items()} for reader in READERS]
    print(f"{'tag':<20}{'both decided':>13}{'yes of a':>10}{'yes of b':>10}  {'equal':<24}kappa")
    for row in agreements(said[0], said[1], TAGS):
        shares = (
            "-" if each.value is None else f"{each.value:.3f} [{each.ci95_low:.3f}, {each.ci95_high:.3f}]"
            for each in (row.accuracy, row.kappa)
        )
        equal, kappa = shares
        print(f"{row.tag:<20}{row.items:>13}{row.tagged:>10}{row.in_reference:>10}  {equal:<24}{kappa}")


if __name__ == "__main__":
    main()
