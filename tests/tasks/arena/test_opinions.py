"""Votes while a talk goes on, reactions to answers, and reasons: from the visitor to the tables of a store."""

import asyncio
import json
from itertools import permutations

import pytest
import yaml

from schemas.errors import BadInput
from schemas.items.conversation import RecordType
from tasks.arena.conversations import Mode
from tasks.arena.entrance import Refused
from tasks.arena.opinions import AnswerReaction
from tasks.arena.reasons import read_reasons
from tests.built_arena import VISIT
from tests.tasks.ingest.logs import ingested

LEFT, RIGHT, UNSURE = RecordType.LEFT_VOTE, RecordType.RIGHT_VOTE, RecordType.UNSURE_VOTE
UP, DOWN = RecordType.UPVOTE, RecordType.DOWNVOTE
FLAG = '{"has_csam_image": 1}'


async def talk(built, turn_count, conversation=None, **options):
    """A conversation in which so many messages were answered."""
    for _ in range(turn_count):
        conversation = await built.say("And now?", conversation=conversation, **options)
        await built.finished(conversation)
    return conversation


def again(built, build):
    """The same arena after a restart, and its conversation of VISIT."""
    other = build(built.models).arena
    other.read_logs()
    (number,) = other.past.numbers(other.visitors.browser(VISIT.owner))
    return other, other.find(number, VISIT.owner)


def test_a_battle_that_goes_on_after_a_vote_ends_at_the_latest_vote(build, tmp_path):
    built = build()

    async def battle():
        conversation = await talk(built, 1)
        assert await built.arena.vote(conversation, LEFT, VISIT, goes_on=True)
        assert not conversation.named and not conversation.closed
        assert not await built.arena.vote(conversation, RIGHT, VISIT), "one vote a turn"
        await talk(built, 1, conversation)
        assert await built.arena.vote(conversation, RIGHT, VISIT, goes_on=True)
        await talk(built, 1, conversation)
        await built.arena.reveal(conversation, VISIT)
        assert conversation.named and conversation.closed
        return conversation

    conversation = asyncio.run(battle())
    assert [cast.vote for cast in built.arena.cast] == [RIGHT], "the board counts a battle once"
    store = ingested(built.folder, tmp_path / "store")
    (row,) = store.read("battles").to_dicts()
    assert (row["battle_id"], row["winner"], row["turns_a"], row["anonymous"]) == (
        conversation.id,
        "model_b",
        2,
        True,
    )
    assert store.read("conversations")["num_turns"].to_list() == [3, 3]
    votes = store.read("reactions").select("turn", "side", "winner").sort("turn", "side")
    assert votes.rows() == [(1, "a", "model_a"), (1, "b", "model_a"), (2, "a", "model_b"), (2, "b", "model_b")]
    seconds = store.read("reactions")["seconds_to_vote"]
    assert seconds.null_count() == 0 and seconds.min() >= 0
    assert store.read("rejects").is_empty() if store.parts("rejects") else True


def test_a_restart_in_mid_talk_keeps_what_was_said_of_the_answers(build):
    built = build()

    async def begun():
        conversation = await talk(built, 1)
        await built.arena.vote(conversation, LEFT, VISIT, goes_on=True)
        await built.arena.react(conversation, AnswerReaction(UP, 1, 1, ("clear",), "Neat"), VISIT)

    asyncio.run(begun())
    arena, conversation = again(built, build)
    assert not conversation.named and not conversation.closed and conversation.may_reveal()
    assert conversation.reactions[1, 1] == AnswerReaction(UP, 1, 1, ("clear",), "Neat")
    (listed,) = arena.listed(VISIT.owner)
    assert [side["model"] for side in listed["sides"]] == [None, None]
    (said,) = listed["reactions"]
    assert (said["side"], said["opinions"]) == (1, [{"turn": 1, "reasons": ["clear+"], "comment": "Neat"}])
    asyncio.run(arena.reveal(conversation, VISIT))
    assert again(built, build)[1].named


def test_who_does_not_know_has_not_voted(build, tmp_path):
    built = build()

    async def battles():
        conversation = await talk(built, 1)
        await built.arena.react(conversation, AnswerReaction(UP, 1, 0), VISIT)
        assert await built.arena.vote(conversation, UNSURE, VISIT)
        assert conversation.named and conversation.closed

    asyncio.run(battles())
    assert built.arena.cast == [] and built.arena.counts.votes == 0
    store = ingested(built.folder, tmp_path / "store")
    assert store.read("battles").is_empty() and store.read("conversations").height == 2
    (row,) = store.read("reactions").to_dicts()
    assert (row["liked"], row["winner"], row["side"]) == (True, None, None), "the reaction stays"


