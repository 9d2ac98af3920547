"""Prints what people said: of `curate review results`."""

import json
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from flows.commands.options import existing
from flows.commands.review.kinds import anonymous_battles_of, tuples_of
from flows.commands.tables import note, print_rows
from flows.judging.agree import print_agreement, print_raters
from schemas.errors import BadInput
from schemas.items.review import DetectorPrecision, Draws, ReviewerAgreement
from schemas.row import Row
from tasks.judging.agreement.choices import majority_counts, preferred
from tasks.judging.agreement.experts import experts
from tasks.providers.embedded.texts import root_phrases
from tasks.review.alarms import alarm_labels
from tasks.review.battles import experts_of, people_of
from tasks.review.session import Figures
from tasks.storage.keyed_ids import Pseudonyms, store_key
from tasks.storage.lock import writing
from tasks.storage.tables import Store, frame_of
from tasks.written_bench import figures
from tasks.written_bench.findings import finding_tables
from tasks.written_bench.written_items import check_known


def print_figures(figures: Figures, queues: Collection[str], as_json: bool) -> None:
    """Precision of detectors and agreement of reviewers, of some queues or, without any, of all."""
    precisions = [row for row in figures.precisions if not queues or row.detector in queues]
    agreements = [row for row in figures.agreements if not queues or row.queue.partition(":")[0] in queues]
    if as_json:
        print_rows("figures", [*precisions, *agreements], as_json)
        return
    if not precisions and not agreements:
        print("no finding of a detector was reviewed, and no item by two reviewers; see `curate review serve`")
    if precisions:
        print_rows("precision", [_with_interval(row, "precision", "") for row in precisions], titled=True)
    if agreements:
        print_rows("agreement", [_with_interval(row, "kappa", "kappa_") for row in agreements], titled=True)


def _with_interval(row: DetectorPrecision | ReviewerAgreement, figure: str, prefix: str) -> dict[str, object]:
    """The columns of a row, with a figure and its interval in one."""
    values = row.model_dump(mode="json")
    ends = (values[figure], *(values.pop(f"{prefix}ci95_{end}") for end in ("low", "high")))
    return values | {figure: None if None in ends else "{:.3f} ({:.3f} to {:.3f})".format(*ends)}


def print_yields(store: Store, bench: str, as_json: bool) -> None:
    """Items: shares that are correct, by images and family, how raters agree, and what the items are."""
    check_known(store, bench)
    facts = figures.facts_of_store(store, bench)
    tables = {
        **finding_tables(store, bench),
        "families": frame_of(figures.FamilyFigures, figures.family_figures(facts)),
        "asked_for": frame_of(figures.AskedFor, figures.asked_for(facts, root_phrases)),
        "pictured": frame_of(figures.Pictured, figures.pictured(facts)),
    }
    for name, rows in tables.items():
        print_rows(name, rows.to_dicts(), as_json, titled=True)
    print("`curate decide --policy authored` drops what is incorrect or harmful", file=sys.stderr)


def print_rates(rows: Sequence[Row], as_json: bool) -> None:
    """Generated items: how often a majority says that description and question fit."""
    print_rows("reviews", [row.model_dump(mode="json") for row in rows], as_json, titled=True)


def print_experts(wanted: Draws, as_json: bool, rounds: int) -> None:
    """Battles: how far experts agree with the people's votes and with each other, and the boards of both."""
    battles = anonymous_battles_of(wanted)
    said = experts_of(existing(wanted.store), battles["question_id"].to_list())
    if not said:
        raise BadInput("no expert reviewed a battle of this store; see `curate review serve battles`")
    found = experts(people_of(battles), said, battles, rounds, wanted.seed)
    print_agreement(found.pairs, as_json)
    print_raters(found.raters, as_json)
    if found.boards is None:
        note("fewer than two models have an expert's verdict, so there is no board")
    elif as_json:
        print(json.dumps({"board": "experts", "reference": "people", **found.boards.model_dump(mode="json")}))
    else:
        print_rows("boards", [found.boards])


def write_labels(store: Store, file: Path) -> None:
    """Verdicts on stretches that were found, as labels without texts."""
    labels = alarm_labels(store)
    labels.write_csv(file)
    print(file)
    note(f"{labels.height:,} stretches, {(labels['personal'] == 'no').sum():,} false alarms")


def write_battles(wanted: Draws, file: Path) -> None:
    """Preferences as battles, with each rater as a keyed hash."""
    with writing(wanted.store) as store:  # the first one makes the key
        every, _ = tuples_of(store, wanted.bench or "", True)
        battles, unknown = preferred(store, every, Pseudonyms(store_key(store)))
    battles.write_csv(file)
    print(file)
    votes = ", ".join(f"{pairs:,} with {count}" for count, pairs in majority_counts(battles).items())
    note(f"{battles.height:,} choices; pairs by number of choices: {votes}; {unknown:,} on other answers")
