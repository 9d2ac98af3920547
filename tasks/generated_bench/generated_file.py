"""`generated/items.parquet`: one row for each released prompt that was made on demand, with options and key.

The key is public: whoever wants items that nobody has seen makes a benchmark of another seed or capability.
"""

from collections.abc import Collection, Iterator

import polars as pl

from schemas.benches.generated import Capability
from schemas.policy import Policy
from schemas.release import ReleasedGenerated
from tasks.generated_bench.wordings import ALPHABET, named_letters
from tasks.providers import EMBEDDED, MAKERS
from tasks.release.contents import forbidden_data, personal_data, sound_items, wrong_identifiers, wrong_texts
from tasks.release.registered import (
    OpenRelease,
    ReleasePart,
    RowsOf,
    ShownSection,
    Stated,
    Unsealed,
    changed_items,
    path_in_release,
    write_table,
)
from tasks.release.shards import released_prompts
from tasks.storage.tables import Store, frame_of

GENERATED_TABLE = "generated"
GENERATED = path_in_release(GENERATED_TABLE)


def write_generated(unsealed: Unsealed) -> Stated:
    """Write the file, if the release has such a prompt; names the capabilities whose makers were stand-ins."""
    store, forbidden = unsealed.store, forbidden_data(unsealed.policy)
    released = sorted(set(released_prompts(unsealed.folder)))
    items = store.read("generated_items").filter(pl.col("item_id").is_in(released)).sort("item_id")
    if items.is_empty():
        return Stated()
    rows = [_row(item, forbidden) for item in _joined(store, items).iter_rows(named=True)]
    write_table(unsealed.folder, GENERATED_TABLE, frame_of(ReleasedGenerated, rows))
    return Stated(stand_ins=[name for name in MAKERS if any(getattr(row, name) == EMBEDDED for row in rows)])


def _joined(store: Store, items: pl.DataFrame) -> pl.DataFrame:
    """Items with their bench, their description, and the alignment of the image that they are about."""
    benches = store.read("generated_benches", ["bench", "capability", "providers"])
    descriptions = store.read("generated_descriptions", ["description_id", "description"]).unique("description_id")
    images = store.read("generated_images", ["description_id", "attempt", "image_id"])
    scores = store.read("alignments", ["description_id", "attempt", "score", "answers"])
    measured = images.join(scores, on=["description_id", "attempt"]).drop("attempt")
    measured = measured.unique(["description_id", "image_id"], keep="last", maintain_order=True)
    described_items = items.join(benches, on="bench").join(descriptions, on="description_id")
    return described_items.join(measured, on=["description_id", "image_id"], maintain_order="left")


def _row(item: dict[str, object], forbidden: Collection[str]) -> ReleasedGenerated:
    capability = Capability.model_validate_json(str(item["capability"])).name
    providers, answers = item["providers"], item["answers"]
    assert isinstance(providers, list) and isinstance(answers, list)
    made_by = dict(provider.split("=", 1) for provider in providers)
    description = str(item["description"])
    return ReleasedGenerated(
        **{name: item[name] for name in ("bench", "general", "aspect", "level", "kind", "question", "options", "key")},
        question_id=str(item["item_id"]),
        capability=capability,
        description=None if personal_data(description) & set(forbidden) else description,
        alignment=float(str(item["score"])),
        failed_elements=list(dict.fromkeys(answer["element"] for answer in answers if not answer["right"])),
        **{name: made_by.get(name, EMBEDDED).partition(":")[0] for name in sorted(MAKERS)},  # no folder of weights
    )  # fmt: skip


def wrong_generated(release: OpenRelease) -> Iterator[str]:
    """Problems of the file: unknown prompts, keys that name no option, unnamed stand-ins, personal data."""
    rows, problems = sound_items(release.folder, GENERATED_TABLE)
    yield from problems
    if rows is None:
        return
    for name, options, key in rows.select("question_id", "options", "key").iter_rows():
        if key not in list(ALPHABET[: len(options)]) or len(set(options)) < len(options):
            yield f"{GENERATED}: {name!r} has a key that names no option, or equal options"
    for maker in sorted(MAKERS):
        if (rows[maker] == EMBEDDED).any() != (maker in release.manifest.embedded_providers):
            yield f"{GENERATED}: the manifest does not say rightly whether {maker} is a stand-in"
    texts = ("capability", "general", "aspect", "kind", "question", "description", "author", "pictures", "viewer")
    lists = [rows[name].explode() for name in ("options", "failed_elements")]
    every = pl.concat([*lists, *(rows[name] for name in texts)]).drop_nulls().unique(maintain_order=True)
    yield from wrong_identifiers(GENERATED, every)
    yield from wrong_texts(GENERATED, every, forbidden_data(Policy.model_validate(release.manifest.policy)))


def shown_generated(rows_of: RowsOf) -> Iterator[ShownSection]:
    """A section with capability, alignment, makers and key of the item."""
    for row in rows_of(GENERATED_TABLE):
        facts = [
            ("Benchmark", row["bench"]), ("Capability", row["capability"]), ("Aspect", row["aspect"]),
            ("General aspect", row["general"]), ("Level", row["level"]), ("Asks for", row["kind"]),
            ("Alignment", f"{row['alignment']:.2f}"),
            ("Made by", f"author {row['author']}, pictures {row['pictures']}, viewer {row['viewer']}"),
        ]  # fmt: skip
        unseen = ", ".join(dict.fromkeys(row["failed_elements"]))
        texts = [("Description", "what the image was to show", row["description"])] * bool(row["description"])
        texts += [("Not seen in the image", "", unseen)] * bool(unseen)
        question = named_letters(row["question"], row["options"])
        yield ShownSection("Item made on demand", facts, [*texts, ("Question", f"key {row['key']}", question)])


GENERATED_ITEMS = ReleasePart(
    (GENERATED_TABLE,),
    write_generated,
    wrong_generated,
    changed=lambda old, new: changed_items(
        old, new, GENERATED_TABLE, ("generated items", "key, options or description")
    ),
    shown=shown_generated,
)
