"""Models on a benchmark made on demand: letters, common items, audits, leaks; people, costs and the commands."""

import polars as pl
import pytest
from scipy.stats import kendalltau, pearsonr, spearmanr

from flows.products import keyed_items
from schemas.asked_model import AskedModel
from schemas.benches.generated_results import AuditAnswer, AuditMode, ItemReview
from schemas.errors import BadInput
from schemas.items.review import Review
from schemas.policy import GeneratedRule
from schemas.settings import EvaluateSettings, GenerateSettings
from tasks.generated_bench.accuracy import accuracy_rows, interval, letter_of, levels_that_do_not_fall, mark, rank_table
from tasks.generated_bench.aspects import levels, load_capability
from tasks.generated_bench.audit import ask_in_modes, asked_as, audit_rows
from tasks.generated_bench.bench_state import read_bench
from tasks.generated_bench.items import kept_items
from tasks.generated_bench.making import estimate_making
from tasks.generated_bench.queues import review_rows
from tasks.judging.answers import ask_models, unanswered
from tasks.judging.sources import bench_of
from tasks.providers import Providers
from tasks.providers.ask_items import Work
from tasks.runtime.budget import load_prices
from tasks.storage.reviews import add_reviews
from tasks.storage.tables import frame_of
from tests.generated_bench import NAME, decided, review_of_generated, settings_for
from tests.places import PUBLISHED

MODELS = [AskedModel(name=name, vendor="embedded", model=name) for name in ("scene-viewer", "random", "blind")]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return decided(settings_for(tmp_path_factory.mktemp("accuracy") / "store"))


@pytest.fixture(scope="module")
def answers(store):
    bench = bench_of(store, EvaluateSettings(generated=NAME), keyed_items)
    done = ask_models(store, bench, MODELS)
    assert not done.failures
    assert unanswered(store, bench, MODELS[0]) == []
    return store.read("answers")


def test_who_sees_is_right_and_who_guesses_is_not(store, answers):
    items = kept_items(store, NAME).items
    rows = {(row.slice, row.model): row for row in accuracy_rows(items, mark(items, answers), ["overall", "level"])}
    assert rows["overall", "scene-viewer"].accuracy >= 0.95
    assert rows["overall", "scene-viewer"].rank == 1
    for model in ("random", "blind"):
        assert rows["overall", model].accuracy < 0.6
        assert "stand_in" in rows["overall", model].flags
    assert sum(rows[f"level:{level}", "random"].items for level in ("easy", "medium", "hard")) == len(items)


def test_accuracy_is_on_common_items_and_low_coverage_decides_nothing(store, answers):
    items = kept_items(store, NAME).items
    few = answers.filter(pl.col("question_id").is_in([item.item_id for item in items[:2]]), model="scene-viewer")
    rows = accuracy_rows(
        items, mark(items, pl.concat([answers, few.with_columns(model=pl.lit("boaster"))])), ["overall"]
    )
    by_model = {row.model: row for row in rows}
    boaster = by_model["boaster"]
    assert (boaster.accuracy, boaster.items, boaster.rank) == (1.0, 2, None)
    assert "low_coverage" in boaster.flags and boaster.coverage == pytest.approx(2 / len(items))
    assert by_model["random"].items == len(items)


def test_unreadable_is_wrong_and_counted_and_failed_is_no_answer(store, answers):
    items = kept_items(store, NAME).items
    unread = answers.filter(model="scene-viewer").with_columns(text=pl.lit("[A] or [B]"), model=pl.lit("vague"))
    failed = unread.with_columns(state=pl.lit("failed"), model=pl.lit("down"))
    marked = mark(items, pl.concat([unread, failed]))
    (row,) = accuracy_rows(items, marked, ["overall"])
    assert (row.model, row.right, row.unreadable) == ("vague", 0, len(items))
    twice = pl.concat([unread, unread.with_columns(version=pl.lit("other"))])
    with pytest.raises(BadInput, match="has answers of 2 versions"):
        mark(items, twice)
    assert mark(items, twice, ["other"])["vague"].version == "other"


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("[B]", "B"), ("I think [B], so [B].", "B"), ("[A] or [B]", None), ("B", "B"), ("**B**", "B"), ("B.", "B"),
        ("The answer is C.", "C"), ("Answer: (D)", "D"), ("A red ball", None), ("[E]", None), ("", None),
        ("The answer isn't clear", None), ("answer a or answer b", None),
        ("The answer is a red ball.", None), ("Answer: a cat", None), ("Answer: A cat", None), ("ANSWER: B", "B"),
        ("The answer is A because it is red.", "A"), ("The answer is A or B.", None), ("Answer: (A) a ball", "A"),
        ("The answer is [B] because [A] is wrong.", "B"), ("The answer is [A] or [B].", None), ("Answer: **B**", "B"),
    ],
)  # fmt: skip
def test_one_clear_letter_is_read(text, letter):
    assert letter_of(text, 4) == letter


def test_intervals_are_wilsons():
    assert interval(0, 0) == (None, None, None)
    share, low, high = interval(8, 10)
    assert (share, round(low, 4), round(high, 4)) == (0.8, 0.4902, 0.9433)


