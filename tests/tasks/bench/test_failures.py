"""A thousand battles with planted failures: the pool holds what was planted, and nothing that one person alone saw."""

from datetime import timedelta
from random import Random
from types import SimpleNamespace

import polars as pl
import pytest

from schemas.benches.bench import FailureType, HiddenItem
from schemas.benches.judging import Answer, Verdict
from schemas.errors import BadInput
from schemas.policy import policy_hash
from schemas.settings import EvaluateSettings, Settings
from tasks.bench.failures import is_spatial
from tasks.bench.steps import find_failures
from tasks.judging.sources import bench_of
from tasks.providers import Providers
from tasks.report.boards import failures_part
from tasks.review.failures import FailuresQueue
from tasks.shown import item_key
from tasks.signals.registry import signal_of
from tasks.signals.steps import measure_failures
from tasks.storage.queries.failures import hard_prompts
from tasks.storage.tables import frame_of
from tests.builders import (
    NOON,
    VERSIONS,
    battle,
    decision,
    facts_frame,
    gathered_rows,
    measure_clean,
    sides,
    store_with,
    verdict,
)
from tests.failure_tagger import ASKED as ASKED_OF_TAGGER
from tests.reviewed_store import reviewing, shown_of
from tests.small_store import POLICY

MODELS = [f"model-{n}" for n in range(8)]
TYPES = [kind for kind in FailureType if kind is not FailureType.HALLUCINATION]
PLANTED = 5
"""Prompts planted for each type that the tagger can tell, each voted both bad by two or three people."""
BY_RULE = {name: version for name, version in VERSIONS.items() if name != "failure_types"}
"""Versions of the signals when no tagger of failures is chosen."""
ASKED = {FailureType.SPATIAL_IMAGINATION: "What is to the left of item {}?"}
LABELS = {
    FailureType.VISUAL_RECOGNITION: {"question_category": "Recognition", "question_subcategory": "Text Recognition"},
    FailureType.VISUAL_REASONING: {"question_category": "Analytical", "question_subcategory": "Mathematical Reasoning"},
    FailureType.CONTEXTUAL_UNDERSTANDING: {"question_subcategory": "Meme Comprehension"},
    FailureType.EXPERT_DOMAIN_KNOWLEDGE: {"question_category": "Analytical", "image_domain": "Expert"},
}


def _vote(number, prompt, judge, winner, random):
    left, right = random.sample(MODELS, 2)
    pair = [
        side.model_copy(update={"model": model, "tstamp": NOON + timedelta(seconds=number)})
        for side, model in zip(sides(f"b{number:04d}", prompt, "An answer."), (left, right), strict=True)
    ]
    return pair, battle(*pair, winner, judge=judge)


@pytest.fixture(scope="module")
def arena(tmp_path_factory):
    """The store after `find_failures`, and document_id -> planted type (None: undecided)."""
    random, votes, planted, labels = Random(3), [], {}, {}
    for kind in [*TYPES, None]:
        for n in range(PLANTED):
            prompt = ASKED.get(kind, f"Planted {{}} of {kind}").format(n)
            people = [f"{kind} {n} {person}" for person in range(2 + n % 2)]
            some = [_vote(len(votes) + at, prompt, who, "tie_bothbad", random) for at, who in enumerate(people)]
            some.append(_vote(len(votes) + len(some), prompt, "somebody", "model_a", random))
            votes += some
            planted[some[0][0][0].document_id] = kind
            labels[some[0][0][0].document_id] = LABELS.get(kind, {})
    alone = [("one twice", "same"), ("one twice", "same"), ("nobody", None), ("nobody", None), ("one", "x")]
    for prompt, who in alone:
        votes.append(_vote(len(votes), prompt, who, "tie_bothbad", random))
    while len(votes) < 1000:
        number = len(votes)
        winner = random.choice(["model_a", "model_b", "tie", "tie_bothbad"])
        votes.append(_vote(number, f"Any prompt {number}", f"user {number}", winner, random))
    conversations = [side for pair, _ in votes for side in pair]
    decisions = [decision(each).model_copy(update={"policy_hash": policy_hash(POLICY)}) for each in conversations]
    decisions += [decision(vote) for _, vote in votes]
    store = store_with(
        tmp_path_factory.mktemp("failures"),
        conversations=conversations,
        battles=[vote for _, vote in votes],
        decisions=decisions,
    )
    harmful = {side.turns[0].text_id for side in conversations if planted.get(side.document_id) is FailureType.SAFETY}
    unsafe = {text: {"flagged_categories": ["violence"]} for text in harmful}
    measure_clean(store, conversations, moderation=unsafe)
    store.replace("signals/taxonomy", facts_frame("taxonomy", labels))
    store.write_bytes(f"policies/{policy_hash(POLICY)}.json", POLICY.model_dump_json().encode())
    return store, planted


