"""Written items and their boards in a release: whose they are, what they count, card, report, and `verify`."""

import json
from types import SimpleNamespace

import polars as pl
import pytest
import yaml

from flows.products import PRODUCTS
from schemas.benches.judging import STAND_IN, Verdict
from schemas.benches.written import WrittenBy
from schemas.policy import Policy
from schemas.settings import Settings
from tasks.explore.of_store import OfStore
from tasks.judging.boards.judge_report import written_board_parts
from tasks.judging.boards.written_boards import WRITTEN_BOARDS
from tasks.judging.released_texts import ITEM_JUDGE
from tasks.judging.steps import rate_written
from tasks.judging.visit_battles import REFERENCE, shown_id
from tasks.policy.explained import explained
from tasks.providers.embedded.embeddings import ImageNetClasses
from tasks.release.dataset_card import card_sections
from tasks.release.registered import OpenRelease, Unsealed, board_csv
from tasks.storage.content_id import text_id
from tasks.storage.tables import Store, frame_of
from tasks.written_bench.written_file import ITEMS, WRITTEN_ITEMS, hidden_captions
from tasks.written_bench.written_items import items_for_judging
from tests.builders import VERSIONS, facts_frame
from tests.looked_store import client
from tests.tampered_release import section_problems
from tests.visit_bench import HIDDEN, visit_bench

ASKED = "bench/data/train-00000-of-00001.parquet"
BOARD = "leaderboard/written/board.parquet"
EVERYTHING = Policy(name="all", rules=[])
PATH = "openai-/data/judges/x+1"
X_WINS, Y_WINS = ("A>B", "B>A"), ("B>A", "A>B")
SAID = [(f"i{n}", "x", "y", X_WINS) for n in range(3)] + [
    ("i0", "x", REFERENCE, X_WINS), ("i1", "x", REFERENCE, Y_WINS), ("i2", "x", REFERENCE, X_WINS),
    ("i0", "y", REFERENCE, Y_WINS),
]  # fmt: skip


def _verdicts(store: Store, judge: str = "gpt-x", version: str = PATH) -> list[Verdict]:
    shown = {item.item_id: shown_id(item, False) for item in items_for_judging(store, "b", not_given=True)}
    return [
        Verdict(
            question_id=item, protocol="visit", model_a=first, model_b=second, baseline="", answer_a=f"{first}+1",
            answer_b=f"{second}+1", label=label, judge=judge, judge_version=version, draw="items-b", text="",
            asked_again=False, fenced_marks=0, shown=shown[item],
        )
        for item, one, other, labels in SAID
        for (first, second), label in zip(((one, other), (other, one)), labels, strict=True)
    ]  # fmt: skip


def _choices(_bench: str) -> pl.DataFrame:
    """Three people each: all prefer x on two items, and two of them y on the first one."""
    rows = [(f"i{n}", "x", "y", "model_b" if (n, who) in ((0, 0), (0, 1)) else "model_a", f"p{who}")
            for n in range(3) for who in range(3)]  # fmt: skip
    return pl.DataFrame(rows, schema=["question_id", "model_a", "model_b", "winner", "judge"], orient="row")


@pytest.fixture(scope="module")
def rated(tmp_path_factory):
    """A rated store and a folder with its items and boards."""
    folder = tmp_path_factory.mktemp("boards")
    store = visit_bench(folder / "store", {"x": "A cup of {}.", "y": "A plate, I would say."})
    store.replace("verdicts", frame_of(Verdict, _verdicts(store)))
    report = rate_written.fn(Settings(store=store.root), _choices)
    assert report.counts == {"benchmarks": 1, "metrics": 8} and report.notes == []
    staging = folder / "release"
    (staging / ASKED).parent.mkdir(parents=True)
    store.read("bench_items").select(question_id="item_id").write_parquet(staging / ASKED)
    unsealed = Unsealed(store, staging, {}, VERSIONS, EVERYTHING, "", {})
    WRITTEN_ITEMS.write(unsealed)
    assert WRITTEN_BOARDS.write(unsealed).stand_ins == []
    return store, staging


