"""Pages of benchmark items: captions, references, keys, answers and verdicts; what is hidden stays in the store."""

import shutil
from pathlib import Path

import polars as pl
import pytest

from flows.products import PRODUCTS
from schemas.benches.generated import Alignment, CheckAnswer, GeneratedDescription, GeneratedItem
from schemas.benches.judge_release import JudgeCard, ReleasedAnswer, ReleasedVerdict
from schemas.benches.judging import Verdict
from schemas.benches.written import Split
from schemas.release import ReleasedGenerated, ReleasedItem
from tasks.explore.of_release import OfRelease
from tasks.explore.of_store import OfStore
from tasks.explore.static_pages import export_pages
from tasks.generated_bench.generated_file import GENERATED_ITEMS
from tasks.judging.boards.judge_file import JUDGE_BOARD
from tasks.policy.explained import explained
from tasks.shown import item_key
from tasks.storage.content_id import text_id
from tasks.storage.tables import Store, frame_of
from tasks.written_bench.written_file import WRITTEN_ITEMS
from tests.builders import facts_frame
from tests.looked_store import client, strict
from tests.visit_bench import HIDDEN, visit_bench

EVIL = '</div><script>window.ran = 1</script><img src="https://evil.test/p.png">'
PARTS = (JUDGE_BOARD, WRITTEN_ITEMS, GENERATED_ITEMS)
EMAIL = "ada@analytical.example"


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    """Three written items that two models answered, one of which is also an item made on demand."""
    made = visit_bench(tmp_path_factory.mktemp("bench") / "store", {"m1": EVIL, "m2": f"Ask {EMAIL}."}, items=2)
    image = made.read("conversations").filter(conversation_id="i1")["image_ids"][0][0]
    verdict = Verdict(
        question_id="i1", protocol="visit", model_a="m1", model_b="m2", baseline="", answer_a="file+1",
        answer_b="file+1", label="B>A", judge="judge-x", judge_version="1", draw="d", text=f"m2, as {EVIL}",
        asked_again=False, fenced_marks=0,
    )  # fmt: skip
    item = GeneratedItem(
        item_id="i1", image_id=image, bench="space", description_id="d1", number=0, aspect="left and right",
        general="places", level="easy", kind="colour", question="Which colour?", options=["red", "blue"], key="B",
        prompt="Which colour?", name="n",
    )  # fmt: skip
    described = GeneratedDescription(
        description_id="d1", bench="space", aspect=0, level="easy", number=0, description="A blue cup.",
        topic_word="cup", key_words=[], kept_out=[], checks=[], version="1",
    )  # fmt: skip
    checks = [("a cup", True), ("a saucer", False)]
    answers = [
        CheckAnswer(question="?", element=e, type="object", expected="yes", said="no", right=right)
        for e, right in checks
    ]
    aligned = Alignment(description_id="d1", image_id=image, attempt=0, score=0.5, answers=answers, version="1")
    for name, row in (
        ("verdicts", verdict), ("generated_items", item), ("generated_descriptions", described),
        ("alignments", aligned),
    ):  # fmt: skip
        made.replace(name, frame_of(type(row), [row]))
    texts = {text: {} for table in ("captions", "references") for text in made.read(table)["text"]}
    texts |= {"A blue cup.": {}, "a saucer": {}}
    made.replace("signals/text_pii", facts_frame("text_pii", {text_id(text): value for text, value in texts.items()}))
    return made


def _page(store: Store, item: str, opened: bool = False) -> str:
    visitor = client(OfStore(store, explained, PRODUCTS))
    key = item_key("conversation", item)
    answer = visitor.post(f"/items/{key}/open") if opened else visitor.get(f"/items/{key}")
    assert answer.status_code == 200
    strict(answer.text)
    return answer.text


def test_items_show_captions_reference_key_answers_and_verdicts_searched_when_shown(store):
    page = _page(store, "i1")
    for shown in (
        "Written item", "A cup, 1.", "by people", "The reference of i1.", "Item made on demand", "left and right",
        "0.50", "Not seen in the image", "a saucer", "A blue cup.", "key B", "Answers", "m1", "complete", "Verdicts",
        "m2 is better", "judge-x, visit; first m1, then m2",
    ):  # fmt: skip
        assert shown in page, shown
    assert "Caption of image 2" in _page(store, "i0") and "Verdicts" not in _page(store, "i0")
    facets = client(OfStore(store, explained, PRODUCTS)).get("/").text
    assert ">space<" in facets and ">b<" in facets, "the benchmark is a facet"
    page = _page(store, "i1")
    assert EMAIL not in page and page.count("<mark>email</mark>") == 1
    assert "not searched for personal data yet" not in page.partition("<h2>Answers")[2]
    assert "m2, as &lt;/div&gt;&lt;script&gt;window.ran = 1" in page and "<script>window" not in page
    assert EMAIL in _page(store, "i1", opened=True)
    assert "The reference of hidden-item." in _page(store, HIDDEN)


