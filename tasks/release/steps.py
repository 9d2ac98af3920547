"""Prefect tasks of release: build in a staging folder, seal with card and manifest, move into place."""

import hashlib
import json
import shutil
from collections.abc import Collection, Iterator, Sequence
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from fsspec.implementations.local import LocalFileSystem
from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.errors import BadInput, ProviderHeld, UnsafeName
from schemas.policy import Policy, policy_hash, released_policy
from schemas.release import CONFIGS, Manifest
from schemas.run import Funnel, StageReport
from schemas.settings import Settings
from schemas.tables import TABLES
from tasks.prompts import replaced_hashes
from tasks.providers import EMBEDDED, MAKERS, Providers
from tasks.providers.embedded_figures import stated
from tasks.release.build import (
    EarlierRelease,
    checked_version,
    earlier_release,
    place_release,
    sealed_manifest,
    staging_folder,
)
from tasks.release.checks.failing import failing_lines, mostly_unmeasured
from tasks.release.checks.names import NamesFound
from tasks.release.contents import ImageLists, declared_columns, identifiers_in_files
from tasks.release.core_parts import CORE_PARTS, MAP, MapFile
from tasks.release.dataset_card import (
    COMPARED,
    Statistics,
    benchmark_cells,
    benchmark_names,
    card_sections,
    configs_with_rows,
    dataset_card,
)
from tasks.release.diff import since_earlier
from tasks.release.gather import Gathered
from tasks.release.registered import ReleasePart, Unsealed, stated_files
from tasks.release.shards import RELEASE_LAYOUT, ReleasedImages, shard_rows, write_shards
from tasks.runtime.steps import step
from tasks.storage.keyed_ids import UNFINISHED
from tasks.storage.parquet import parquet_rows
from tasks.storage.queries.bench import bench_evidence, fit_in_use
from tasks.storage.queries.conversation_features import Tallies
from tasks.storage.queries.released import (
    days,
    decided_hash,
    is_decided,
    release_version,
    require_decided_policy,
    unmeasured,
)
from tasks.storage.queries.signals import Versions
from tasks.storage.records import funnel, run_records
from tasks.storage.tables import Store

_RELEVANT = {"seed", "topics", "bench"} | {
    "bootstraps", "anchor_model", "anchor_rating", "interval", "cluster", "both_bad", "style_preset",
    "exclude_outlier_judges", "with_answers", "device",
}  # fmt: skip


_REASONS = """
    -- a row is one decided conversation or battle, and the reasons for which it is dropped
    SELECT reasons FROM decisions
"""
_KEPT_ITEMS = """
    -- a row is a kind of item, and how many of it are kept
    SELECT item_kind, count(*) AS items FROM decisions WHERE keep GROUP BY item_kind
"""


class Built(NamedTuple):
    """Shards in a staging folder."""

    staging: Path
    counts: dict[str, int]
    """The manifest's."""
    statistics: dict[str, tuple[str, ...]]
    """Configuration -> cells of the card's statistics table."""
    images: dict[str, str]
    """The manifest's."""
    shards: dict[str, str]
    """The manifest's."""
    tallies: Tallies
    """The rows counted, for the report."""
    earlier: EarlierRelease | None
    """The release whose shards were taken over."""


@step
def check_providers(settings: Settings) -> StageReport:
    """Raise ProviderHeld when a chosen provider failed for a larger share of items than `failed_share_max`.

    Also when most items lack a signal that a rule needs, whoever measures it: after an upgrade its version is another.
    """
    store = Store.open(settings.store)
    chosen = {capability: name for capability, name in settings.providers.items() if name != EMBEDDED}
    lines = failing_lines(run_records(store), chosen, settings.failed_share_max) if chosen else []
    if lines:
        raise ProviderHeld(
            f"held before the release: {'; '.join(lines)}; at most {settings.failed_share_max:.1%} may. What was "
            "measured is kept: check the provider and run again, or release without these values with "
            "--set failed_share_max=1"
        )
    measured_by = Providers(settings.providers).names
    if line := mostly_unmeasured(store.batches(_REASONS), measured_by, settings.failed_share_max):
        raise ProviderHeld(
            f"held before the release: {line}; run `curate run` first, or `curate measure`, `curate decide` and, for "
            "what is kept then, `curate measure` again; --set failed_share_max=1 releases without these items"
        )
    return StageReport(stage="check_providers", counts={"providers": len(chosen)})


