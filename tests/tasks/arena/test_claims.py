"""What a visitor does in two tabs at once: one of them is written, and the log and the page say the same of it."""

import asyncio
import fcntl
import os
import threading
import time
from contextlib import contextmanager

import pytest

from schemas.items.conversation import RecordType
from tasks.arena.conversations import Mode
from tasks.arena.entrance import Admission, KnownImage, Refused
from tasks.arena.opinions import AnswerReaction
from tests.arena_pages import Page, application
from tests.built_arena import VISIT, image_file

LEFT, UP, DOWN = RecordType.LEFT_VOTE, RecordType.UPVOTE, RecordType.DOWNVOTE


@contextmanager
def log_held(built):
    """Another process holds the lock of the log file meanwhile."""
    (file,) = built.folder.glob("vision-tmp-*.json")
    with file.open("rb") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        yield


async def begun(built, **options):
    """A talk whose first answers have ended."""
    conversation = await built.say(**options)
    await built.finished(conversation)
    return conversation


def test_of_two_reactions_to_one_answer_at_once_one_is_refused(build):
    built = build()

    async def talk():
        conversation = await begun(built)
        reactions = [AnswerReaction(kind, 1, 0) for kind in (UP, DOWN)]
        with log_held(built):
            clicks = [asyncio.create_task(built.arena.react(conversation, reaction, VISIT)) for reaction in reactions]
            await asyncio.sleep(0.05)
        return await asyncio.gather(*clicks, return_exceptions=True), conversation

    results, conversation = asyncio.run(talk())
    assert [type(result) for result in results] == [type(None), Refused]
    assert [record["type"] for record, _ in built.seen()] == ["chat", "chat", "upvote"]
    assert conversation.reactions[1, 0].kind is UP


def test_a_reaction_that_is_being_written_holds_back_new_answers(build):
    built = build()

    async def talk():
        conversation = await begun(built)
        with log_held(built):
            reacting = asyncio.create_task(built.arena.react(conversation, AnswerReaction(UP, 1, 0), VISIT))
            await asyncio.sleep(0.05)
            with pytest.raises(Refused, match="being written"):
                await built.arena.regenerate(conversation, VISIT)
        await reacting
        return conversation

    assert asyncio.run(talk()).state == (1, 0)


def test_a_reaction_whose_request_is_cancelled_is_in_the_page_as_it_is_in_the_log(build):
    built = build()

    async def talk():
        conversation = await begun(built)
        with log_held(built):
            reacting = asyncio.create_task(built.arena.react(conversation, AnswerReaction(UP, 1, 0), VISIT))
            await asyncio.sleep(0.05)
            reacting.cancel()
            await asyncio.sleep(0)
        while conversation.voting:
            await asyncio.sleep(0.01)
        return conversation

    assert asyncio.run(talk()).reactions[1, 0].kind is UP
    assert [record["type"] for record, _ in built.seen()] == ["chat", "chat", "upvote"]


@pytest.mark.parametrize("mode", [Mode.BATTLE, Mode.DIRECT])
def test_a_vote_while_new_answers_are_asked_for_neither_counts_nor_stops_them(build, mode):
    built = build()
    kind, chosen = (LEFT, ()) if mode is Mode.BATTLE else (UP, ("good-model",))

    async def talk():
        conversation = await begun(built, mode=mode, chosen=chosen)
        if mode is Mode.BATTLE:
            await built.arena.react(conversation, AnswerReaction(DOWN, 1, 0), VISIT)
        else:
            await built.arena.vote(conversation, DOWN, VISIT)
        with log_held(built):
            asking = asyncio.create_task(built.arena.regenerate(conversation, VISIT))
            await asyncio.sleep(0.2)
            voting = asyncio.create_task(built.arena.vote(conversation, kind, VISIT))
            await asyncio.sleep(0.2)
        await asking
        (result,) = await asyncio.gather(voting, return_exceptions=True)
        assert not result or isinstance(result, Refused)
        await built.finished(conversation)
        return conversation

    assert asyncio.run(talk()).state == (1, 1)
    opinions = [record for record, _ in built.seen() if record["type"] != "chat"]
    assert [record["type"] for record in opinions] == ["downvote", "downvote"]


