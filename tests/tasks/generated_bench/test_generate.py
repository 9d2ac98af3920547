"""A benchmark made on demand: asked for once, the same in every run and after a kill, its keys even."""

import dataclasses
import os
import signal
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from schemas.benches.generated import DrawingState, GeneratedImage, GeneratedOutcome
from schemas.benches.generated_results import Solved, WrittenAspect, WrittenDescription, WrittenQuestion
from schemas.errors import BadInput
from schemas.policy import GeneratedRule
from schemas.settings import Settings
from tasks.generated_bench.alignment import failed_elements
from tasks.generated_bench.aspects import fitting, levels, load_capability, write_aspects
from tasks.generated_bench.bench_state import read_bench
from tasks.generated_bench.making import DESCRIPTIONS_A_ROUND, begin_bench
from tasks.generated_bench.questions import ASPECT_NOT_SHOWN, elements_asked, question_problem
from tasks.generated_bench.steps import check_images, draw_images, write_texts
from tasks.generated_bench.wordings import ALPHABET
from tasks.ingest.steps import take_in_drawings, take_in_items
from tasks.ingest.take_in import NoObserver
from tasks.providers import Providers
from tasks.providers.capabilities import Failed
from tasks.providers.embedded.scenes.author import SceneAuthor
from tasks.providers.embedded.scenes.pictures import FAULTS
from tasks.storage.keyed_ids import KEY_VARIABLE
from tasks.storage.parts import ROWS_A_PART
from tasks.storage.tables import Store
from tasks.takedown.take_down import take_down
from tests.builders import image_bytes
from tests.generated_bench import NAME, make, settings_for
from tests.places import ROOT

TABLES = (
    "generated_descriptions", "alignments", "generated_questions", "generated_items", "generated_outcomes", "images",
)  # fmt: skip


class NoCalls:
    """Providers that may not be called."""

    def __init__(self):
        self.names = Providers().names

    def __getitem__(self, name):
        if name == "text_embedding":
            return Providers()[name]
        return type("Never", (), {"calls_at_once": 1, "version": "never"})()


class Scripted:
    """A provider whose one method gives these results in turn, then those of the embedded one."""

    def __init__(self, method, results, embedded):
        self._method, self._results, self._embedded = method, list(results), embedded

    def __getattr__(self, name):
        real = getattr(self._embedded, name)
        if name != self._method:
            return real
        return lambda *asked: self._results.pop(0) if self._results else real(*asked)


class With(Providers):
    """The embedded providers, but for one."""

    def __init__(self, capability, provider):
        super().__init__()
        self._other = {capability: provider}

    def __getitem__(self, name):
        return self._other.get(name) or super().__getitem__(name)


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FAULTS, "0.3")
        settings = settings_for(tmp_path_factory.mktemp("bench") / "store")
        make(settings)
        yield settings


@pytest.fixture(scope="module")
def made(settings):
    return read_bench(Store(settings.store), NAME)


def test_every_cell_is_full_and_keys_are_even_in_every_level(made):
    cells = Counter((each.description.aspect, each.description.level) for each in made.progress)
    assert cells == dict.fromkeys(((a, level) for a in range(4) for level in ("easy", "medium", "hard")), 2)
    assert len(made.outcomes) == made.wanted == 24
    assert len(made.items) == sum(outcome.outcome == "item" for outcome in made.outcomes.values()) > 20
    for level in made.bench.levels:
        counts = Counter(item.key for item in made.items if item.level == level)
        assert max(counts.values()) - min(counts[letter] for letter in "ABCD") <= 1
        assert all(item.options["ABCD".index(item.key)] for item in made.items)


def test_items_become_conversations_of_one_question_with_their_image(settings, made):
    asked = {row["conversation_id"]: row for row in Store(settings.store).read("conversations").to_dicts()}
    assert asked.keys() == {item.item_id for item in made.items}
    for item in made.items:
        row = asked[item.item_id]
        assert row["image_ids"] == [item.image_id]
        assert [turn["content"] for turn in row["turns"]] == [item.prompt]
        assert f"{item.key}. {item.options['ABCD'.index(item.key)]}" in item.prompt