def unchanged_release(settings: Settings, versions: Versions) -> StageReport | None:
    """The last release of the store, if all that it was made from is as it was; None otherwise."""
    store = Store.open(settings.store)
    last = earlier_release(store, RELEASE_LAYOUT)
    if last is None or store.read_bytes(UNFINISHED) is not None:
        return None
    if last.made_from != _made_from(store, settings, versions):
        return None
    return StageReport(
        stage="release",
        counts=last.manifest.counts | {"new": 0},
        result=f"releases/{last.manifest.version}",
        made_from=last.made_from,
        notes=["nothing has changed that it was made from"],
    )


def _made_from(store: Store, settings: Settings, versions: Versions) -> str:
    """Digest of tables, settings, signal versions, prompts, our files and installed packages."""
    root, others = Path(__file__).parents[2], Path(pl.__file__).parents[1]
    ours = (path for name in ("flows", "schemas", "tasks") for path in (root / name).rglob("*"))
    files = sorted((str(path), path.stat().st_mtime_ns) for path in ours if path.suffix not in ("", ".pyc"))
    packages = sorted(path.name for path in others.glob("*.dist-info"))
    tables = {table: store.parts(table) for table in TABLES}
    basis = [
        tables,
        settings.model_dump(mode="json", exclude={"store", "redraw"}),
        dict(versions),
        replaced_hashes(),
        files,
        packages,
    ]
    return hashlib.blake2b(json.dumps(basis, sort_keys=True).encode(), digest_size=16).hexdigest()


@task(cache_policy=NO_CACHE)
def build_release(settings: Settings, versions: Versions, items: pl.Series, left_out: Collection[str]) -> Built:
    """Write shards to a staging folder.

    `items`: conversations that are items of written or generated benchmarks, which are in `bench` but for `left_out`.
    Raises UnsafeName for names that would identify somebody.
    """
    store = Store.open(settings.store)
    if store.height("decisions") == 0:
        raise BadInput(f"store {settings.store!r} holds no decisions to release; run the stages before it first")
    if store.read_bytes(UNFINISHED) is not None:
        raise BadInput(
            "a takedown was interrupted, so nothing may be released; finish it with `curate takedown --store …`"
        )
    if not is_decided(store):
        raise BadInput(
            f"store {settings.store!r}: conversations or battles changed after the decisions were made, so some were "
            "never screened; run `curate decide`, or `curate run` with the logs, before the release"
        )
    policy = require_decided_policy(store)
    staging = staging_folder(store)
    shutil.rmtree(staging, ignore_errors=True)  # left by a killed build
    staging.mkdir(parents=True, mode=0o777 if isinstance(store.fs, LocalFileSystem) else 0o700)
    gathered = Gathered(store, versions, settings.bench, items, left_out)
    counts = dict.fromkeys(CONFIGS, 0)
    statistics = {config: Statistics(config) for config in COMPARED}
    image_lists = {config: ImageLists(config) for config in CONFIGS}
    images, tallies = ReleasedImages(store), Tallies()
    names = NamesFound(policy)

    def counted(config: str) -> Iterator[pl.DataFrame]:
        for rows in gathered.rows(config):
            names.add(config, rows)
            counts[config] += rows.height
            image_lists[config].add(rows)
            points.add(config, rows)
            tallies.add(config, rows)
            if config in statistics:
                statistics[config].add(rows)
            yield rows

    expected = _expected(store)
    earlier, shards = earlier_release(store, RELEASE_LAYOUT), dict[str, str]()
    with MapFile(staging) as points:
        for config in CONFIGS:
            to = staging / config / "data"
            key_of_file = write_shards(config, counted(config), images, to, shard_rows(expected[config]), earlier)
            shards |= {path.relative_to(staging).as_posix(): key for path, key in key_of_file.items() if key}
    names.require_none(store)
    if len(items) and configs_with_rows(counts) == ["bench"]:
        shards = {name: key for name, key in shards.items() if name.startswith("bench/")}
        _without_empty_files(staging)
    counts["withheld_for_bench"] = gathered.withheld_for_bench
    cells = {config: figures.cells() for config, figures in statistics.items()}
    listed = {config: image_list.hexdigest() for config, image_list in image_lists.items()}
    return Built(staging, counts, cells, listed, shards, tallies, earlier)


def _without_empty_files(staging: Path) -> None:
    """Remove the files without rows of a release that is a benchmark alone (`is_benchmark_alone`)."""
    for config in {*CONFIGS} - {"bench"}:
        shutil.rmtree(staging / config)
    if not parquet_rows(staging / MAP):
        shutil.rmtree((staging / MAP).parent)


