"""A thousand battles with planted failures: the pool holds what was planted, and nothing that one person alone saw."""

from datetime import timedelta
from random import Random

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


def test_the_pool_is_what_was_planted_and_the_set_even_over_types_without_safety(arena):
    store, planted = arena
    found, counts = find(store)
    assert dict(found.select("document_id", "failure_type").iter_rows()) == planted
    assert counts["pool"] == len(planted) == PLANTED * 7
    assert set(found["judges"]) == {2, 3}
    deciders = {"safety": "moderation", None: None}
    assert [deciders.get(kind, "rule") for kind in found["failure_type"]] == found["typed_by"].to_list()
    assert all(2 <= len(models) <= 6 for models in found["models"])
    store, _ = arena
    found, _ = find(store, failure_size=18)
    drawn = found.filter("drawn")["failure_type"].fill_null("undecided").value_counts().rows()
    kinds = [kind.value for kind in TYPES if kind is not FailureType.SAFETY]
    assert dict(drawn) == dict.fromkeys([*kinds, "undecided"], 3)
    released = gathered_rows(store).rows["failures"]
    assert set(released["question_id"]) == set(found.filter("drawn")["conversation_id"])
    assert all([turn["role"] for turn in turns] == ["user"] for turns in released["turns"])


def test_a_prompt_that_became_unsafe_after_the_draw_is_not_released(arena):
    store, _ = arena
    found, _ = find(store, failure_size=18)
    drawn = sorted(found.filter("drawn")["conversation_id"])
    before = store.read("decisions")
    told = pl.when(pl.col("item_id") == drawn[0]).then(pl.lit(["nsfw_image"])).otherwise("tags")
    store.replace("decisions", before.with_columns(tags=told))
    assert sorted(gathered_rows(store).rows["failures"]["question_id"]) == drawn[1:]
    store.replace("decisions", before)


def test_one_person_is_enough_only_where_a_setting_says_so(arena):
    store, planted = arena
    found, _ = find(store, failure_judges_min=1)
    assert set(planted) < set(found["document_id"])
    found, _ = find(store, failure_judges_min=3)
    assert 0 < found.height < len(planted) and set(found["judges"]) == {3}


def test_error_rates_are_bad_votes_of_all_votes_on_prompts_of_that_type_failed_or_not(arena):
    store, planted = arena
    votes = store.read("battles")
    find(store, failure_judges_min=1)
    rates = store.read("failure_rates")
    find(store)
    assert store.read("failure_rates").equals(rates)  # how many people make a failure changes no rate
    sums = rates.group_by("failure_type").agg(pl.col("battles", "both_bad").sum())
    counted = {name: counts for name, *counts in sums.iter_rows()}
    assert counted["all"] == [2 * votes.height, 2 * votes.filter(winner="tie_bothbad").height]
    bad = sum(2 + n % 2 for n in range(PLANTED))
    assert counted["spatial_imagination"] == [2 * (bad + PLANTED), 2 * bad]  # one vote a prompt was not bad
    assert set(counted) == {*(kind or "undecided" for kind in planted.values()), "all"}
    assert (rates["error_rate"] == rates["both_bad"] / rates["battles"]).all()


def test_a_person_decides_the_type_and_safety_of_a_person_stays_out_too(arena, curate, tmp_path):
    store, planted = arena
    find(store)
    first, second = [document for document, kind in planted.items() if kind is None][:2]
    filled = tmp_path / "filled.csv"
    filled.write_text(f"document_id,verdict\n{first},hallucination\n{second},Safety\n")
    code, out, _ = curate("review", "in", "failures", filled, "--store", store.root)
    assert code == 0 and out.startswith("2 verdicts")
    found, _ = find(store)
    rows = {row["document_id"]: row for row in found.to_dicts()}
    told = {name: (rows[name]["failure_type"], rows[name]["reviewed"], rows[name]["drawn"]) for name in (first, second)}
    assert told == {first: ("hallucination", True, True), second: ("safety", True, False)}
    page = reviewing(store, queues=[FailuresQueue()])
    path = f"/review/failures/{item_key('failures', first)}"
    html = page.client.get(path).text
    assert "Now: hallucination" in html and html.count('<section class="side') == 2  # both answers of the vote
    fields = page.page("failures")[1] | {"shown": shown_of(html), "verdict": "visual_reasoning"}
    assert page.client.post(path, data=fields).status_code == 200
    found, _ = find(store)
    assert dict(found.select("document_id", "failure_type").iter_rows())[first] == "visual_reasoning"
    store.replace("reviews", pl.DataFrame(schema=store.read("reviews").schema))