def test_who_does_not_know_is_told_that_no_vote_takes_a_reason(build):
    built = build()

    async def battle():
        conversation = await talk(built, 1)
        await built.arena.vote(conversation, UNSURE, VISIT)
        with pytest.raises(Refused, match="no vote that a reason belongs to"):
            await built.arena.give_reason(conversation, [], "words", ["on A", "on B"], VISIT)

    asyncio.run(battle())
    assert len(built.seen()) == 3


def test_an_earlier_vote_counts_where_the_visitor_does_not_know_later(build, tmp_path):
    built = build()

    async def battle():
        conversation = await talk(built, 1)
        await built.arena.vote(conversation, LEFT, VISIT, goes_on=True)
        await talk(built, 1, conversation)
        await built.arena.vote(conversation, UNSURE, VISIT)

    asyncio.run(battle())
    (row,) = ingested(built.folder, tmp_path / "store").read("battles").to_dicts()
    assert (row["winner"], row["turns_a"]) == ("model_a", 1) and [each.vote for each in built.arena.cast] == [LEFT]


@pytest.mark.parametrize(
    ("kind", "keys", "signed"),
    [
        (LEFT, ["clear", "helpful"], [["clear+", "helpful+"], []]),
        (RIGHT, ["clear"], [[], ["clear+"]]),
        (RecordType.TIE_VOTE, ["taste"], [["taste+"], ["taste+"]]),
        (RecordType.BOTH_BAD_VOTE, ["wrong"], [["wrong-"], ["wrong-"]]),
    ],
)
def test_reasons_are_logged_with_their_sign_on_the_side_that_they_are_about(build, tmp_path, kind, keys, signed):
    built = build()

    async def battle():
        conversation = await talk(built, 1)
        await built.arena.vote(conversation, kind, VISIT)
        await built.arena.give_reason(conversation, keys, "in short", ["on A", "on B"], VISIT)

    asyncio.run(battle())
    store = ingested(built.folder, tmp_path / "store")
    rows = store.read("reactions").sort("side").to_dicts()
    assert [row["reasons"] for row in rows] == signed
    assert [row["comment"] for row in rows] == ["on A", "on B"]
    english = ", ".join(read_reasons(None).fitting(kind, "en")[key] for key in keys)
    assert store.read("battles")["vote_reason"].to_list() == [f"{english}: in short"]


def test_a_comment_is_in_no_table_that_releases_are_made_of(build, tmp_path):
    built = build()

    async def battle():
        conversation = await talk(built, 1)
        await built.arena.react(conversation, AnswerReaction(DOWN, 1, 0, ("wrong",), "COMMENT ONE"), VISIT)
        await built.arena.vote(conversation, LEFT, VISIT)
        await built.arena.give_reason(conversation, [], "", ["COMMENT TWO"], VISIT)

    asyncio.run(battle())
    store = ingested(built.folder, tmp_path / "store")
    released = str([store.read(table).to_dicts() for table in ("conversations", "battles")])
    assert "COMMENT" not in released
    assert sorted(store.read("reactions")["comment"].drop_nulls()) == ["COMMENT ONE", "COMMENT TWO"]


def test_a_reaction_that_is_taken_back_is_none(build, tmp_path):
    built = build()

    async def talks():
        conversation = await talk(built, 2)
        liked, disliked = AnswerReaction(UP, 1, 0), AnswerReaction(DOWN, 2, 1, ("wrong",))
        await built.arena.react(conversation, AnswerReaction(DOWN, 1, 0), VISIT)
        await built.arena.react(conversation, liked, VISIT)
        await built.arena.react(conversation, disliked, VISIT)
        await built.arena.react(conversation, disliked, VISIT, withdrawn=True)
        with pytest.raises(Refused, match="no vote"):
            await built.arena.react(conversation, disliked, VISIT, withdrawn=True)
        return conversation

    conversation = asyncio.run(talks())
    rows = ingested(built.folder, tmp_path / "store").read("reactions").select("conversation_id", "turn", "liked")
    assert rows.rows() == [(conversation.id, 1, True)]
    assert list(again(built, build)[1].reactions) == [(1, 0)]