def test_a_question_asks_for_what_its_level_says_and_the_image_shows(made):
    checks = {each.description.description_id: each.description.checks for each in made.progress}
    said = {item.item_id: f"{item.question} {item.options[ALPHABET.index(item.key)]}" for item in made.items}
    asked = {item.item_id: elements_asked(said[item.item_id], checks[item.description_id]) for item in made.items}
    limits = {name: range(level.asked_min, level.asked_max + 1) for name, level in levels().items()}
    assert {item.level for item in made.items} == {"easy", "medium", "hard"}
    assert [item.question for item in made.items if asked[item.item_id] not in limits[item.level]] == []
    failed = [each for each in made.progress if each.last.score < 1]
    assert failed, "with 30 % planted faults some images are accepted with a failed element"
    for each in failed:
        elements = failed_elements(each.description.checks, each.last.answers)
        assert elements
        assert not any(element.element.endswith("?") for element in elements)
        if each.questions[-1].problem == ASPECT_NOT_SHOWN:
            assert each.outcome.reason == "question"
            continue
        reply = WrittenQuestion(
            kind="k", question=each.questions[-1].question, right=each.questions[-1].options[0],
            wrong=each.questions[-1].options[1:],
        )  # fmt: skip
        assert question_problem(reply, elements) == ""


def test_a_benchmark_goes_on_whose_capability_an_earlier_version_worded_otherwise(tmp_path):
    settings = settings_for(tmp_path / "store", general=1, fine=1, per_aspect=1, levels=["easy"])
    write_texts.fn(settings, Providers())
    store, earlier = Store(settings.store), load_capability("spatial").model_copy(update={"goal": "Another goal here."})
    begun = store.read("generated_benches").with_columns(capability=pl.lit(earlier.model_dump_json()))
    store.replace("generated_benches", begun)
    before = read_bench(store, NAME).bench
    write_texts.fn(settings, Providers())
    assert read_bench(Store(settings.store), NAME).bench == before


def test_a_benchmark_that_was_begun_with_other_sizes_is_refused(tmp_path):
    sizes = {"general": 1, "fine": 1, "levels": ["easy"]}
    write_texts.fn(settings_for(tmp_path / "store", per_aspect=1, **sizes), Providers())
    with pytest.raises(BadInput, match="was begun with other per aspect"):
        write_texts.fn(settings_for(tmp_path / "store", per_aspect=2, **sizes), Providers())


def test_a_second_run_calls_nobody_and_leaves_the_same_bytes(settings):
    store = Store(settings.store)
    before = {table: store.parts(table) for table in TABLES}
    make(settings, NoCalls())
    assert {table: store.parts(table) for table in TABLES} == before


def test_a_failed_call_is_made_again_and_nothing_else(tmp_path):
    settings = settings_for(tmp_path, per_aspect=1, levels=["easy"])
    embedded = Providers()
    down = Scripted("draw", [Failed("server_error")] * 12, embedded["pictures"])
    store = make(settings, With("pictures", down))
    assert store.height("generated_images") == 0 and store.height("generated_items") == 0
    store = make(settings)
    assert store.height("generated_images") >= 4 and store.height("generated_items") == 4


class Counting(Scripted):
    """A scripted provider that counts the calls of its method."""

    calls = 0

    def __getattr__(self, name):
        self.calls += name == self._method
        return super().__getattr__(name)


def _one_cell(folder, per_aspect):
    return settings_for(folder, general=1, fine=1, per_aspect=per_aspect, levels=["easy"])


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_after_a_failed_call_no_round_asks_for_more_of_its_cell(tmp_path, rounds):
    down = Counting("describe", [Failed("timed_out")] * 100, Providers()["author"])
    write_texts.fn(_one_cell(tmp_path, DESCRIPTIONS_A_ROUND * rounds), With("author", down))
    assert down.calls == 1


