"""A side that gives no answer: it alone is asked again, by another model where it has answered nothing yet."""

import asyncio
from random import Random

import pytest

from schemas.asked_model import ArenaModel
from schemas.items.conversation import RecordType
from tasks.arena.admin.figures import ArenaFigures
from tasks.arena.conversations import Mode
from tasks.arena.entrance import Refused
from tasks.arena.opinions import AnswerReaction
from tasks.arena.pool import Pool
from tests.built_arena import VISIT, Scripted, image_file
from tests.tasks.ingest.logs import ingested

LEFT, UP = RecordType.LEFT_VOTE, RecordType.UPVOTE
BROKEN = (None,)


async def half_failed(built, place, **options):
    """A battle in which the side at `place` gave no answer, and the other one did."""
    for _ in range(200):
        conversation = await built.say(**options)
        await built.finished(conversation)
        if [side.answers[-1].failed for side in conversation.sides] == [place == 0, place == 1]:
            return conversation
    raise AssertionError("no such battle was drawn")


@pytest.mark.parametrize("place", [0, 1])
def test_only_the_failed_side_gets_another_model_and_the_log_says_so(build, tmp_path, place):
    built = build({"broken": Scripted(BROKEN), "good-model": Scripted(), "second-model": Scripted(("Bye.",))})

    async def battle():
        conversation = await half_failed(built, place)
        number, kept = conversation.id, conversation.sides[1 - place]
        answer, asked = kept.answers[-1], len(built.models[kept.model.name].asked)
        await built.arena.react(conversation, AnswerReaction(UP, 1, 1 - place), VISIT)
        await built.arena.ask_again(conversation, VISIT)
        await built.finished(conversation)
        assert kept.answers == [answer] and len(built.models[kept.model.name].asked) == asked
        assert conversation.id == number and (1, 1 - place) in conversation.reactions
        assert {side.model.name for side in conversation.sides} == {"good-model", "second-model"}
        assert await built.arena.vote(conversation, LEFT, VISIT)
        return conversation

    conversation = asyncio.run(battle())
    own = {side.conv_id for side in conversation.sides}
    lines = [each for each, _ in built.seen() if each["type"] == "chat" and each["state"]["conv_id"] in own]
    (anew,) = [line for line in lines if "in_place_of" in line["arena"]["sampling"]]
    name = conversation.sides[place].model.name
    assert (anew["model"], anew["arena"]["sampling"]["in_place_of"]) == (name, ["broken"])
    assert anew["arena"]["sampling"]["shares"] == {name: 1.0} and anew["arena"]["sampling"]["chance"] == 1.0
    again = build(built.models)
    again.arena.read_logs()
    listed = {each["number"]: each for each in again.arena.listed(VISIT.owner)}[conversation.id]
    assert [side["model"] for side in listed["sides"]] == [side.model.name for side in conversation.sides]
    store = ingested(built.folder, tmp_path / "store")
    (row,) = store.read("battles").to_dicts()
    assert [row["battle_id"], row["winner"]] == [conversation.id, "model_a"]
    models = dict(store.read("conversations").select("conversation_id", "model").rows())
    assert [models[side.conv_id] for side in conversation.sides] == [side.model.name for side in conversation.sides]


@pytest.mark.parametrize("place", [0, 1])
def test_a_forgotten_battle_of_which_one_side_failed_stays_forgotten_after_a_restart(build, place):
    built = build({"broken": Scripted(BROKEN), "good-model": Scripted(), "second-model": Scripted(("Bye.",))})

    async def battle():
        conversation = await half_failed(built, place)
        await built.arena.forget(conversation, VISIT)
        return conversation.id

    number = asyncio.run(battle())
    again = build(built.models)
    again.arena.read_logs()
    assert number not in [talk["number"] for talk in again.arena.listed(VISIT.owner)]
    with pytest.raises(Refused, match="was forgotten"):
        again.arena.find(number, VISIT.owner)