def test_an_audit_moves_keys_and_takes_images_away(store, answers):
    items, made = kept_items(store, NAME).items, read_bench(store, NAME)
    descriptions = {each.description.description_id: each.description for each in made.progress}
    for item in items:
        right = item.options["ABCD".index(item.key)]
        for mode, letter in ((AuditMode.ALL_A, "A"), (AuditMode.ALL_D, "D")):
            moved = asked_as(item, mode, "")
            assert moved.key == letter and f"\n{letter}. {right}\n" in moved.prompt
        assert (
            descriptions[item.description_id].description
            in asked_as(item, AuditMode.DESCRIBED, descriptions[item.description_id].description).prompt
        )
    work = Work()
    ask_in_modes(store, NAME, MODELS, list(AuditMode), work)
    assert sum(work.calls.values()) == len(items) * 4 * 3 and not work.failures
    again = Work()
    ask_in_modes(store, NAME, MODELS, list(AuditMode), again)
    assert not again.calls
    stored = [AuditAnswer.model_validate(row) for row in store.read("audit_answers").to_dicts()]
    rows = {(r.measure, r.model): r for r in audit_rows(items, stored, mark(items, answers), ()) if r.level == "all"}
    assert rows["described_accuracy", "blind"].value == 1.0, "a description tells all, also who cannot see"
    assert rows["blind_accuracy", "scene-viewer"].value == 0.0
    assert rows["all_a_deviation_difference", "scene-viewer"].value == 0.0
    usual = accuracy_rows(items, mark(items, answers), ["overall"])
    before = next(row.accuracy for row in usual if row.model == "random")
    difference = rows["all_a_deviation_difference", "random"].value
    assert rows["all_a_accuracy", "random"].value == pytest.approx(before + difference)
    assert rows["all_a_deviation_ratio", "random"].value == pytest.approx(difference / before)
    assert rows["described_spread", ""].value == pytest.approx(1 - rows["described_accuracy", "random"].value)


def test_an_audit_counts_one_version_of_a_model(store, answers):
    items = kept_items(store, NAME).items
    usual = mark(items, answers)
    first = usual["scene-viewer"].version

    def answer(version, item, letter):
        return AuditAnswer(
            item_id=item.item_id, model="scene-viewer", mode="all_a", key="A", letter=letter, text="", version=version
        )

    stored = [answer(first, item, "A") for item in items] + [answer("later", item, "B") for item in items]
    with pytest.raises(BadInput, match="has answers of 2 versions"):
        audit_rows(items, stored, usual, ())

    def figures(version):
        rows = audit_rows(items, stored, usual, (), [version])
        return {row.measure: row.value for row in rows if (row.level, row.model) == ("all", "scene-viewer")}

    assert figures("later") == {"all_a_accuracy": 0.0}, "the usual answers are of another version"
    assert figures(first)["all_a_accuracy"] == 1.0 and "all_a_deviation_difference" in figures(first)


def test_the_policy_drops_what_blind_models_get_and_what_people_find_unfit(store):
    items = kept_items(store, NAME).items
    blind = [
        AuditAnswer(item_id=items[0].item_id, model=model, mode="blind", key="A", letter="A", text="[A]", version="1")
        for model in ("a", "b", "c")
    ]
    unfit = [
        ItemReview(
            item_id=items[1].item_id, rater=rater, guided=True, description_fits=True, question_fits=rater == "z"
        )
        for rater in ("x", "y", "z")
    ]
    before = store.read("audit_answers")
    store.replace("audit_answers", frame_of(AuditAnswer, blind))
    store.replace("reviews", frame_of(Review, [review_of_generated(each) for each in unfit]))
    try:
        kept = kept_items(store, NAME)
        assert kept.dropped == {"blind": 1, "people": 1}
        assert [item.item_id for item in kept.items] == [item.item_id for item in items[2:]]
        every = [unfit[0].model_copy(update={"item_id": item.item_id}) for item in items]
        store.replace("reviews", frame_of(Review, [review_of_generated(each) for each in every]))
        with pytest.raises(BadInput, match="no item is kept"):
            kept_items(store, NAME)
        store.replace("reviews", frame_of(Review, [review_of_generated(each) for each in unfit]))
        store.replace("audit_answers", frame_of(AuditAnswer, blind[:2]))
        assert kept_items(store, NAME).dropped == {"people": 1}, "two blind models are too few"
    finally:
        store.replace("audit_answers", before)
        store.replace("reviews", frame_of(Review, []))


def test_levels_that_do_not_fall_and_ranks_are_told(store, answers):
    items = kept_items(store, NAME).items
    rows = accuracy_rows(items, mark(items, answers), ["level"])
    assert any(
        line.startswith("scene-viewer: accuracy does not fall: easy 1.000") for line in levels_that_do_not_fall(rows)
    )
    assert [row["scene-viewer"] for row in rank_table(rows)] == [1, 1, 1]