def test_two_versions_of_a_model_are_told_apart_without_naming_their_servers(store, tmp_path):
    own = Store(str(shutil.copytree(store.root, tmp_path / "store")))
    rows = own.read("answers").filter(model="m2")
    other = rows.with_columns(version=pl.lit("openai-http://10.0.0.7/v1"), text=pl.lit("Two."))
    own.append("answers", other)
    page = _page(own, "i1")
    assert "complete, version 2" in page and "10.0.0.7" not in page


def test_an_item_that_repeats_another_one_has_nothing_of_the_other_ones_sections(store, tmp_path):
    own = Store(str(shutil.copytree(store.root, tmp_path / "store")))
    repeats = pl.when(pl.col("item_id") == "i0").then(pl.lit("i1")).otherwise("duplicate_of")
    own.replace("decisions", own.read("decisions").with_columns(duplicate_of=repeats))
    assert own.read("decisions").filter(item_id="i0", duplicate_of="i1").height == 1
    page = _page(own, "i0")
    assert "The reference of i0." in page and "The reference of i1." not in page
    assert "Verdicts" not in page and "Item made on demand" not in page


@pytest.fixture
def release(small_release, tmp_path) -> tuple[Path, str]:
    """A release whose benchmark prompt is an item of every kind, and the prompt's id."""
    folder = Path(shutil.copytree(small_release, tmp_path / "release"))
    prompt = OfRelease(folder, "1", lambda: "").listing.filter(kind="prompt")["id"][0]
    written = ReleasedItem(
        question_id=prompt, bench="recipes", family="counting", split=Split.VALIDATION, licences=["CC BY 4.0"],
        authors=["Ann"], origin="", captions=[EVIL], captions_by="people", reference="Two cups.", reference_by="gpt-4",
        objects=["cup"],
    )  # fmt: skip
    made = ReleasedGenerated(
        question_id=prompt, bench="space", capability="spatial", general="places", aspect="left and right",
        level="easy",
        kind="colour", question="Which colour?", options=["red", "blue"], key="B", description="A blue cup.",
        alignment=0.5, failed_elements=["a saucer"], author="a", pictures="p", viewer="v",
    )  # fmt: skip
    card = JudgeCard(
        question_id=prompt, model_a="m1", model_b="m2", answer_a="1", answer_b="2", label="A>>B", verdict_id="v"
    )
    answers = [
        ReleasedAnswer(answer_id=n, question_id=prompt, model=f"m{n}", state="complete", content=f"Answer {n} {EVIL}")
        for n in "12"
    ]
    verdict = ReleasedVerdict(verdict_id="v", content="The first counts right.")
    for name, rows in {
        "written/items": [written], "generated/items": [made], "leaderboard/judge/cards": [card],
        "leaderboard/judge/answers": answers, "leaderboard/judge/verdicts": [verdict],
    }.items():  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        frame_of(type(rows[0]), rows).write_parquet(folder / f"{name}.parquet")
    return folder, prompt


def test_a_prompt_of_a_release_shows_what_its_files_say_on_a_server_and_as_static_pages(release, tmp_path):
    folder, prompt = release
    source = OfRelease(folder, "1", lambda: "", PARTS)
    key = item_key("prompt", prompt)
    page = client(source).get(f"/items/{key}").text
    export_pages(source, tmp_path / "site", 5_000, None)
    static = (tmp_path / "site" / "items" / f"{key}.html").read_text("utf-8")
    for each in (page, static):
        strict(each)
        assert "<script>window" not in each and "&lt;script&gt;window.ran = 1" in each
        for shown in (
            "by gpt-4",
            "Two cups.",
            "key B",
            "a saucer",
            "m1 is much better",
            "The first counts right.",
            "Ann",
        ):
            assert shown in each, shown
    assert "recipes" in source.listing.filter(id=prompt)["bench"].cast(pl.String).to_list() or "space" in page


def test_captions_of_a_hidden_item_are_not_shown_even_if_a_file_has_them(release):
    folder, prompt = release
    rows = pl.read_parquet(folder / "written/items.parquet")
    rows.with_columns(split=pl.lit(Split.HIDDEN.value)).write_parquet(folder / "written/items.parquet")
    page = client(OfRelease(folder, "1", lambda: "", PARTS)).get(f"/items/{item_key('prompt', prompt)}").text
    assert "Two cups." not in page and "Caption of image" not in page and "hidden" in page


def test_a_damaged_file_of_items_is_named_and_everything_else_is_shown(release):
    folder, prompt = release
    (folder / "written/items.parquet").write_bytes(b"PAR1 no")
    source = OfRelease(folder, "1", lambda: "", PARTS)
    page = client(source).get(f"/items/{item_key('prompt', prompt)}").text
    assert "key B" in page and "Written item" not in page
    assert [each for each in source.problems if each.startswith("written/items.parquet cannot be read")]