def test_a_report_on_an_answer_that_broke_off_is_forgotten_with_its_talk(build):
    built = build({"broken": Scripted(("Bad", None))})

    async def talk():
        conversation = await built.say(mode=Mode.DIRECT, chosen=["broken"])
        await built.finished(conversation)
        await built.arena.flag(conversation, 0, VISIT)
        await built.arena.forget(conversation, VISIT)
        return conversation.id

    number = asyncio.run(talk())
    assert [record["state"]["conv_id"] for record, _ in built.seen()] == [number]
    assert (built.folder / "takedown_requests.txt").read_text().split() == [number]


def test_a_side_that_fails_again_is_drawn_among_those_that_have_not_failed_until_none_is_left(build):
    broken = {f"broken-{number}": Scripted(BROKEN) for number in range(3)}
    built = build({"good-model": Scripted(), **broken})

    async def battle():
        conversation = await half_failed(built, 1)
        for _ in range(2):
            await built.arena.ask_again(conversation, VISIT)
            await built.finished(conversation)
        with pytest.raises(Refused, match="Too few models"):
            await built.arena.ask_again(conversation, VISIT)
        return conversation

    conversation = asyncio.run(battle())
    failed = [*conversation.sides[1].drawn["in_place_of"], conversation.sides[1].model.name]
    assert sorted(failed) == sorted(broken)
    assert len(conversation.sides[0].answers) == 1 and not conversation.may_vote()


def test_what_was_not_asked_for_is_refused(build):
    built = build()

    async def battle():
        conversation = await built.say()
        await built.finished(conversation)
        with pytest.raises(Refused, match="no finished answer"):
            await built.arena.ask_again(conversation, VISIT)
        await built.arena.vote(conversation, LEFT, VISIT)
        with pytest.raises(Refused, match="no finished answer"):
            await built.arena.ask_again(conversation, VISIT)

    asyncio.run(battle())


def test_a_chosen_model_is_asked_again_itself(build):
    built = build({"good-model": Scripted(), "second-model": Scripted(BROKEN)})

    async def talk():
        conversation = await built.say(mode=Mode.SIDE_BY_SIDE, chosen=("good-model", "second-model"))
        await built.finished(conversation)
        built.models["second-model"].words = ("Now.",)
        await built.arena.ask_again(conversation, VISIT)
        await built.finished(conversation)
        return [(side.model.name, side.answers[-1].text) for side in conversation.sides]

    assert asyncio.run(talk()) == [("good-model", "Hello there."), ("second-model", "Now.")]


def test_a_model_that_has_answered_before_is_asked_again_itself(build):
    built = build({"good-model": Scripted(), "second-model": Scripted(), "third-model": Scripted()})

    async def battle():
        conversation = await built.say()
        await built.finished(conversation)
        name = conversation.sides[0].model.name
        built.models[name].words = BROKEN
        await built.say("And now?", conversation=conversation)
        await built.finished(conversation)
        built.models[name].words = ("Later.",)
        await built.arena.ask_again(conversation, VISIT)
        await built.finished(conversation)
        assert conversation.sides[0].model.name == name and conversation.sides[0].answers[-1].text == "Later."
        assert await built.arena.vote(conversation, LEFT, VISIT)

    asyncio.run(battle())


def test_an_image_draws_another_model_that_reads_images(build, admission):
    names = {"broken": Scripted(BROKEN), "sees": Scripted(), "looks": Scripted(), "reads": Scripted()}
    built = build(names, vision=("broken", "sees", "looks"))

    async def battle():
        conversation = await half_failed(built, 0, pictures=[admission.picture(image_file())])
        await built.arena.ask_again(conversation, VISIT)
        await built.finished(conversation)
        return {side.model.name for side in conversation.sides}

    assert asyncio.run(battle()) == {"sees", "looks"}


def test_a_message_that_is_refused_for_the_other_model_leaves_the_failed_side_as_it_is(build, admission):
    class Refusing:
        version = "1"

        def moderate(self, texts):
            raise ConnectionError

    built = build({"broken": Scripted(BROKEN), "good-model": Scripted(), "second-model": Scripted()})

    async def battle():
        conversation = await half_failed(built, 0)
        kept = built.arena.admission
        built.arena.admission = type(kept)(kept.nsfw, 0.8, Refusing())
        with pytest.raises(Refused, match="not available"):
            await built.arena.ask_again(conversation, VISIT)
        return conversation

    conversation = asyncio.run(battle())
    assert conversation.sides[0].model.name == "broken" and conversation.failed_side() is conversation.sides[0]