def test_a_benchmark_that_is_not_there_is_one_clear_line(store):
    with pytest.raises(BadInput, match="no finished benchmark of this name; it has scenes"):
        kept_items(store, "other")
    with pytest.raises(BadInput, match="names a benchmark made on demand"):
        bench_of(store, EvaluateSettings(generated=NAME, hidden=True), keyed_items)


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    return decided(settings_for(tmp_path_factory.mktemp("people") / "store", levels=["easy"]))


def said(judged, rater, *fits, guided=True):
    """What a rater says of the first items: description fits, question fits; returns all items."""
    items = read_bench(judged, NAME).items
    found = [
        ItemReview(item_id=item.item_id, rater=rater, guided=guided, description_fits=one, question_fits=other)
        for item, (one, other) in zip(items, fits, strict=False)
    ]
    add_reviews(judged, [review_of_generated(each) for each in found])
    return items


def test_a_majority_of_raters_decides_and_a_later_finding_replaces_an_earlier_one(judged):
    for rater, fits in (("ann", True), ("bob", False), ("cid", False)):
        items = said(judged, rater, (True, fits), (True, True))
    said(judged, "ann", (True, True), guided=False)
    rows = {(row.asked, row.guided): row for row in review_rows(judged, items) if row.level == "all"}
    assert (rows["description_fits", True].fits, rows["description_fits", True].items) == (2, 2)
    unfit = rows["question_fits", True]
    assert (unfit.fits, unfit.rate, unfit.raters_least) == (1, 0.5, 3)
    assert rows["question_fits", False].rate == 1.0
    assert kept_items(judged, NAME).dropped == {}, "two raters with the guideline and one without are even"
    said(judged, "bob", (True, True))
    assert {row.fits for row in review_rows(judged, items) if row.guided and row.level == "all"} == {2}


def test_every_image_and_call_is_counted_before_anything_is_sent(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    chosen = Providers({"author": "openai", "pictures": "openai", "viewer": "gemini"})
    wanted, capability = GenerateSettings(general=4, fine=6, per_aspect=10), load_capability("basic")
    told = (wanted, capability, levels(), GeneratedRule(redraws_max=2))
    rows = {row.signals: row for row in estimate_making(*told, chosen, load_prices(), lambda text: len(text) // 4)}
    assert (rows["pictures"].items, rows["pictures"].units) == (720, 720)
    assert rows["pictures"].usd == pytest.approx(720 * 0.042)
    assert rows["pictures"].usd_most == pytest.approx(3 * 720 * 0.042)
    assert rows["author"].calls == 1 + 4 * 720
    assert rows["viewer"].calls == 240 * sum(level.checks for level in levels().values())
    assert all(row.usd < row.usd_most for row in rows.values())
    assert estimate_making(*told, Providers(), load_prices(), len) == []
    longer = {name: level.model_copy(update={"words_max": level.words_max + 75}) for name, level in levels().items()}
    told = (wanted, capability, longer, GeneratedRule(redraws_max=2))
    more = {row.signals: row for row in estimate_making(*told, chosen, load_prices(), lambda text: len(text) // 4)}
    price = load_prices().tokens(str(chosen["author"].service))
    # each is written once and read in three further calls, 100 tokens longer
    assert more["author"].usd - rows["author"].usd == pytest.approx(720 * price.usd(300, 100))


def test_scores_agree_with_people_as_published_and_thresholds_keep_what_they_keep():
    rows = pl.read_csv(PUBLISHED / "tifa-scores.csv")
    score, people = rows["tifa_mplug_large"].to_list(), rows["mean"].to_list()
    assert len(score) == 800
    assert round(kendalltau(score, people).statistic, 4) == 0.4717
    assert round(spearmanr(score, people).statistic, 4) == 0.5922
    assert round(pearsonr(score, people).statistic, 4) == 0.5967, "what is published as Spearman"
    for threshold, kept in ((0.5, 728), (0.7, 571), (0.8, 458), (1.0, 267)):
        rule = GeneratedRule(alignment_min=threshold)
        assert sum(each >= rule.alignment_min for each in score) == kept


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["spacial"], "unknown capability 'spacial'"),
        (["basic", "--set", "generate.general=0"], "--set generate.general: "),
        (["basic", "--set", "generate.levels=extreme"], "--set generate.levels: unknown level 'extreme'"),
        (["basic", "--provider", "pictures=none"], "pictures: unknown provider 'none'"),
        (["basic", "--provider", "pictures=openai"], "OPENAI_API_KEY is not set"),
    ],
)
def test_bad_input_is_one_clear_line_and_makes_no_store(given, said, tmp_path, refused, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert said in refused("bench", "generate", *given, "--store", str(tmp_path / "new"), "--bench", "b", "--dry-run")
    assert not (tmp_path / "new").exists()


def test_commands_without_answers_or_with_an_unknown_mode_are_one_line(judged, curate):
    code, _, err = curate("bench", "accuracy", "--store", judged.root, "--bench", NAME)
    assert code == 2 and "no model has answered; run `curate judge answer" in err
    sly = ("--set", "evaluate.audit_modes=sly")
    code, _, err = curate("bench", "audit", "--store", judged.root, "--bench", NAME, "--models", "m", *sly)
    assert code == 2 and "--set evaluate.audit_modes" in err and err.count("\n") == 1