def _expected(store: Store) -> dict[str, int]:
    """Configuration -> about how many rows it will have; the same for the same tables."""
    items_by_kind = dict(store.ask(_KEPT_ITEMS).iter_rows())
    drawn = {table: store.height(table) for table in ("bench", "failures")}
    return {"chat": items_by_kind.get("conversation", 0), "battle": items_by_kind.get("battle", 0), **drawn}


@step
def seal_release(
    settings: Settings, providers: Providers, versions: Versions, built: Built, parts: Sequence[ReleasePart]
) -> StageReport:
    """Write leaderboards, `parts` of products, card and manifest, then move the folder to `releases/<version>`."""
    store, staging = Store.open(settings.store), built.staging
    gone, decided = funnel(store), str(decided_hash(store))
    policy = require_decided_policy(store)
    unsealed = Unsealed(store, staging, built.counts, versions, policy, decided, _relevant(settings))
    made_of = [*CORE_PARTS, *parts]
    statements = [part.write(unsealed) for part in made_of]
    stand_ins = [*providers.stand_ins, *(name for statement in statements for name in statement.stand_ins)]
    manifest = _manifest(store, settings, providers, versions, gone, built, sorted(stand_ins), policy)
    judge = next((statement.judge for statement in statements if statement.judge), {})
    manifest = manifest.model_copy(update={"judge": judge})
    sections = card_sections(staging, built.counts["bench"], made_of)
    cells, names = built.statistics | benchmark_cells(staging), benchmark_names(staging)
    card = dataset_card(manifest, gone, cells, bench_evidence(store), sections, names)
    (staging / "README.md").write_text(card, encoding="utf-8")
    manifest = sealed_manifest(manifest, staging, stated_files(made_of))
    if problems := list(identifiers_in_files(staging, manifest)):
        raise UnsafeName(
            f"nothing was released, because a file of it would identify somebody: {problems[0]}; see that models that "
            "answer or judge, reviewers and topics have other names, and run again"
        )
    changed = since_earlier(built.earlier, manifest, staging) if built.earlier else []
    chosen_by_user = settings.release is not None
    version, new = place_release(
        store, staging, manifest.version, chosen_by_user, built.earlier, [*stated_files(made_of)]
    )
    if built.earlier:
        built.earlier.close()
    counts = manifest.counts | {"new": int(new)}
    return StageReport(
        stage="release",
        counts=counts,
        result=f"releases/{version}",
        made_from=_made_from(store, settings, versions),
        changed=changed if new else [],
    )


def _relevant(settings: Settings) -> dict[str, Any]:
    return settings.model_dump(mode="json", include=_RELEVANT)


def _drawn_with(store: Store) -> dict[str, str | None]:
    """Entries of the manifest about topic fit and draw: with which policies they were made, as released ones."""

    def released(decided: str | None) -> str | None:
        stored = decided and store.read_bytes(f"policies/{decided}.json")
        return policy_hash(released_policy(Policy.model_validate_json(stored))) if stored else None

    fit, draw = fit_in_use(store), store.read("bench_draws")
    return {
        "topics_fit": fit.model if fit else None,
        "topics_fit_day": str(fit.fit_day) if fit else None,
        "topics_fit_policy": released(fit.policy_hash) if fit else None,
        "bench_policy": released(draw["policy_hash"][0]) if draw.height and store.height("bench") else None,
    }


def _manifest(
    store: Store,
    settings: Settings,
    providers: Providers,
    versions: Versions,
    gone: Funnel,
    built: Built,
    stand_ins: list[str],
    policy: Policy,
) -> Manifest:
    of_days, public_policy = days(store), released_policy(policy)
    return Manifest(
        version=checked_version(release_version(store, settings.release)),
        software=installed_version("arena-curation"),
        layout=RELEASE_LAYOUT,
        embedded_providers=stand_ins,
        embedded_figures={name: stated(name) for name in stand_ins},
        limited_tags=providers["categories"].limited if providers.names["categories"] == EMBEDDED else {},
        providers={c: name for c, name in providers.names.items() if c not in MAKERS},
        signal_versions=dict(sorted(versions.items())),
        prompts=replaced_hashes(),
        unmeasured=unmeasured(store, versions, {c: name for c, name in providers.names.items() if name != EMBEDDED}),
        policy=public_policy.model_dump(mode="json"),
        banned_users=len(policy.banned_users),
        policy_hash=policy_hash(public_policy),
        settings=_relevant(settings),
        **_drawn_with(store),
        first_day=str(of_days[0]),
        last_day=str(of_days[-1]),
        counts=built.counts,
        funnel=gone.model_dump(),
        files={},
        columns=declared_columns(),
        images=built.images,
        languages=built.tallies.languages(),
        shards=built.shards,
    )