def _opened(folder, **manifest: object) -> OpenRelease:
    return OpenRelease(folder, SimpleNamespace(policy=EVERYTHING.model_dump(), embedded_providers=[], **manifest), None)


def test_a_release_holds_boards_by_family_and_shows_them_with_what_they_rest_on(rated):
    _, staging = rated
    rows = {(row["slice"], row["model"]): row for row in pl.read_parquet(staging / BOARD).to_dicts()}
    x = rows["overall", "x"]
    assert (x["wins_vs_reference"], x["decisive_vs_reference"]) == (2, 3) and x["elo"] > rows["overall", "y"]["elo"]
    assert rows["family:counting", "x"]["win_rate_vs_reference"] == 1.0, "i0 and i2; i1 is of the other family"
    assert PATH not in (staging / BOARD).with_suffix(".csv").read_text(), "a path names no judge in public"
    metrics = pl.read_parquet(staging / "leaderboard/written/metrics.parquet")
    judge = metrics.filter(pl.col("metric").str.starts_with("judge:"))
    assert dict(judge["bin", "reproduced"].iter_rows()) == {"3/3": 1.0, "2/3": 0.0, "all": pytest.approx(2 / 3)}
    store, staging = rated
    card = WRITTEN_BOARDS.section.text(staging, 4)
    assert "| x |" in card and "67 % of 3" in card and "gpt-x saw captions in place of the images" in card
    (staging / "README.md").write_text(card)
    assert list(section_problems(staging, 4, [WRITTEN_BOARDS])) == []
    (staging / "README.md").write_text(card.replace("67 % of 3", "97 % of 3"))
    assert any("boards of written benchmarks" in each for each in section_problems(staging, 4, [WRITTEN_BOARDS]))
    sections = {each.key: each for each in written_board_parts(store)}
    assert [*sections] == ["written_board", "written_wins", "written_metrics"]
    assert all("<svg" in each.figure.svg for each in sections.values()) and "gpt-x" in sections["written_board"].about
    page = client(OfStore(store, explained, PRODUCTS)).get("/boards").text
    assert "b: wins against the reference by family" in page and "100 % of 2" in page


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"wins_vs_reference": pl.lit(9, pl.Int64)}, "the win rate is not that of the counted battles"),
        ({"bench": pl.lit("other")}, "'other' is a benchmark of no released item"),
        ({"model": pl.lit("someone@example.org")}, "holds an identifier"),
        ({"judge": pl.lit(STAND_IN)}, f"made by the stand-in {ITEM_JUDGE}, which the manifest does not name"),
    ],
)
def test_a_changed_board_does_not_verify(rated, tmp_path, changed, told):
    _, staging = rated
    for name in ("bench", "written"):
        (tmp_path / name).symlink_to(staging / name)
    (tmp_path / BOARD).parent.mkdir(parents=True)
    rows = pl.read_parquet(staging / BOARD)
    for each, expected in ((rows, False), (rows.with_columns(**changed), True)):
        each.write_parquet(tmp_path / BOARD)
        (tmp_path / BOARD).with_suffix(".csv").write_text(board_csv(each, 4))
        assert any(told in problem for problem in WRITTEN_BOARDS.wrong(_opened(tmp_path))) == expected
    rows.write_parquet(tmp_path / BOARD)
    assert any("board.csv: not what" in each for each in WRITTEN_BOARDS.wrong(_opened(tmp_path)))


def test_the_stand_in_judges_a_board_only_where_no_other_judge_did(tmp_path):
    store = visit_bench(tmp_path / "store", {"x": "A cup of {}.", "y": "A plate."})
    few = _verdicts(store)[:2]
    store.replace("verdicts", frame_of(Verdict, [*_verdicts(store, STAND_IN, "embedded-1"), *few]))
    rate_written.fn(Settings(store=store.root), lambda _: pl.DataFrame())
    assert set(store.read("written_board")["judge"]) == {"gpt-x"}
    rate_written.fn(Settings(store=store.root, judge_version="embedded-1"), lambda _: pl.DataFrame())
    assert set(store.read("written_board")["judge"]) == {STAND_IN}


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
    WRITTEN_ITEMS.write(Unsealed(store, staging, {}, VERSIONS, EVERYTHING, "", {}))
    rows = pl.read_parquet(staging / ITEMS)
    assert rows.height == 4
    return rows