@pytest.mark.parametrize("gap", [0, 1, 2])
def test_a_gap_is_filled_with_what_no_later_description_says(tmp_path, gap):
    settings = _one_cell(tmp_path, 4)
    write_texts.fn(settings, Providers())
    store = Store(settings.store)
    before = store.read("generated_descriptions").sort("number")
    store.replace("generated_descriptions", before.filter(pl.col("number") != gap))
    last = WrittenDescription(**before.select(*WrittenDescription.model_fields).row(3, named=True))
    write_texts.fn(settings, With("author", Scripted("describe", [last], Providers()["author"])))
    texts = store.read("generated_descriptions")["description"]
    assert len(texts) == texts.n_unique() == 4


def test_descriptions_with_equal_pictures_are_all_checked_at_once(tmp_path):
    settings, rule = settings_for(tmp_path, per_aspect=1, levels=["easy"]), GeneratedRule()
    same = With("pictures", Scripted("draw", [image_bytes(1)] * 4, Providers()["pictures"]))
    write_texts.fn(settings, same)
    draw_images.fn(settings, same, rule)
    take_in_drawings.fn(settings, NoObserver())
    check_images.fn(settings, same, rule)
    store = Store(settings.store)
    assert (store.height("images"), store.read("alignments")["description_id"].n_unique()) == (1, 4)


def test_calls_for_rejected_descriptions_are_reported(tmp_path):
    wordless = WrittenDescription(description="", topic_word="cup", key_words=["red"] * 4)
    author = Scripted("describe", [wordless] * 3, Providers()["author"])
    report = write_texts.fn(_one_cell(tmp_path, 2), With("author", author))
    assert report.counts["description_rejected"] == report.counts["descriptions"] == 1
    assert report.model_calls["author"] == 3  # one of them for the aspects


def test_a_refused_image_is_dropped_by_name_and_not_ordered_again(tmp_path):
    settings = settings_for(tmp_path, per_aspect=1, levels=["easy"])
    refusing = Scripted("draw", [Failed("refused")], Providers()["pictures"])
    store = make(settings, With("pictures", refusing))
    outcomes = store.read("generated_outcomes")
    assert outcomes.filter(reason="refused").height == 1 and outcomes.filter(outcome="item").height == 3
    refused = store.read("generated_images").filter(state="refused")["description_id"][0]
    assert store.read("generated_images").filter(description_id=refused).height == 1


def test_an_image_of_no_size_is_a_reject_and_drawn_again(tmp_path):
    settings = settings_for(tmp_path, per_aspect=1, levels=["easy"])
    broken = Scripted("draw", [b"", b"not an image"], Providers()["pictures"])
    store = make(settings, With("pictures", broken))
    bad = [GeneratedImage(**row) for row in store.read("generated_images").filter(state="unusable").to_dicts()]
    assert {each.reason for each in bad} == {"image_empty", "not_an_image"} or len(bad) == 2
    assert all(each.state is DrawingState.UNUSABLE and each.image_id is None for each in bad)
    assert store.height("generated_items") == 4


def test_an_image_below_the_threshold_is_drawn_again_and_then_dropped(tmp_path):
    settings = settings_for(tmp_path, per_aspect=1, levels=["easy"])
    blind = Scripted("look", ["nothing"] * 10_000, Providers()["viewer"])
    store = make(settings, With("viewer", blind), GeneratedRule(redraws_max=1))
    outcomes = [GeneratedOutcome(**row) for row in store.read("generated_outcomes").to_dicts()]
    assert {(each.reason, each.images, each.score) for each in outcomes} == {("alignment", 2, 0.0)}
    assert store.read("images").height == 8 and store.height("conversations") == 0


def test_a_viewer_that_fails_leaves_no_score(tmp_path):
    settings = settings_for(tmp_path, per_aspect=1, levels=["easy"])
    down = Scripted("look", [Failed("timed_out")] * 10_000, Providers()["viewer"])
    store = make(settings, With("viewer", down))
    assert store.height("alignments") == 0 and store.height("generated_outcomes") == 0