def test_a_chosen_tagger_is_asked_once_about_the_pool_alone_and_says_null_where_it_cannot_tell(arena):
    store, planted = arena
    find(store)
    settings = Settings(store=store.root, providers={"failure_types": "tests.failure_tagger:Told"}, workers=1)
    providers = Providers(settings.providers)
    report = measure_failures.fn(settings, providers)
    refused = {"failure_types: refused": PLANTED}
    assert (report.model_calls, report.failures) == ({"failure_types": len(planted)}, refused)
    assert len(ASKED_OF_TAGGER) == len(set(ASKED_OF_TAGGER)) == len(planted)
    found, _ = find(store, BY_RULE | {"failure_types": signal_of("failure_types", providers).version})
    types = {row["document_id"]: (row["failure_type"], row["typed_by"]) for row in found.to_dicts()}
    tagger = "tests.failure_tagger:Told"
    expected = {FailureType.SAFETY: ("safety", "moderation")}
    expected |= dict.fromkeys((FailureType.VISUAL_RECOGNITION, FailureType.VISUAL_REASONING), (None, None))
    assert types == {name: expected.get(kind, ("hallucination", tagger)) for name, kind in planted.items()}
    assert measure_failures.fn(settings, providers).model_calls == {"failure_types": PLANTED}  # those that failed
    find(store)


def test_new_models_meet_the_drawn_failures_and_stand_beside_those_that_people_voted_on(arena):
    store, _ = arena
    found, _ = find(store, failure_size=18)
    drawn, hidden = found.filter("drawn"), found.filter("drawn")["document_id"][0]
    reserved = {"topic": 0, "first_month": "2024-09", "last_month": "2024-11", "drawn": False}
    store.replace("hidden", frame_of(HiddenItem, [HiddenItem(document_id=hidden, **reserved)]))
    bench = bench_of(store, EvaluateSettings(bench="failures"))
    asked = {each.question_id: each.document_id for each in bench.questions}
    assert set(asked.values()) == set(drawn["document_id"]) - {hidden} and bench.draw.startswith("failures-")
    (name, document), (other, second) = list(asked.items())[:2]
    about = {"model": "new", "version": "1", "tokens": 1, "text": "Hm."}
    answers = [
        Answer(question_id=name, document_id=document, state="complete", **about),
        Answer(question_id=other, document_id=second, state="refused", **about),
    ]
    won = verdict(question_id=name, document_id=document, model_b="new", draw=bench.draw, label="B>A")
    store.replace("answers", frame_of(Answer, answers))
    store.replace("verdicts", frame_of(Verdict, [won]))
    marks = hard_prompts(store)
    new = dict(marks.filter(model="new")["question_id", "mark"].iter_rows())
    assert new == {name: "?", other: "R"}  # a win over a baseline says nothing of what is right
    voted = marks.filter(question_id=name).filter(pl.col("votes") > 0)
    failed = found.row(by_predicate=pl.col("conversation_id") == name, named=True)["models"]
    assert set(voted.filter(mark="X")["model"]) <= set(failed) and set(voted["mark"]) <= {"X", "?"}
    shown = failures_part(store, store.read("failures")["conversation_id"])
    assert ">?<" in shown.figure.svg and ">X<" in shown.figure.svg and "new" in shown.table.columns
    for table in ("hidden", "answers", "verdicts"):
        store.replace(table, store.empty(table))


def test_without_failures_the_bench_says_what_to_do(tmp_path):
    with pytest.raises(BadInput, match="no prompt that two people voted both bad"):
        bench_of(store_with(tmp_path), EvaluateSettings(bench="failures"))
