"""Items made on demand in a release: their prompts are `bench` alone, with keys, and stand-ins are named."""

import shutil
from pathlib import Path

import polars as pl
import pytest

from flows.products import problems_of
from schemas.benches.generated import GeneratedItem
from schemas.benches.generated_results import AuditAnswer, ItemReview
from schemas.benches.judging import Answer
from schemas.items.review import Review
from schemas.release import Manifest
from schemas.settings import Settings
from tasks.generated_bench.generated_file import GENERATED, GENERATED_ITEMS
from tasks.generated_bench.items import kept_items
from tasks.generated_bench.results.boards import GENERATED_BOARDS
from tasks.generated_bench.steps import rate_generated
from tasks.policy.policy_file import load_policy
from tasks.release.item_boards import ITEM_BOARDS_SINCE
from tasks.release.registered import OpenRelease, board_csv
from tasks.storage.queries.released import mark_decided
from tasks.storage.tables import Store, frame_of
from tests.builders import measure_clean
from tests.generated_bench import NAME, decided, review_of_generated, settings_for
from tests.small_store import make_release
from tests.tampered_release import add_file, as_of_layout


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    from schemas.items.conversation import Conversation

    settings = settings_for(tmp_path_factory.mktemp("made"), general=1, fine=1)
    store = decided(
        settings.model_copy(update={"seed": 1})
    )  # of some seeds one prompt is reserved for the hidden split
    measure_clean(store, [Conversation.model_validate(row) for row in store.read("conversations").to_dicts()])
    policy = load_policy("public_release")
    decided_by = store.read("decisions", ["policy_hash"])["policy_hash"][0]
    store.write_bytes(f"policies/{decided_by}.json", policy.model_dump_json().encode())
    mark_decided(store)
    _answered(store)
    return store


def _answered(store: Store) -> None:
    """Model `knows` names every key, `first` always A; asked again without the image, `knows` is wrong."""
    items = [GeneratedItem.model_validate(row) for row in store.read("generated_items").to_dicts()]
    documents = dict(store.read("conversations", ["conversation_id", "document_id"]).iter_rows())
    rows = [
        Answer(
            question_id=item.item_id, model=model, state="complete", text=f"[{letter}]", version=f"{model}+1", tokens=1,
            document_id=documents[item.item_id],
        )
        for item in items
        for model, letter in (("knows", item.key), ("first", "A"))
    ]  # fmt: skip
    blind = [
        AuditAnswer(
            item_id=item.item_id, model="knows", mode="blind", key=item.key, letter=None, text="?", version="knows+1"
        )
        for item in items
    ]
    store.replace("answers", frame_of(Answer, rows))
    store.replace("audit_answers", frame_of(AuditAnswer, blind))


@pytest.fixture(scope="module")
def release(store) -> Path:
    """A release from which one item is left out, because raters found it unfit."""
    unfit = kept_items(store, NAME).items[0].item_id
    review = ItemReview(item_id=unfit, rater="r", guided=True, description_fits=False, question_fits=True)
    store.replace("reviews", frame_of(Review, [review_of_generated(review)]))
    rate_generated.fn(Settings(store=store.root))
    make_release(store, reported=True, release="1.0.0")
    return Path(store.root) / "releases" / "1.0.0"


def test_accuracy_by_slice_alignment_and_audit_are_on_its_boards_card_and_report(store, release):
    accuracy = pl.read_parquet(release / "leaderboard/generated/accuracy.parquet")
    overall = {row["model"]: row for row in accuracy.filter(slice="overall").to_dicts()}
    assert (overall["knows"]["right"], overall["knows"]["items"], overall["knows"]["rank"]) == (5, 5, 1)
    keys = [item.key for item in kept_items(store, NAME).items]
    assert overall["first"]["right"] == keys.count("A"), "of the kept items; one is left out"
    assert {name.partition(":")[0] for name in accuracy["slice"]} == {"overall", "level", "aspect", "type"}
    alignment = pl.read_parquet(release / "leaderboard/generated/alignment.parquet").row(0, named=True)
    assert alignment["images"] >= 6 and alignment["whole"] > 0.5
    audit = pl.read_parquet(release / "leaderboard/generated/audit.parquet").filter(measure="blind_accuracy")
    assert set(audit["value"]) == {0.0}
    card = (release / "README.md").read_text()
    assert "**scenes: accuracy by level.**" in card and "| 1 | knows | 100 % of 5 |" in card
    for key in ("accuracy", "ranks", "alignment", "audit"):
        assert (release / f"report/figures/generated_{key}.svg").is_file()


def test_the_card_speaks_of_a_benchmark_and_no_file_is_of_conversations_or_votes(release):
    card = (release / "README.md").read_text()
    assert card.startswith("---\npretty_name: Benchmark scenes\n") and "\n# Benchmark scenes\n" in card
    assert "| **this release, bench** | 5 | – | – | – | 5 | 100.0 | 1.00 | – | – | no |" in card
    for words in (
        "Vision arena conversations",
        "raw logs",
        "drawn uniformly",
        "## Categories",
        "kept conversations",
        "user_id",
    ):
        assert words not in card, words
    tables = {path.relative_to(release).as_posix(): pl.read_parquet(path) for path in release.rglob("*.parquet")}
    assert [name for name, rows in tables.items() if rows.is_empty()] == []
    assert {name.partition("/")[0] for name in tables} == {"bench", "generated", "leaderboard"}