@pytest.mark.parametrize("mode", [Mode.BATTLE, Mode.DIRECT])
def test_an_answer_that_is_made_anew_takes_what_was_said_of_it_along(build, tmp_path, mode):
    built = build()
    chosen = ("good-model",) if mode is Mode.DIRECT else ()

    async def talks():
        conversation = await talk(built, 1, mode=mode, chosen=chosen)
        if mode is Mode.DIRECT:
            await built.arena.vote(conversation, DOWN, VISIT)
        else:
            await built.arena.react(conversation, AnswerReaction(DOWN, 1, 0), VISIT)
        await built.arena.regenerate(conversation, VISIT)
        await built.finished(conversation)
        assert conversation.may_vote()

    asyncio.run(talks())
    assert ingested(built.folder, tmp_path / "store").read("reactions").is_empty()


def test_answers_that_were_voted_on_are_not_made_anew(build):
    built = build()

    async def battle():
        conversation = await talk(built, 1)
        await built.arena.vote(conversation, LEFT, VISIT, goes_on=True)
        with pytest.raises(Refused, match="no finished answer"):
            await built.arena.regenerate(conversation, VISIT)

    asyncio.run(battle())


@pytest.mark.parametrize(
    ("reaction", "refused"),
    [
        (AnswerReaction(UP, 1, 0, ("wrong",)), "does not fit"),
        (AnswerReaction(UP, 1, 0, ("no such reason",)), "does not fit"),
        (AnswerReaction(UP, 2, 0), "no vote"),
        (AnswerReaction(UP, 0, 0), "no vote"),
        (AnswerReaction(UP, 1, 2), "no vote"),
        (AnswerReaction(UP, 1, -1), "no vote"),
        (AnswerReaction(LEFT, 1, 0), "no vote"),
    ],
)
def test_a_reaction_that_fits_nothing_writes_nothing(build, reaction, refused):
    built = build()

    async def battle():
        conversation = await talk(built, 1)
        before = [record for record, _ in built.seen()]
        with pytest.raises(Refused, match=refused):
            await built.arena.react(conversation, reaction, VISIT)
        return before

    before = asyncio.run(battle())
    assert [record for record, _ in built.seen()] == before


def test_an_unknown_reason_of_a_vote_writes_nothing(build):
    built = build()

    async def battle():
        conversation = await talk(built, 1)
        await built.arena.vote(conversation, LEFT, VISIT)
        with pytest.raises(Refused, match="does not fit"):
            await built.arena.give_reason(conversation, ["clear", "bogus"], "words", [], VISIT)

    asyncio.run(battle())
    assert all("reason" not in record for record, _ in built.seen())


@pytest.mark.parametrize("kind", [LEFT, RIGHT, RecordType.TIE_VOTE, RecordType.BOTH_BAD_VOTE])
def test_all_that_a_visitor_wrote_is_logged_beside_every_reason(build, tmp_path, kind):
    built, words = build(), "w" * 494 + " ENDS."
    keys = list(built.arena.reasons.fitting(kind))

    async def battle():
        conversation = await talk(built, 1)
        await built.arena.vote(conversation, kind, VISIT)
        await built.arena.give_reason(conversation, keys, words, [], VISIT)

    asyncio.run(battle())
    (reason,) = ingested(built.folder, tmp_path / "store").read("battles")["vote_reason"]
    assert reason.endswith(words) and all(text in reason for text in built.arena.reasons.fitting(kind, "en").values())


def test_a_comment_that_comes_later_leaves_the_reason_of_the_vote(build, tmp_path):
    built = build()

    async def battle():
        conversation = await talk(built, 1)
        await built.arena.vote(conversation, LEFT, VISIT)
        await built.arena.give_reason(conversation, ["clear"], "in short", [], VISIT)
        await built.arena.give_reason(conversation, [], "", ["on A"], VISIT)

    asyncio.run(battle())
    store = ingested(built.folder, tmp_path / "store")
    assert store.read("battles")["vote_reason"].to_list() == ["Clearer: in short"]
    assert store.read("reactions").filter(side="a").select("reasons", "comment").rows() == [(["clear+"], "on A")]


def test_a_reason_that_is_being_written_outlives_the_end_of_the_round(build, tmp_path):
    built = build()

    async def end(conversation):
        while True:
            try:
                return await built.arena.reveal(conversation, VISIT)
            except Refused:  # until the reason is written
                await asyncio.sleep(0)

    async def battle():
        conversation = await talk(built, 1)
        await built.arena.vote(conversation, LEFT, VISIT, goes_on=True)
        reason = built.arena.give_reason(conversation, ["clear"], "in short", [], VISIT)
        await asyncio.gather(reason, end(conversation))

    asyncio.run(battle())
    assert ingested(built.folder, tmp_path / "store").read("battles")["vote_reason"].to_list() == ["Clearer: in short"]


