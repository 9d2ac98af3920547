"""`written/items.parquet`: whose texts a release holds, and what `verify` says of a changed file."""

from types import SimpleNamespace

import polars as pl
import pytest

from schemas.benches.judging import STAND_IN
from schemas.benches.written import WrittenBy
from schemas.policy import Policy
from tasks.providers.embedded.image_embedding import ImageNetClasses
from tasks.release.checks.card_checks import wrong_sections
from tasks.release.dataset_card import card_sections
from tasks.release.registered import OpenRelease, Unsealed
from tasks.storage.content_id import text_id
from tasks.written_bench.written_file import ITEMS, WRITTEN_ITEMS, hidden_captions
from tests.builders import VERSIONS, facts_frame
from tests.visit_bench import HIDDEN, visit_bench

ASKED = "bench/data/train-00000-of-00001.parquet"
NOTHING_DROPPED = Policy(name="all", rules=[])
SECRET = "Nine blue cups stand upside down on a long wooden table beside a window in the rain."


@pytest.fixture
def staged(tmp_path):
    """A store whose four items were screened, and a folder with their prompts."""
    store, staging = visit_bench(tmp_path / "store", {}), tmp_path / "release"
    texts = [text_id(text) for table in ("captions", "references") for text in store.read(table)["text"]]
    for signal in ("text_pii", "moderation"):
        store.replace(f"signals/{signal}", facts_frame(signal, {text: {} for text in texts}))
    (staging / ASKED).parent.mkdir(parents=True)
    store.read("bench_items").select(question_id="item_id").write_parquet(staging / ASKED)
    return store, staging


def _written(staged):
    store, staging = staged
    WRITTEN_ITEMS.write(Unsealed(store, staging, {}, VERSIONS, NOTHING_DROPPED, "", {}))
    rows = pl.read_parquet(staging / ITEMS)
    assert rows.height == 4
    return rows


def _wrong(staging):
    manifest = SimpleNamespace(policy=NOTHING_DROPPED.model_dump())
    return list(WRITTEN_ITEMS.wrong(OpenRelease(staging, manifest, None)))


def test_one_text_of_the_stand_in_withholds_those_of_its_item(staged):
    store, _ = staged
    by = pl.when(item_id="i0", place=0).then(pl.lit(STAND_IN)).when(item_id="i2").then(pl.lit("people"))
    model = WrittenBy.MODEL.value
    rows = store.read("captions").with_columns(provider=by.otherwise(pl.lit("gpt-4")), written_by=pl.lit(model))
    store.replace("captions", rows)
    released = {row["question_id"]: row for row in _written(staged).to_dicts()}
    assert released["i0"]["captions"] is released["i0"]["captions_by"] is released["i0"]["reference"] is None
    assert (released["i1"]["captions"], released["i1"]["captions_by"]) == (["A cup, 1."], "gpt-4")
    assert released["i2"]["captions_by"] == released["i2"]["reference_by"] == "people"
    assert released[HIDDEN]["captions"] is None


@pytest.mark.parametrize("column", ["captions_by", "reference_by"])
def test_texts_of_the_stand_in_do_not_verify(staged, column):
    rows, (_, staging) = _written(staged), staged
    assert _wrong(staging) == []
    rows.with_columns(pl.lit(f"gpt-4, {STAND_IN}").alias(column)).filter(question_id="i0").write_parquet(
        staging / ITEMS
    )
    assert any("'i0' has captions or a reference of the stand-in" in each for each in _wrong(staging))


def test_a_file_that_quotes_a_hidden_text_is_found(staged):
    store, staging = staged
    secret = pl.when(item_id=HIDDEN).then(pl.lit(SECRET)).otherwise("text")
    store.replace("references", store.read("references").with_columns(text=secret))
    rows = _written(staged)
    assert list(hidden_captions(staging, store)) == []
    quoted = pl.lit(f"I heard: {SECRET.lower()}").alias("origin")
    rows.with_columns(quoted).write_parquet(staging / ITEMS)
    assert list(hidden_captions(staging, store)) == [f"{ITEMS}: holds a caption or reference of the hidden split"]
    (staging / ITEMS).unlink()
    for name in ("README.md", "report/report.html", "leaderboard/overall.csv"):
        (staging / name).parent.mkdir(exist_ok=True)
        (staging / name).write_text(f"a,b\n1,{SECRET}\n")
    told = {each.split(":")[0] for each in hidden_captions(staging, store)}
    assert told == {"README.md", "report/report.html", "leaderboard/overall.csv"}


def test_the_card_says_figures_phrases_and_detected_objects_of_each_family_and_is_held_to_them(staged):
    store, staging = staged
    both = store.read("conversations").filter(conversation_id="i0")["image_ids"][0]
    seen = facts_frame("objects", {both[0]: {"names": ["cup"]}, both[1]: {"names": ["a|b", "cup"]}})
    store.replace("signals/objects", seen.with_columns(version=pl.lit("1+google-vision")))
    rows = _written(staged)
    assert rows["objects"].to_list() == [["cup"], ["a|b", "cup"], ["cup"], ["cup"]]
    turns = [[{"role": "user", "content": "Count the cups. Now."}], [{"role": "user", "content": "Why?"}]]
    asked = pl.read_parquet(staging / ASKED).with_columns(turns=pl.Series([turns[0]] * 3 + [turns[1]]))
    asked.write_parquet(staging / ASKED)
    card = card_sections(staging, 4, [WRITTEN_ITEMS])
    lines = [[cell.strip() for cell in line.split(" | ")] for line in card.splitlines() if line.startswith("| ")]
    whole = next(line for line in lines if line[0] == "| all")
    assert whole[1:4] == ["4", "5", "3"] and whole[-2:] == ["count cup 3", "cup 4, a&#124;b 1 |"]
    assert whole[4:6] == ["3", "3"], "captions of the hidden item are not released, so they are not counted"
    (staging / "README.md").write_text(f"# Card\n\n{card}\n## Columns\n")
    assert list(wrong_sections(staging, 4, [WRITTEN_ITEMS])) == []
    (staging / "README.md").write_text(f"# Card\n\n{card.replace('count cup 3', 'count cup 4')}\n## Columns\n")
    assert list(wrong_sections(staging, 4, [WRITTEN_ITEMS])) == [
        f"README.md: its section about written items is not what {ITEMS} says"
    ]


def test_what_the_embedded_classifier_sees_is_not_released(staged):
    store, _ = staged
    images = store.read("conversations").filter(conversation_id="i0")["image_ids"][0]
    seen = facts_frame("objects", {name: {"names": ["cup"]} for name in images})
    store.replace("signals/objects", seen.with_columns(version=pl.lit(f"1+{ImageNetClasses.version}")))
    assert _written(staged)["objects"].to_list() == [[], [], [], []]