def find(store, versions=None, **bench):
    """The table after the task, and its counts."""
    report = find_failures.fn(Settings(store=store.root, bench=bench), versions or BY_RULE)
    return store.read("failures"), report.counts


ABOUT_PLACES = [
    "What is to the right of the car?", "Who is on the left?", "Describe the left side.", "See the upper right corner",
    "What stands on the left of the tree?", "the man on the right wearing a hat", "From left to right, name them.",
    "Is the ball left or right of the box?", "which ball is left of the cup?", "the bottom-left panel", "Turn right?",
    "the leftmost door", "his left hand", "What is on her right", "What hangs above the sofa?", "the cat below it",
    "Seen from above, what is it?", "the lamp directly above", "who stands behind the door", "Rotate the cube.",
    "What is in front of the house?", "Which of these folded shapes fits?", "the label at the right?",
]  # fmt: skip
ABOUT_OTHER_THINGS = [
    "What is happening right now?", "You are right.", "is that right?", "What can I cook with what is left over?",
    "what is left", "Is this at the right angle?", "Above all, be brief.", "There is a left over slice",
    "All right, go on", "Am I on the right track?", "Which is the right answer?", "He left the room.",
    "Solve the problem above.", "Answer the question below.",
    "How much money is left?", "the right to vote", "come at the right time", "What is left of the pizza?",
    "Explain the meaning behind this meme", "Put them in the right order", "Does this look right to you?",
    "That is beside the point", "What remains, nothing left", "A right triangle has sides 3 and 4.",
    "Use the above text.",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(10))
def test_prompts_about_places_are_told_from_the_same_words_about_other_things(seed):
    random = Random(seed)
    phrases = [*ABOUT_PLACES, *ABOUT_OTHER_THINGS]
    begins, ends = ["", "Hello! ", "In this picture:\n"], ["", " Say why.", "\nThanks"]
    prompts = [f"{random.choice(begins)}{phrase}{random.choice(ends)}" for phrase in phrases]
    written = [random.choice([str, str.upper, str.lower])(prompt) for prompt in prompts]
    found = pl.DataFrame({"phrase": phrases, "prompt": written}).filter(is_spatial(pl.col("prompt")))
    assert found["phrase"].to_list() == ABOUT_PLACES


@pytest.fixture(scope="module")
def pool(arena):
    """The failures that were found in the arena, and how many."""
    return find(arena[0])


def test_the_pool_is_what_was_planted(arena, pool):
    (found, counts), (_, planted) = pool, arena
    assert dict(found.select("document_id", "failure_type").iter_rows()) == planted
    assert counts["pool"] == len(planted) == PLANTED * 7


def test_a_failure_says_how_many_people_saw_it(pool):
    assert set(pool[0]["judges"]) == {2, 3}


def test_a_failure_says_what_decided_its_type(pool):
    deciders = {"safety": "moderation", None: None}
    assert [deciders.get(kind, "rule") for kind in pool[0]["failure_type"]] == pool[0]["typed_by"].to_list()


def test_a_failure_names_the_models_of_its_votes(pool):
    assert all(2 <= len(models) <= 6 for models in pool[0]["models"])


@pytest.fixture(scope="module")
def drawn_failures(arena):
    """Failures that were drawn for a set of 18, and what a release has of them."""
    found, _ = find(arena[0], failure_size=18)
    return found.filter("drawn"), gathered_rows(arena[0]).rows["failures"]


def test_the_set_is_even_over_types_without_safety(drawn_failures):
    drawn = drawn_failures[0]["failure_type"].fill_null("undecided").value_counts().rows()
    kinds = [kind.value for kind in TYPES if kind is not FailureType.SAFETY]
    assert dict(drawn) == dict.fromkeys([*kinds, "undecided"], 3)


def test_the_drawn_failures_are_released(drawn_failures):
    drawn, released = drawn_failures
    assert set(released["question_id"]) == set(drawn["conversation_id"])


def test_failures_are_released_without_their_answers(drawn_failures):
    assert all([turn["role"] for turn in turns] == ["user"] for turns in drawn_failures[1]["turns"])


def test_a_prompt_that_became_unsafe_after_the_draw_is_not_released(arena):
    store, _ = arena
    found, _ = find(store, failure_size=18)
    drawn = sorted(found.filter("drawn")["conversation_id"])
    before = store.read("decisions")
    told = pl.when(pl.col("item_id") == drawn[0]).then(pl.lit(["nsfw_image"])).otherwise("tags")
    store.replace("decisions", before.with_columns(tags=told))
    assert sorted(gathered_rows(store).rows["failures"]["question_id"]) == drawn[1:]
    store.replace("decisions", before)