def test_a_vote_counts_that_is_cast_while_a_report_is_written(build):
    built = build()

    async def battle():
        conversation = await talk(built, 1)
        report = asyncio.create_task(built.arena.flag(conversation, 0, VISIT))
        while not conversation.voted and not report.done():
            await asyncio.sleep(0)
        assert await built.arena.vote(conversation, LEFT, VISIT)
        await report

    asyncio.run(battle())
    assert sorted(record["type"] for record, _ in built.seen()) == ["chat", "chat", "flag", "leftvote"]


@pytest.mark.parametrize(("first", "second"), [*permutations(["share", "vote", "reveal", "unshare"], 2)])
def test_what_is_pressed_while_something_else_is_written_is_refused_in_words(build, first, second):
    built = build()
    press = {
        "share": lambda conversation: built.arena.share(conversation, VISIT),
        "vote": lambda conversation: built.arena.vote(conversation, LEFT, VISIT, True),
        "unshare": lambda conversation: built.arena.unshare(conversation, VISIT),
        "reveal": lambda conversation: built.arena.reveal(conversation, VISIT),
    }

    async def battle():
        conversation = await talk(built, 1)
        await press["vote"](conversation)
        await press["share"](conversation)
        await talk(built, 1, conversation)
        writing = asyncio.create_task(press[first](conversation))
        while not conversation.voting and not writing.done():
            await asyncio.sleep(0)
        with pytest.raises(Refused, match="try again"):
            await press[second](conversation)
        await writing

    asyncio.run(battle())


def test_a_visitor_who_reacted_too_often_can_still_talk(build):
    built = build(messages_a_minute=3)

    async def battle():
        conversation = await talk(built, 1)
        for _ in range(3):
            await built.arena.react(conversation, AnswerReaction(UP, 1, 0), VISIT)
        with pytest.raises(Refused, match="wait"):
            await built.arena.react(conversation, AnswerReaction(UP, 1, 0), VISIT)
        await talk(built, 1, conversation)

    asyncio.run(battle())


def test_a_comment_flags_nothing(build, tmp_path):
    built = build()

    async def battle():
        conversation = await talk(built, 1)
        await built.arena.react(conversation, AnswerReaction(UP, 1, 0, (), FLAG), VISIT)
        await built.arena.vote(conversation, LEFT, VISIT)
        await built.arena.give_reason(conversation, [], FLAG, [FLAG, FLAG], VISIT)

    asyncio.run(battle())
    assert ingested(built.folder, tmp_path / "store").read("battles").height == 1


def test_an_operators_reasons_take_the_place_of_those_shipped(tmp_path):
    file = tmp_path / "reasons.yaml"
    file.write_text(yaml.safe_dump({"better": {"kind_words": {"en": "Kinder", "de": "Netter"}}}))
    reasons = read_reasons(file)
    assert reasons.fitting(LEFT, "de") == {"kind_words": "Netter"}
    assert reasons.fitting(LEFT, "ja") == {"kind_words": "Kinder"}, "without a Japanese text the English one"
    assert reasons.fitting(UP, "en") == {}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("better: [", "is not YAML"),
        ("beter: {}", "beter"),
        ("better: {Kind: {en: Kinder}}", "'Kind' is no key"),
        ("better: {kind: {de: Netter}}", "'kind' has no English text"),
        ("better: {kind: {en: Kinder, xx: Y}}", "the language 'xx'; the arena speaks ar, de"),
        (f"better: {{kind: {{en: {'x' * 61}}}}}", "of 1 to 60 characters"),
        ("better: {kind: {en: ''}}", "of 1 to 60 characters"),
        ("better: {kind: {en: \"a\\nb\"}}", "one line"),
    ],
)  # fmt: skip
def test_a_reasons_file_that_cannot_be_used_is_one_clear_line(tmp_path, text, error):
    file = tmp_path / "reasons.yaml"
    file.write_text(text)
    with pytest.raises(BadInput, match=error) as refused:
        read_reasons(file)
    assert "\n" not in str(refused.value) and str(file) in str(refused.value)


def test_every_shipped_reason_has_a_text_in_every_language():
    texts = yaml.safe_load(json.dumps(read_reasons(None)._file.model_dump()))
    languages = {tuple(sorted(labels)) for group in texts.values() for labels in group.values()}
    assert languages == {("ar", "de", "en", "es", "fr", "ja", "zh")}