def test_card_and_report_count_items_and_name_no_log_days(release):
    card, page = ((release / name).read_text() for name in ("README.md", "report/index.html"))
    assert "6 items = 6 kept + 0 dropped + 0 rejected." in card and "| reason | items |" in card
    assert "<title>Release report: Version 1.0.0 of a benchmark</title>" in page and "<b>6</b>items</div>" in page
    for text in (card, page):
        assert "log lines" not in text and "2023-01-01" not in text
    assert problems_of(release) == []


def test_a_benchmark_under_another_name_or_with_another_row_in_the_table_does_not_verify(release, tmp_path):
    for number, (old, new) in enumerate(
        (("# Benchmark scenes", "# Benchmark faces"), ("bench** | 5 |", "bench** | 500 |"), ("scenes\nlic", "x\nlic"))
    ):
        own = Path(shutil.copytree(release, tmp_path / str(number)))
        text = (own / "README.md").read_text()
        assert text.count(old) == 1
        add_file(own, "README.md", text.replace(old, new).encode())
        assert any("README.md" in problem for problem in problems_of(own)), old


def test_what_needs_conversations_or_votes_refuses_a_benchmark_in_one_line(release, refused, tmp_path):
    assert "has no conversation" in refused("export", "sft", release, "--out", tmp_path / "sft")
    assert "none of its 0 votes is a preference" in refused(
        "export", "preferences", release, "--out", tmp_path / "pairs"
    )
    assert "does not exist" in refused("rate", release)


def test_an_impossible_board_does_not_verify(release, tmp_path):
    manifest = Manifest.model_validate_json((release / "manifest.json").read_text())
    path = tmp_path / "leaderboard/generated/accuracy.parquet"
    path.parent.mkdir(parents=True)
    (tmp_path / "generated").symlink_to(release / "generated")
    rows = pl.read_parquet(release / "leaderboard/generated/accuracy.parquet").with_columns(right=pl.col("items") + 1)
    rows.write_parquet(path)
    path.with_suffix(".csv").write_text(board_csv(rows, 4))
    problems = list(GENERATED_BOARDS.wrong(OpenRelease(tmp_path, manifest, None)))
    assert any("accuracy is not right / items" in each for each in problems), problems


def test_a_release_of_an_earlier_version_which_declares_no_such_tables_stays_whole(release, tmp_path):
    own = Path(shutil.copytree(release, tmp_path / "own"))
    shutil.rmtree(own / "leaderboard")
    card = (own / "README.md").read_text()
    start = card.index(GENERATED_BOARDS.section.title)
    (own / "README.md").write_text(card[:start] + card[card.index("\n## ", start) + 1 :])
    as_of_layout(own, ITEM_BOARDS_SINCE - 1)
    assert problems_of(own) == []
    add_file(own, "leaderboard/generated/audit.parquet", (release / "leaderboard/generated/audit.parquet").read_bytes())
    assert any("differ from the declared ones" in each for each in problems_of(own))


def test_its_stand_ins_and_prompts_are_in_bench_and_manifest_with_options_and_key(release, store):
    manifest = Manifest.model_validate_json((release / "manifest.json").read_text())
    assert {"author", "pictures", "viewer"} <= set(manifest.embedded_providers)
    items = {item.item_id: item for item in kept_items(store, NAME).items}
    rows = {row["question_id"]: row for row in pl.read_parquet(release / GENERATED).to_dicts()}
    asked = pl.read_parquet(release / "bench" / "data" / "*.parquet")
    assert rows.keys() == set(asked["question_id"]) == items.keys() and len(items) == 5
    for name, row in rows.items():
        assert (row["key"], row["options"], row["aspect"]) == (items[name].key, items[name].options, items[name].aspect)
        assert row["description"] and row["capability"] == "spatial" and 0.8 <= row["alignment"] <= 1
    assert not (release / "chat").exists(), "not even the one that is left out"
    assert problems_of(release, store) == []


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"key": pl.lit("Z")}, "a key that names no option"),
        ({"question_id": pl.lit("unknown")}, "'unknown' is no prompt of the benchmark"),
        ({"author": pl.lit("openai")}, "whether author is a stand-in"),
        ({"description": pl.lit("Write to jan.kowalski@example.org.")}, "personal data: email"),
        ({"question": pl.lit("What is at 203.0.113.77?")}, "holds an identifier"),
    ],
)
def test_a_changed_file_does_not_verify(release, tmp_path, changed, told):
    manifest = Manifest.model_validate_json((release / "manifest.json").read_text())
    (tmp_path / "generated").mkdir()
    (tmp_path / "bench").symlink_to(release / "bench")
    rows = pl.read_parquet(release / GENERATED)
    rows.write_parquet(tmp_path / GENERATED)
    opened = OpenRelease(tmp_path, manifest, None)
    assert list(GENERATED_ITEMS.wrong(opened)) == []
    rows.with_columns(**changed).write_parquet(tmp_path / GENERATED)
    assert any(told in each for each in GENERATED_ITEMS.wrong(opened))
    if "key" in changed:
        assert "differ in key, options or description" in next(GENERATED_ITEMS.changed(release, tmp_path))