def test_questions_that_another_call_cannot_solve_are_rejected(tmp_path):
    settings = settings_for(tmp_path, per_aspect=1, levels=["easy"])
    unsure = Scripted("solve", [Solved(answer="none of them")] * 3, Providers()["author"])
    store = make(settings, With("author", unsure))
    rejected = store.read("generated_questions").filter(pl.col("problem") != "")
    assert rejected["problem"].to_list() == ["another call without the key finds another answer"] * 3
    assert store.read("generated_outcomes").filter(reason="question").height == 1


def test_an_item_that_was_taken_down_is_not_made_again(tmp_path, monkeypatch):

    from tasks.storage.tables import Store

    monkeypatch.setenv(KEY_VARIABLE, "a key for every store here")
    settings = settings_for(tmp_path, per_aspect=1, levels=["easy"])
    store = make(settings)
    item = store.read("generated_items").to_dicts()[0]
    take_down(Store(settings.store), [item["item_id"]], (), datetime.now(UTC), False)
    assert item["image_id"] not in store.read("images")["image_id"].to_list()
    make(settings, NoCalls())
    assert take_in_items.fn(settings).counts["conversations"] == 3
    assert item["item_id"] not in store.read("generated_items")["item_id"].to_list()


def test_a_benchmark_goes_on_after_takedowns_and_makes_nothing_of_them_again(tmp_path, monkeypatch):

    monkeypatch.setenv(KEY_VARIABLE, "a key for every store here")
    settings = settings_for(tmp_path, per_aspect=1, levels=["easy"])
    down = Scripted("question", [Failed("server_error")], Providers()["author"])
    store = make(settings, With("author", down))
    assert store.height("generated_items") == 0 and store.height("generated_outcomes") == 3
    first = store.read("generated_questions").to_dicts()[0]
    take_down(store, [first["image_id"]], (), datetime.now(UTC), False)
    items = make(settings).read("generated_items")
    assert items.height == 3 and first["description_id"] not in items["description_id"].to_list()

    stay = {table: store.read(table) for table in ("generated_images", "generated_questions")}
    removed = take_down(store, items["item_id"].to_list(), (), datetime.now(UTC), False)
    assert (removed.lines, removed.image_files) == ([], []), "what was made here is in no raw log"
    kept = {table: store.height(table) for table in ("generated_descriptions", "generated_outcomes", "alignments")}
    assert kept == {"generated_descriptions": 4, "generated_outcomes": 4, "alignments": 0}
    make(settings, NoCalls())
    assert store.height("generated_items") == 0 == store.height("conversations")
    for table, rows in stay.items():  # as when another conversation shows their images
        store.append(table, rows)
    make(settings, NoCalls())
    assert store.height("generated_items") == 0


def test_an_image_after_one_that_was_taken_down_has_a_number_of_its_own(made):
    standing = next(each for each in made.progress if each.outcome.outcome == "item")
    second = standing.images[-1].model_copy(update={"attempt": 1})
    unseen = dataclasses.replace(standing, images=[second], alignments={}, questions=[], outcome=None)
    assert unseen.next_attempt == 2 and not unseen.accepted


def test_an_author_that_repeats_itself_is_one_clear_line(tmp_path):
    class Parrot(SceneAuthor):
        def aspects(self, wanted):
            found = super().aspects(dataclasses.replace(wanted, known=()))
            return found.model_copy(update={"aspects": found.aspects[:1] * 4})

    settings = settings_for(tmp_path)
    bench = begin_bench(Store.open(settings.store), settings)
    with pytest.raises(BadInput, match="gave 1 different aspects of 4 in 4 rounds"):
        write_aspects(Parrot(), bench, load_capability("spatial"))
    near = [WrittenAspect(general="g", name=n, introduction="i", guideline="g") for n in ("red balls", "the Red balls")]
    assert len(fitting(near, 1, 2)) == 1


