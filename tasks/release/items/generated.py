"""`generated/items.parquet`: one row for each released prompt that was made on demand, with options and key.

The key is public: whoever wants items that nobody has seen makes a benchmark of another seed or capability.
"""

from collections.abc import Collection, Iterator
from pathlib import Path

import polars as pl

from schemas.generated import Capability
from schemas.release import Manifest, ReleasedGenerated
from schemas.row import arrow_schema
from tasks.providers import EMBEDDED, MAKERS
from tasks.providers.embedded.pii.patterns import find_patterns
from tasks.providers.embedded.pii.text_pii import without_overlaps
from tasks.release.declared import READ_ERRORS, sound_groups
from tasks.release.identifiers import identifiers_in
from tasks.release.items.written import released_prompts
from tasks.storage.parquet import conform, parquet_writer, read_parquet_groups
from tasks.storage.tables import Store, frame_of

GENERATED = "generated/items.parquet"
"""Path in a release."""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def write_generated_file(store: Store, staging: Path, forbidden: Collection[str]) -> list[str]:
    """Write the file, if the release has such a prompt; returns the capabilities whose makers were stand-ins."""
    released = set(released_prompts(staging))
    items = store.read("generated_items").filter(pl.col("item_id").is_in(sorted(released))).sort("item_id")
    if items.is_empty():
        return []
    rows = [_row(store, item, forbidden) for item in _joined(store, items).iter_rows(named=True)]
    target, schema = staging / GENERATED, arrow_schema(ReleasedGenerated)
    target.parent.mkdir(parents=True, exist_ok=True)
    with parquet_writer(target, schema) as file:
        file.write(conform(frame_of(ReleasedGenerated, rows), schema))
    return sorted(name for name in MAKERS if any(getattr(row, name) == EMBEDDED for row in rows))


def _joined(store: Store, items: pl.DataFrame) -> pl.DataFrame:
    """Items with their bench, their description, and the alignment of the image that they are about."""
    benches = store.read("generated_benches", ["bench", "capability", "providers"])
    descriptions = store.read("generated_descriptions", ["description_id", "description"]).unique("description_id")
    images = store.read("generated_images", ["description_id", "attempt", "image_id"])
    scores = store.read("alignments", ["description_id", "attempt", "score", "answers"])
    measured = images.join(scores, on=["description_id", "attempt"]).drop("attempt")
    measured = measured.unique(["description_id", "image_id"], keep="last", maintain_order=True)
    found = items.join(benches, on="bench").join(descriptions, on="description_id")
    return found.join(measured, on=["description_id", "image_id"], maintain_order="left")


def _row(store: Store, item: dict[str, object], forbidden: Collection[str]) -> ReleasedGenerated:
    capability = Capability.model_validate_json(str(item["capability"])).name
    providers, answers = item["providers"], item["answers"]
    assert isinstance(providers, list) and isinstance(answers, list)
    made_by = dict(each.split("=", 1) for each in providers)
    description = str(item["description"])
    return ReleasedGenerated(
        **{name: item[name] for name in ("bench", "general", "aspect", "level", "kind", "question", "options", "key")},
        question_id=str(item["item_id"]),
        capability=capability,
        description=None if _personal(description) & set(forbidden) else description,
        alignment=float(str(item["score"])),
        failed_elements=list(dict.fromkeys(each["element"] for each in answers if not each["right"])),
        **{name: _short(made_by.get(name, EMBEDDED)) for name in sorted(MAKERS)},
    )  # fmt: skip


def _short(provider: str) -> str:
    """A provider's name without a folder of weights, which is a path."""
    return provider.partition(":")[0]


def _personal(text: str) -> set[str]:
    return {span.type for span in without_overlaps(find_patterns(text))}


def wrong_generated(folder: Path, manifest: Manifest, forbidden: frozenset[str]) -> Iterator[str]:
    """Problems of the file: unknown prompts, keys that name no option, unnamed stand-ins, personal data."""
    if not (folder / GENERATED).is_file():
        return
    try:
        rows = pl.concat(sound_groups(folder / GENERATED))
    except READ_ERRORS as error:
        yield f"{GENERATED}: its pages cannot be read ({type(error).__name__})"
        return
    known = pl.Series(list(released_prompts(folder)), dtype=pl.String)
    for name in rows.filter(~pl.col("question_id").is_in(known.implode()))["question_id"]:
        yield f"{GENERATED}: {name!r} is no prompt of the benchmark"
    if rows["question_id"].is_duplicated().any():
        yield f"{GENERATED}: a prompt is there more than once"
    for name, options, key in rows.select("question_id", "options", "key").iter_rows():
        if key not in list(LETTERS[: len(options)]) or len(set(options)) < len(options):
            yield f"{GENERATED}: {name!r} has a key that names no option, or equal options"
    for maker in sorted(MAKERS):
        if (rows[maker] == EMBEDDED).any() != (maker in manifest.embedded_providers):
            yield f"{GENERATED}: the manifest does not say rightly whether {maker} is a stand-in"
    texts = ("capability", "general", "aspect", "kind", "question", "description", "author", "pictures", "viewer")
    lists = [rows[name].explode() for name in ("options", "failed_elements")]
    every = pl.concat([*lists, *(rows[name] for name in texts)]).drop_nulls().unique(maintain_order=True)
    for found in identifiers_in(every).values():
        yield f"{GENERATED}: a text holds an identifier: {', '.join(sorted(found))}"
    for text in every:
        if kinds := _personal(text) & forbidden:
            yield f"{GENERATED}: a text holds personal data: {', '.join(sorted(kinds))}"


def changed_generated(old: Path, new: Path) -> Iterator[str]:
    """One sentence when items of both releases differ; nothing when a release has none."""
    if not ((old / GENERATED).is_file() and (new / GENERATED).is_file()):
        return
    before, after = (pl.concat(read_parquet_groups(folder / GENERATED)) for folder in (old, new))
    both = after.join(before, on="question_id", how="semi")
    same = both.join(before, on=before.columns, how="semi", nulls_equal=True).height
    if both.height > same:
        yield f"generated items: {both.height - same:,} of both releases differ in key, options or description"
