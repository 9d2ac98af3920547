"""`curate export`: a release as training data, or with the columns of a published dataset."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import existing, measured_versions, takes
from flows.commands.tables import note
from schemas.errors import BadInput
from schemas.publication import (
    Compat,
    ExportKind,
    FileFormat,
    PreferenceSelection,
    PreferenceStyle,
    SftSelection,
    SftStyle,
)
from schemas.settings import Settings

if TYPE_CHECKING:
    from tasks.report.cases import CaseFigures, ReleasedCases
    from tasks.report.page import Part
    from tasks.storage.queries.signals import Versions
    from tasks.storage.tables import Store

OutOption = Annotated[str, typer.Option("--out", help="New folder, or its s3://… address.")]


@takes("language", "category", "seed", row=SftSelection)
def sft(
    selection: SftSelection,
    release: Annotated[str, typer.Argument(help="Folder of a release, or its s3://… address.")],
    out: OutOption,
    example_format: Annotated[
        SftStyle, typer.Option("--example-format", help="How an example is written.")
    ] = SftStyle.MESSAGES,
    file_format: Annotated[FileFormat, typer.Option("--file-format", help="File format.")] = FileFormat.JSONL,
) -> None:
    """Training data for fine-tuning: conversations of the best models, drawn with a seed, and their images."""
    from tasks.export.destination import destination, record_export
    from tasks.export.sft import export_sft
    from tasks.release.fetched import fetched_of_store, read_manifest

    with fetched_of_store(release) as (folder, store), destination(out) as target:
        record_export(store, out, ExportKind.SFT, read_manifest(folder).version, True, datetime.now(UTC))
        done = export_sft(folder, target, selection, example_format, file_format)
    print(f"{out}: {done['examples']:,} examples, {done['images']:,} images")
    if done["of_test_sets"]:
        print(
            f"left out: {done['of_test_sets']:,} conversations of published test sets (--set test_sets=yes takes them)"
        )


@takes("held_out", "text_only", "category", "seed", row=PreferenceSelection)
def preferences(
    selection: PreferenceSelection,
    release: Annotated[str, typer.Argument(help="Folder of a release, or its s3://… address.")],
    out: OutOption,
    example_format: Annotated[
        PreferenceStyle, typer.Option("--example-format", help="How a preference is written.")
    ] = PreferenceStyle.TRL,
) -> None:
    """Training data for preferences: votes between two answers, with a held-out part on other voters and prompts."""
    from tasks.export.destination import destination, record_export
    from tasks.export.preferences import export_preferences
    from tasks.release.fetched import fetched_of_store, read_manifest

    with fetched_of_store(release) as (folder, store), destination(out) as target:
        record_export(store, out, ExportKind.SFT, read_manifest(folder).version, True, datetime.now(UTC))
        done = export_preferences(folder, target, selection, example_format)
    print(
        f"{out}: " + ", ".join(f"{split} {rows:,}" for split, rows in done.rows.items()) + f", {done.images:,} images"
    )
    if done.left_out:
        print("votes left out: " + ", ".join(f"{reason} {votes:,}" for reason, votes in done.left_out.items()))
    reached = {"the longer answer": done.baselines.longer, "style": done.baselines.style}
    shares = [f"{name} {share:.1%}" for name, share in reached.items() if share is not None]
    if shares:
        print(
            f"held-out pairs that a judge gets right by nothing but: {', '.join(shares)} (of {done.baselines.pairs:,})"
        )


def dataset(
    release: Annotated[str, typer.Argument(help="Folder of a release, or its s3://… address.")],
    out: OutOption,
    compat: Annotated[Compat, typer.Option("--compat", help="Whose columns.")] = Compat.VISIONARENA,
) -> None:
    """Chat, battle and bench with the columns of a published dataset, for code that loads that dataset."""
    from tasks.export.compat import EXPORTS
    from tasks.export.destination import destination, record_export
    from tasks.release.fetched import fetched_of_store, read_manifest

    with fetched_of_store(release) as (folder, store), destination(out) as target:
        record_export(store, out, ExportKind.DATASET, read_manifest(folder).version, True, datetime.now(UTC))
        done, all_rows = EXPORTS[compat](folder, target), read_manifest(folder).counts
    print(f"{out}: " + ", ".join(f"{name} {rows:,}" for name, rows in done.items()))
    left_out = {name: all_rows[name] - rows for name, rows in done.items() if all_rows[name] > rows}
    if left_out:
        print(
            "left out, without an image or votes on example images: "
            + ", ".join(f"{name} {rows:,}" for name, rows in left_out.items())
        )


@takes("store", "providers")
def figures(settings: Settings, out: OutOption) -> None:
    """Every figure of the report as SVG and PDF, with its table as CSV; of what the store would release now.

    `cases` and `case_…` show prompts that models fail, with picture, reference and answers; `cases.html` has all.
    `examples_…` show what people ask, a prompt of each class.
    """
    from flows.products import item_ids, left_out_items, report_sections
    from schemas.release import CONFIGS
    from tasks.export.destination import record_export
    from tasks.release.gather import Gathered
    from tasks.report.battle_figures import RefusedBattles, mean_win_rates
    from tasks.report.cases import ReleasedCases, case_page, case_parts
    from tasks.report.content import report_content
    from tasks.report.examples import ReleasedExamples
    from tasks.storage.queries.conversation_features import Tallies
    from tasks.storage.queries.released import is_decided

    store, tallies = existing(settings.store), Tallies()
    if not is_decided(store):
        raise BadInput(f"store {settings.store!r} has conversations or battles without a decision; run `curate decide`")
    versions = measured_versions(settings)
    gathered = Gathered(store, versions, settings.bench, item_ids(store), left_out_items(store))
    released, examples, refused = ReleasedCases(store), ReleasedExamples(store), RefusedBattles()
    for config in CONFIGS:
        for rows in gathered.rows(config):
            for collected in (tallies, released, examples, refused):
                collected.add(config, rows)
    cases = _screened_cases(store, versions, released)

    def parts() -> "list[Part]":
        record_export(store, out, ExportKind.FIGURES, "", True, datetime.now(UTC))
        of_report = report_content(store, tallies, report_sections(store)).parts
        return [*of_report, *mean_win_rates(of_report), *refused.parts(), *examples.parts(), *case_parts(cases)]

    write_new_figures(out, parts, {"cases.html": case_page(cases)} if cases.cases else {})
    if cases.withheld:
        reason = "the policy stops them, or they wait to be screened, which `curate sample` does"
        note(f"{cases.withheld:,} references and answers of cases are left out: {reason}")


def _screened_cases(store: "Store", versions: "Versions", released: "ReleasedCases") -> "CaseFigures":
    """The cases with references and later answers as far as the policy lets them out as they are."""
    from tasks.policy.answers import screened
    from tasks.storage.queries.released import decided_policy

    policy, texts = decided_policy(store), released.to_screen()
    rows = screened(store, policy, versions, texts) if policy and texts.height else []
    unchanged = dict(texts.select("item_id", "text").iter_rows())
    return released.figures({row.item_id for row in rows if not row.reasons and row.text == unchanged[row.item_id]})


def write_new_figures(
    out: str, make_parts: Callable[[], "Sequence[Part]"], pages: "Mapping[str, str] | None" = None
) -> None:
    """Write figures, their tables, and pages (name -> HTML) to a new folder, renamed into place when complete.

    Raises BadInput where there is one, before any figure is made.
    """
    from tasks.export.destination import destination
    from tasks.report.page import write_figures

    with destination(out) as folder:
        if folder.exists():
            raise BadInput(f"{out!r} exists already; give a folder that does not")
        parts = make_parts()
        staging = folder.with_name(f".{folder.name}.unfinished")
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
        boxes = write_figures(staging, parts)
        for name, page in (pages or {}).items():
            (staging / name).write_text(page, encoding="utf-8")
        staging.rename(folder)
    print(f"{out}: {len(parts):,} figures, each as .svg, .pdf and .csv")
    if boxes:
        note(f"no font here has some characters, which are boxes in the PDF of {', '.join(boxes)}")