def test_bad_input_is_one_clear_line(settings, tmp_path):
    store = Store(settings.store)
    with pytest.raises(BadInput, match="begun with other per aspect: 2, not 3"):
        begin_bench(
            store, settings.model_copy(update={"generate": settings.generate.model_copy(update={"per_aspect": 3})})
        )
    with pytest.raises(BadInput, match="has no benchmark of this name; it has scenes"):
        read_bench(store, "other")
    (tmp_path / "own.yaml").write_text("name: own\ndefinition: short\n")
    with pytest.raises(BadInput, match="its keys are name, definition, goal, requirement"):
        load_capability(str(tmp_path / "own.yaml"))


KILLED_AT = 45
"""The order at which the run is killed: one part of images is stored by then, and another is on its way."""
IN_FLIGHT = 4
"""Calls under way beside the batch: twice those that the embedded image model takes at once."""


class LoggedPictures(Providers):
    """The embedded providers; every order of an image is a line in a file, and the run may die at one of them."""

    def __init__(self, log: Path, killed_at: int | None = None) -> None:
        super().__init__()
        self._log, self._killed_at = log, killed_at
        self._drawing = super().__getitem__("pictures")

    def __getitem__(self, name):
        return self if name == "pictures" else super().__getitem__(name)

    def __getattr__(self, name):
        return getattr(self._drawing, name)

    def draw(self, told: str, order: str) -> bytes | Failed:
        """Draw one; each order is paid when it is made."""
        with self._log.open("a") as log:
            log.write(f"{order}\n")
        if self._killed_at and len(self._log.read_text().splitlines()) >= self._killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return self._drawing.draw(told, order)


def orders(log: Path) -> list[str]:
    """Every order so far."""
    return log.read_text().splitlines()


def chosen(folder: Path) -> Settings:
    """48 descriptions: more than a part holds."""
    return settings_for(folder, per_aspect=4)


@pytest.fixture
def killed(tmp_path):
    """(settings, log of orders) of a run that was killed at its 45th order."""
    log, store = tmp_path / "orders", tmp_path / "store"
    code = (
        "import sys; from pathlib import Path; from tests.generated_bench import make; "
        "from tests.tasks.generated_bench.test_generate import KILLED_AT, LoggedPictures, chosen; "
        "make(chosen(Path(sys.argv[2])), LoggedPictures(Path(sys.argv[1]), KILLED_AT))"
    )
    ended = subprocess.run([sys.executable, "-c", code, log, store], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr[-2000:]
    return chosen(store), log


def test_a_killed_run_orders_at_most_one_batch_again_and_ends_as_any_other(killed, tmp_path):
    settings, log = killed
    before = orders(log)
    stored = {
        f"{settings.seed} {row['description_id']} {row['attempt']}"
        for row in Store(settings.store).read("drawings").to_dicts()
    }
    assert stored and KILLED_AT <= len(before) <= len(stored) + ROWS_A_PART + IN_FLIGHT
    store = make(settings, LoggedPictures(log))
    after = orders(log)[len(before) :]
    assert not stored & set(after), "an image that is stored is not paid again"
    again = sorted(order for order, times in Counter(orders(log)).items() if times > 1)
    assert 0 < len(again) <= ROWS_A_PART + IN_FLIGHT and set(again) <= set(before)
    made = read_bench(store, NAME)
    assert len(made.outcomes) == made.wanted == 48
    whole = make(chosen(tmp_path / "whole"))
    assert store.read("generated_items").sort("number").equals(whole.read("generated_items").sort("number"))


def test_calls_that_a_budget_stopped_are_made_later_and_no_image_twice(tmp_path):
    settings, log = chosen(tmp_path / "store"), tmp_path / "orders"

    class Spent(LoggedPictures):
        def draw(self, told: str, order: str) -> bytes | Failed:
            if log.exists() and len(orders(log)) >= 10:
                return Failed("budget_reached")
            return super().draw(told, order)

    make(settings, Spent(log))
    assert len(orders(log)) in (10, 11)  # two calls at once
    assert draw_images.fn(settings, Spent(log), GeneratedRule()).failures["pictures: budget_reached"]
    store = make(settings, LoggedPictures(log))
    assert max(Counter(orders(log)).values()) == 1
    assert len(read_bench(store, NAME).outcomes) == 48