def test_a_talk_that_is_forgotten_while_new_answers_are_asked_for_asks_for_none(build):
    built = build()

    async def talk():
        conversation = await begun(built)
        await built.arena.react(conversation, AnswerReaction(DOWN, 1, 0), VISIT)
        asked = {name: len(model.asked) for name, model in built.models.items()}
        with log_held(built):
            asking = asyncio.create_task(built.arena.regenerate(conversation, VISIT))
            await asyncio.sleep(0.2)
            await built.arena.forget(conversation, VISIT)
        with pytest.raises(Refused):
            await asking
        return {name: len(model.asked) - asked[name] for name, model in built.models.items()}

    assert set(asyncio.run(talk()).values()) == {0}


def test_reasons_have_a_limit_in_a_minute(build):
    built = build(messages_a_minute=3)

    async def talk():
        conversation = await begun(built)
        await built.arena.vote(conversation, LEFT, VISIT)
        for number in range(10):
            await built.arena.give_reason(conversation, [], f"Reason {number}", [], VISIT)

    with pytest.raises(Refused, match="in a minute"):
        asyncio.run(talk())
    assert [record["type"] for record, _ in built.seen()].count("leftvote") == 4


def test_of_two_messages_at_once_the_picture_of_the_refused_one_is_not_kept(build, admission):
    built = build(vision=("good-model", "second-model"))
    pictures = [admission.picture(image_file(seed=seed)) for seed in range(3)]

    async def talk():
        conversation = await begun(built, pictures=pictures[:1])
        messages = [built.say("And this?", [picture], conversation) for picture in pictures[1:]]
        results = await asyncio.gather(*messages, return_exceptions=True)
        await built.finished(conversation)
        return [isinstance(result, Refused) for result in results], conversation

    refused, conversation = asyncio.run(talk())
    assert sorted(refused) == [False, True]
    sent = {picture.name for prompt in conversation.prompts for picture in prompt.pictures}
    assert {file.stem for file in (built.folder / "serve_images").iterdir()} == sent


def test_a_model_is_not_compared_with_itself(build):
    built = build()
    with pytest.raises(Refused, match="choose models"):
        asyncio.run(built.say(mode=Mode.SIDE_BY_SIDE, chosen=("good-model", "good-model")))


def test_a_talk_that_a_known_image_ended_stays_ended_when_it_is_read_from_the_log(build):
    built = build(vision=("good-model", "second-model"))

    def known():
        raise KnownImage("0" * 32, b"never decoded")

    async def talk():
        conversation = await begun(built)
        with pytest.raises(Refused, match="has ended"):
            await built.arena.say(conversation, Mode.BATTLE, (), "Look", known, VISIT)
        built.arena.tidy(0.0)
        return built.arena.find(conversation.id, VISIT.owner)

    conversation = asyncio.run(talk())
    assert conversation.closed
    restarted = build(built.models).arena
    restarted.read_logs()
    assert restarted.find(conversation.id, VISIT.owner).closed
    assert len(restarted.listed(VISIT.owner)) == 1


def test_a_talk_whose_message_waits_for_the_moderation_is_there_once(build, admission):
    checked, go = threading.Event(), threading.Event()

    class Slow:
        version = "1"

        def moderate(self, texts):
            if len(texts) > 1:
                checked.set()
                go.wait(20)
            return admission.moderator.moderate(texts)

    built = build(admission=Admission(admission.nsfw, 0.8, Slow()))

    async def talk():
        conversation = await begun(built)
        asking = asyncio.create_task(built.say("And now?", conversation=conversation))
        await asyncio.to_thread(checked.wait, 20)
        built.arena.tidy(0.0)
        other_tab = built.arena.find(conversation.id, VISIT.owner)
        go.set()
        spoken = await asking
        await built.finished(spoken)
        return other_tab, spoken

    other_tab, spoken = asyncio.run(talk())
    assert other_tab is spoken


def test_other_visitors_are_answered_while_a_talk_is_read_from_a_slow_disk(build, admission):
    built = build()
    app = application(built, admission)

    def end_slow_read(path):
        time.sleep(1)
        path.open("wb").close()

    async def visits():
        visitor = Page(app)
        await visitor.begin()
        await visitor.say("Which colour?", mode="direct", chosen=["good-model"])
        built.arena.tidy(0.0)
        (file,) = built.folder.glob("vision-tmp-*.json")
        file.unlink()
        os.mkfifo(file)  # opening it to read waits for a writer
        slow = asyncio.create_task(asyncio.to_thread(end_slow_read, file))
        clicking = asyncio.create_task(visitor.act("stop"))
        ticks = 0
        while not slow.done():
            await asyncio.sleep(0.01)
            ticks += 1
        assert (await clicking)["key"] == "no_conversation"
        return ticks

    assert asyncio.run(visits()) > 10
