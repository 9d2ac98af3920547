"""A message that seems to have personal data: the visitor is asked, may send it anyway, and the log says so."""

import asyncio
from dataclasses import replace

import pytest

from flows.arena.serving import personal_kinds
from tasks.arena.conversations import Mode
from tasks.arena.entrance import Refused
from tests.built_arena import VISIT

ASKED = {
    "Call me at +49 30 901820": "phone",
    "Write to anna.schmidt@web.de": "email",
    "My card is 4111 1111 1111 1111": "card",
}


@pytest.fixture
def careful(build, admission):
    """An arena that asks before personal data is sent."""
    return build(admission=replace(admission, personal=personal_kinds))


async def say(built, text: str, sure: bool, conversation=None):
    return await built.arena.say(conversation, Mode.BATTLE, (), text, list, VISIT, sure=sure)


@pytest.mark.parametrize("text", ASKED)
def test_nothing_is_sent_before_the_visitor_is_sure(careful, text):
    with pytest.raises(Refused) as refused:
        asyncio.run(say(careful, text, sure=False))
    assert refused.value.key == "doubted" and "Send it anyway?" in str(refused.value)
    assert careful.seen() == [] and all(not model.asked for model in careful.models.values())


@pytest.mark.parametrize(("text", "kind"), ASKED.items())
def test_what_is_sent_anyway_is_sent_whole_with_its_kind_in_the_log(careful, text, kind):
    async def battle():
        conversation = await say(careful, text, sure=True)
        await careful.finished(conversation)
        await careful.finished(await say(careful, "And now?", sure=False, conversation=conversation))

    asyncio.run(battle())
    lines = [record["arena"]["sent_anyway"] for record, _ in careful.seen()]
    assert lines == [[kind], [kind], [], []], "each message has its own"
    assert all(model.asked[0][0].text == text for model in careful.models.values())


@pytest.mark.parametrize(
    "text", ["Explain a rainbow.", "What is 0.1 + 0.2?", "Three days in Lisbon in 2026 for 1,200 euros"]
)
def test_a_plain_question_is_not_asked_about(careful, text):
    assert asyncio.run(say(careful, text, sure=False)).prompts[0].personal == ()


def test_an_answer_that_is_made_anew_after_a_restart_says_too_what_was_sent_anyway(careful, build):
    (text, kind), *_ = ASKED.items()
    again = build(careful.models)

    async def battle():
        conversation = await say(careful, text, sure=True)
        await careful.finished(conversation)
        again.arena.read_logs()
        reopened = again.arena.find(conversation.id, VISIT.owner)
        await again.arena.regenerate(reopened, VISIT)
        await again.finished(reopened)

    asyncio.run(battle())
    assert [record["arena"]["sent_anyway"] for record, _ in careful.seen()] == [[kind]] * 4