def test_one_person_is_enough_where_a_setting_says_so(arena):
    store, planted = arena
    found, _ = find(store, failure_judges_min=1)
    assert set(planted) < set(found["document_id"])


def test_more_people_are_needed_where_a_setting_says_so(arena):
    store, planted = arena
    found, _ = find(store, failure_judges_min=3)
    assert 0 < found.height < len(planted) and set(found["judges"]) == {3}


def test_how_many_people_make_a_failure_changes_no_error_rate(arena):
    store, _ = arena
    find(store, failure_judges_min=1)
    rates = store.read("failure_rates")
    find(store)
    assert store.read("failure_rates").equals(rates)


def test_error_rates_count_all_votes_on_prompts_of_a_type_failed_or_not(arena):
    store, planted = arena
    votes = store.read("battles")
    find(store)
    rates = store.read("failure_rates")
    sums = rates.group_by("failure_type").agg(pl.col("battles", "both_bad").sum())
    counted = {name: counts for name, *counts in sums.iter_rows()}
    assert counted["all"] == [2 * votes.height, 2 * votes.filter(winner="tie_bothbad").height]
    bad = sum(2 + n % 2 for n in range(PLANTED))
    assert counted["spatial_imagination"] == [2 * (bad + PLANTED), 2 * bad]  # one vote a prompt was not bad
    assert set(counted) == {*(kind or "undecided" for kind in planted.values()), "all"}


def test_an_error_rate_is_the_share_of_votes_for_both_bad(arena):
    store, _ = arena
    find(store)
    rates = store.read("failure_rates")
    assert (rates["error_rate"] == rates["both_bad"] / rates["battles"]).all()


@pytest.fixture
def reviewed(arena, curate, tmp_path):
    """A store in which a person called one undecided failure a hallucination and one unsafe; and these two."""
    store, planted = arena
    find(store)
    first, second = [document for document, kind in planted.items() if kind is None][:2]
    filled = tmp_path / "filled.csv"
    filled.write_text(f"document_id,verdict\n{first},hallucination\n{second},Safety\n")
    code, out, _ = curate("review", "in", "failures", filled, "--store", store.root)
    assert code == 0 and out.startswith("2 verdicts")
    find(store)
    yield store, first, second
    store.replace("reviews", pl.DataFrame(schema=store.read("reviews").schema))


def _typed(store, document):
    (row,) = store.read("failures").filter(document_id=document).to_dicts()
    return row["failure_type"], row["reviewed"], row["drawn"]


def test_a_person_decides_the_type_of_a_failure(reviewed):
    store, hallucinated, _ = reviewed
    assert _typed(store, hallucinated) == ("hallucination", True, True)


def test_what_a_person_calls_unsafe_is_not_drawn(reviewed):
    store, _, unsafe = reviewed
    assert _typed(store, unsafe) == ("safety", True, False)


def _review_page(store, document):
    """The reviewers' pages, the path of a failure among them, and its page."""
    pages = reviewing(store, queues=[FailuresQueue()])
    path = f"/review/failures/{item_key('failures', document)}"
    return pages, path, pages.client.get(path).text


def test_the_page_of_a_failure_shows_its_type_beside_both_answers_of_the_vote(reviewed):
    store, hallucinated, _ = reviewed
    _, _, html = _review_page(store, hallucinated)
    assert "Now: hallucination" in html and html.count('<section class="side') == 2


def test_a_person_changes_the_type_of_a_failure_on_its_page(reviewed):
    store, hallucinated, _ = reviewed
    pages, path, html = _review_page(store, hallucinated)
    fields = pages.page("failures")[1] | {"shown": shown_of(html), "verdict": "visual_reasoning"}
    assert pages.client.post(path, data=fields).status_code == 200
    found, _ = find(store)
    assert dict(found.select("document_id", "failure_type").iter_rows())[hallucinated] == "visual_reasoning"


TAGGER = "tests.failure_tagger:Told"


@pytest.fixture(scope="module")
def tagged(arena):
    """Settings with a tagger of failures, the providers, and the report of asking it about the pool."""
    find(arena[0])
    settings = Settings(store=arena[0].root, providers={"failure_types": TAGGER}, workers=1)
    providers = Providers(settings.providers)
    report = measure_failures.fn(settings, providers)
    asked = [*ASKED_OF_TAGGER]
    return settings, providers, report, asked


def test_a_chosen_tagger_is_asked_once_about_the_pool_alone(arena, tagged):
    _, _, report, asked = tagged
    assert report.model_calls == {"failure_types": len(arena[1])}
    assert len(asked) == len(set(asked)) == len(arena[1])


def test_what_a_chosen_tagger_refuses_is_counted(tagged):
    assert tagged[2].failures == {"failure_types: refused": PLANTED}