def test_models_in_place_of_failed_ones_are_drawn_by_their_weights():
    weights = {"kept": 5.0, "broken": 1.0, "often": 3.0, "seldom": 1.0, "never": 0.0}
    models = [ArenaModel(name=name, base_url="http://h", weight=weight) for name, weight in weights.items()]
    pool, rng = Pool(models), Random(7)
    drawn = [pool.draw_beside("kept", ["broken"], False, [], rng) for _ in range(4000)]
    names = [each.model.name for each in drawn]
    assert set(names) == {"often", "seldom"} and abs(names.count("often") / len(names) - 0.75) < 0.03
    assert drawn[0].told["shares"] == {"often": 0.75, "seldom": 0.25}
    pool = Pool([models[0].model_copy(update={"weight": 0.0}), *models[1:]])
    assert pool.draw_beside("kept", ["broken"], False, [], rng) is not None, "the kept one is drawn no more"


def test_the_drawn_and_the_expected_battles_add_up_where_a_side_was_drawn_anew(build):
    names = ("broken", "good-model", "second-model", "third-model")
    built = build({name: Scripted(BROKEN if name == "broken" else ("Yes.",)) for name in names})

    async def battles():
        await built.arena.ask_again(await half_failed(built, 0), VISIT)
        await asyncio.sleep(0.05)

    asyncio.run(battles())
    figures = ArenaFigures([ArenaModel(name=name, base_url="http://h") for name in names])
    for record, _ in built.arena.logs.records():
        figures.note(record)
    drawn, expected = zip(*figures.exposure().values(), strict=True)
    assert sum(drawn) == pytest.approx(sum(expected))


async def made_anew_by_broken(built, broken, **options):
    """A talk read back from the log after its answers were asked for anew and the models `broken` gave none."""
    conversation = await built.say(**options)
    await built.finished(conversation)
    if conversation.mode is Mode.DIRECT:
        await built.arena.vote(conversation, UP, VISIT)
    for name in broken:
        built.models[name].words = BROKEN
    await built.arena.regenerate(conversation, VISIT)
    await built.finished(conversation)
    built.arena.tidy(0.0)
    return built.arena.find(conversation.id, VISIT.owner)


def test_an_answer_whose_rating_was_taken_back_may_be_rated_again_after_its_talk_was_read_from_the_log(build):
    built = build()

    async def talk():
        conversation = await made_anew_by_broken(built, ["good-model"], mode=Mode.DIRECT, chosen=["good-model"])
        return await built.arena.vote(conversation, RecordType.DOWNVOTE, VISIT)

    assert asyncio.run(talk())
    assert [record["type"] for record, _ in built.seen()] == ["chat", "upvote", "upvote", "downvote"]


@pytest.mark.parametrize("broken", ["good-model", "second-model"])
def test_an_answer_that_a_failed_one_replaced_is_not_voted_on_after_its_talk_was_read_from_the_log(build, broken):
    built = build()
    conversation = asyncio.run(made_anew_by_broken(built, [broken]))
    failed = conversation.failed_side()
    assert not conversation.may_vote()
    assert failed is not None and failed.model.name == broken


@pytest.mark.parametrize("broken", ["good-model", "second-model"])
def test_a_failed_side_that_answers_after_its_talk_was_read_from_the_log_stays_answered(build, broken):
    built = build()

    async def talk():
        conversation = await made_anew_by_broken(built, [broken])
        built.models[broken].words = ("Late.",)
        await built.arena.ask_again(conversation, VISIT)
        await built.finished(conversation)
        built.arena.tidy(0.0)
        return built.arena.find(conversation.id, VISIT.owner)

    assert asyncio.run(talk()).may_vote()