def _wrong(staging):
    manifest = SimpleNamespace(policy=EVERYTHING.model_dump())
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


SECRETS = {
    "lines": "Nine blue cups\nstand upside down on a long\twooden table beside\na window in the rain.",
    "accents": "Neun grüne Äpfel liegen über dem Tisch während draußen früh am Morgen ein Hündchen bellt und läuft.",
    "japanese": "長い木の机の上に青い器が九つ伏せて置いてあります。",
    "signs": 'Nine 𝒃lue cups stand "upside down" on a long table/desk 𠮷 beside a window in the rain.',
}


def _hide(store, secret):
    text = pl.when(item_id=HIDDEN).then(pl.lit(secret)).otherwise("text")
    store.replace("references", store.read("references").with_columns(text=text))


ESCAPED = {
    "a.json": lambda text: json.dumps({"reasons": text}),
    "a.jsonl": lambda text: json.dumps([text, 1]),
    "nested.json": lambda text: json.dumps({"line": json.dumps({"reasons": text})}),
    "a.yaml": lambda text: yaml.safe_dump({"reasons": text}, width=40),
    "page.html": lambda text: f"<script>const rows = {json.dumps([text]).replace('/', chr(92) + '/')}</script>",
}


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
@pytest.mark.parametrize("name", ESCAPED)
def test_a_file_that_quotes_a_hidden_text_with_escapes_is_found(staged, name, secret):
    store, staging = staged
    _hide(store, secret)
    (staging / name).write_text(ESCAPED[name](secret))
    assert list(hidden_captions(staging, store)) == [f"{name}: holds a caption or reference of the hidden split"]
    (staging / name).write_text(ESCAPED[name](secret[2:]))
    assert list(hidden_captions(staging, store)) == []


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
@pytest.mark.parametrize("more", ["", "So: ", "Indeed, "])
def test_a_text_of_the_validation_split_that_holds_a_hidden_one_does_not_block_the_release(staged, secret, more):
    store, staging = staged
    _hide(store, secret)
    longer = pl.when(item_id="i0").then(pl.lit(f"{more}{secret}")).otherwise("text")
    store.replace("references", store.read("references").with_columns(text=longer))
    texts = [text_id(text) for table in ("captions", "references") for text in store.read(table)["text"]]
    for signal in ("text_pii", "moderation"):
        store.replace(f"signals/{signal}", facts_frame(signal, {text: {} for text in texts}))
    released = {row["question_id"]: row["reference"] for row in _written(staged).to_dicts()}
    assert released["i0"] is None and released["i1"] is not None
    assert list(hidden_captions(staging, store)) == []


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
    (staging / "README.md").write_text(f"# Card\n\n{card}\n")
    assert list(section_problems(staging, 4, [WRITTEN_ITEMS])) == []
    (staging / "README.md").write_text(f"# Card\n\n{card.replace('count cup 3', 'count cup 4')}\n")
    assert list(section_problems(staging, 4, [WRITTEN_ITEMS])) == [
        f"README.md: its section about written items is not what {ITEMS} says"
    ]


def test_what_the_embedded_classifier_sees_is_not_released(staged):
    store, _ = staged
    images = store.read("conversations").filter(conversation_id="i0")["image_ids"][0]
    seen = facts_frame("objects", {name: {"names": ["cup"]} for name in images})
    store.replace("signals/objects", seen.with_columns(version=pl.lit(f"1+{ImageNetClasses.version}")))
    assert _written(staged)["objects"].to_list() == [[], [], [], []]
