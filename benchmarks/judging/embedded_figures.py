"""Figures of the embedded judge, for `python -m benchmarks.embedded_figures`."""

from collections.abc import Iterator

from benchmarks.embedded_figures import Counted, Inputs, Measuring
from benchmarks.judging.stand_in_judge import agreement
from schemas.embedded_figures import Material


def _votes(inputs: Inputs) -> Iterator[Counted]:
    folder = inputs.data / "votes-llmfao"
    if (folder / "human-votes.csv").is_file():
        row = agreement(folder)
        for measure, name in (("votes that it agrees with", "ours"), ("votes for the longer answer", "longer")):
            yield Counted("judge", "", f"decisive {measure}", round(row[name] * row["n"]), int(row["n"]))


MEASURED = {
    "llmfao": Measuring(
        Material(
            about="Votes on answers to 13 prompts.",
            labelled_by="124 workers",
            made_with=True,
            command="python -m benchmarks.judging.stand_in_judge DATA/votes-llmfao",
        ),
        _votes,
    ),
}
"""Name of a material -> what is known of it, and what counts the shares on it."""