def test_a_failure_has_the_type_that_a_chosen_tagger_says_or_none_where_it_cannot_tell(arena, tagged):
    (store, planted), (_, providers, *_) = arena, tagged
    found, _ = find(store, BY_RULE | {"failure_types": signal_of("failure_types", providers).version})
    types = {row["document_id"]: (row["failure_type"], row["typed_by"]) for row in found.to_dicts()}
    expected = {FailureType.SAFETY: ("safety", "moderation")}
    expected |= dict.fromkeys((FailureType.VISUAL_RECOGNITION, FailureType.VISUAL_REASONING), (None, None))
    assert types == {name: expected.get(kind, ("hallucination", TAGGER)) for name, kind in planted.items()}


def test_a_chosen_tagger_is_asked_again_what_it_refused(tagged):
    settings, providers, *_ = tagged
    assert measure_failures.fn(settings, providers).model_calls == {"failure_types": PLANTED}


@pytest.fixture(scope="module")
def asked_new_model(arena):
    """A store in which a new model won one drawn failure and refused another, its failures, and the benchmark."""
    store, _ = arena
    found, _ = find(store, failure_size=18)
    hidden = found.filter("drawn")["document_id"][0]
    reserved = {"topic": 0, "first_month": "2024-09", "last_month": "2024-11", "drawn": False}
    store.replace("hidden", frame_of(HiddenItem, [HiddenItem(document_id=hidden, **reserved)]))
    bench = bench_of(store, EvaluateSettings(bench="failures"))
    asked = {each.question_id: each.document_id for each in bench.questions}
    (name, document), (other, second) = list(asked.items())[:2]
    about = {"model": "new", "version": "1", "tokens": 1, "text": "Hm."}
    answers = [
        Answer(question_id=name, document_id=document, state="complete", **about),
        Answer(question_id=other, document_id=second, state="refused", **about),
    ]
    won = verdict(question_id=name, document_id=document, model_b="new", draw=bench.draw, label="B>A")
    store.replace("answers", frame_of(Answer, answers))
    store.replace("verdicts", frame_of(Verdict, [won]))
    yield SimpleNamespace(store=store, found=found, bench=bench, hidden=hidden, won=name, refused=other)
    for table in ("hidden", "answers", "verdicts"):
        store.replace(table, store.empty(table))


def test_new_models_are_asked_the_drawn_failures_that_are_not_hidden(asked_new_model):
    drawn = set(asked_new_model.found.filter("drawn")["document_id"])
    assert {each.document_id for each in asked_new_model.bench.questions} == drawn - {asked_new_model.hidden}


def test_the_draw_of_failures_is_called_so(asked_new_model):
    assert asked_new_model.bench.draw.startswith("failures-")


def test_a_win_over_a_baseline_marks_no_answer_of_a_new_model_as_right(asked_new_model):
    marks = dict(hard_prompts(asked_new_model.store).filter(model="new")["question_id", "mark"].iter_rows())
    assert marks == {asked_new_model.won: "?", asked_new_model.refused: "R"}


def test_only_models_that_people_voted_both_bad_are_marked_as_failed(asked_new_model):
    voted = hard_prompts(asked_new_model.store).filter(question_id=asked_new_model.won).filter(pl.col("votes") > 0)
    of_prompt = pl.col("conversation_id") == asked_new_model.won
    failed = asked_new_model.found.row(by_predicate=of_prompt, named=True)["models"]
    assert set(voted.filter(mark="X")["model"]) <= set(failed) and set(voted["mark"]) <= {"X", "?"}


def test_the_report_shows_new_models_beside_those_that_people_voted_on(asked_new_model):
    store = asked_new_model.store
    part = failures_part(store, store.read("failures")["conversation_id"])
    assert ">?<" in part.figure.svg and ">X<" in part.figure.svg and "new" in part.table.columns


def test_the_figure_of_failures_has_the_models_that_were_asked_most(asked_new_model):
    store = asked_new_model.store
    asked = store.read("answers").select("question_id", "document_id").unique().sort("question_id").rows()
    about = {"version": "1", "tokens": 1, "text": "Hm.", "state": "complete"}
    # a row is one answer: of many models to the first prompt, and of one, the last by name, to both
    rows = [(f"a{number:02}", asked[0]) for number in range(45)] + [("zz", prompt) for prompt in asked]
    answers = [Answer(model=model, question_id=name, document_id=document, **about) for model, (name, document) in rows]
    before = store.read("answers")
    store.replace("answers", frame_of(Answer, answers))
    drawn = failures_part(store, store.read("failures")["conversation_id"]).figure.svg
    store.replace("answers", before)
    assert ">zz<" in drawn and ">a44<" not in drawn


def test_without_failures_the_bench_says_what_to_do(tmp_path):
    with pytest.raises(BadInput, match="no prompt that two people voted both bad"):
        bench_of(store_with(tmp_path), EvaluateSettings(bench="failures"))
