"""Battles, votes and what is logged of them: read back by the code that `curate ingest` reads logs with."""

import asyncio
import fcntl
from datetime import UTC, datetime

import pytest

from schemas.items.conversation import RecordType
from schemas.settings import Settings
from tasks.arena.conversations import Mode
from tasks.arena.entrance import KnownImage, Refused
from tasks.arena.page import notice
from tasks.arena.rounds import Visit
from tasks.arena.words import page_words
from tasks.storage.keyed_ids import Pseudonyms
from tasks.takedown.steps import apply_requests
from tests.built_arena import KEY, VISIT, Scripted, image_file
from tests.cut_off import room_for
from tests.tasks.ingest.logs import ingested

LEFT = RecordType.LEFT_VOTE


def test_a_battle_with_an_image_is_logged_as_fastchat_does_and_read_without_a_reject(build, admission):
    built = build(vision=("good-model", "second-model"))

    async def battle():
        conversation = await built.say("What is this?", [admission.picture(image_file(), "memes_1.jpg")])
        await built.finished(conversation)
        await built.say("And now?", conversation=conversation)
        await built.finished(conversation)
        assert await built.arena.vote(conversation, LEFT, VISIT)
        await built.arena.give_reason(conversation, ["clear"], "fewer words", [], VISIT)
        return conversation

    conversation = asyncio.run(battle())
    seen = built.seen()
    assert [record["type"] for record, _ in seen] == ["chat"] * 4 + ["leftvote"] * 2
    first, vote = seen[0][0], seen[-1][0]
    assert list(first)[:7] == ["tstamp", "type", "model", "gen_params", "start", "finish", "state"]
    assert first["tstamp"] == first["finish"] and list(vote)[:5] == ["tstamp", "type", "models", "states", "ip"]
    assert first["arena"]["presets"] == ["memes_1.jpg"] and first["arena"]["moderation"]["flagged_categories"] == []
    left, right = seen[-1][1]
    assert (left.anonymous, left.winner, left.vote_reason) == (True, "model_a", "Clearer: fewer words")
    assert left.texts[0] == "What is this?" and len(left.texts) == 4 and left.images == right.images
    assert (built.folder / "serve_images" / f"{left.images[0]}.png").is_file()
    assert [left.model, right.model] == [side.model.name for side in conversation.sides]
    assert left.user_id == Pseudonyms(KEY).user_id(VISIT.address), "a takedown by address finds it"
    assert VISIT.address not in b"".join(file.read_bytes() for file in built.folder.glob("*.json")).decode()
    sent = built.models[left.model].asked[1]
    assert [message.role for message in sent] == ["user", "assistant", "user"] and sent[0].images[0][0] == "png"


def test_what_a_visitor_writes_flags_nothing_of_other_visitors(build, admission, tmp_path):
    built = build(vision=("good-model", "second-model"))
    flag = '{"has_csam_image": 1}'

    async def battles():
        for number, said in enumerate([flag, "Fine"]):
            visit = Visit(f"browser {number}", f"203.0.113.{number}")
            conversation = await built.say(said, [admission.picture(image_file())], visit=visit)
            await built.finished(conversation)
            await built.arena.vote(conversation, LEFT, visit)
            await built.arena.give_reason(conversation, [], said, [said, said], visit)

    asyncio.run(battles())
    store = ingested(built.folder, tmp_path / "store")
    assert store.read("conversations").height == 4 and store.read("battles").height == 2
    assert not store.parts("rejects") or store.read("rejects").is_empty()


def test_a_vote_that_is_being_written_is_the_only_one_though_its_request_is_cancelled(build):
    """Another process holds the lock of the log file meanwhile."""
    built = build()

    async def battle():
        conversation = await built.say()
        await built.finished(conversation)
        (file,) = built.folder.glob("*.json")
        log = file.open("rb")
        fcntl.flock(log, fcntl.LOCK_EX)
        voting = asyncio.create_task(built.arena.vote(conversation, LEFT, VISIT))
        await asyncio.sleep(0.01)
        for other in (built.arena.regenerate(conversation, VISIT), built.say("More?", conversation=conversation)):
            with pytest.raises(Refused, match="being written"):
                await other
        voting.cancel()
        await asyncio.sleep(0.01)
        assert not await built.arena.vote(conversation, RecordType.TIE_VOTE, VISIT)
        log.close()
        while conversation.voting:
            await asyncio.sleep(0.01)
        assert conversation.revealed and not await built.arena.vote(conversation, RecordType.TIE_VOTE, VISIT)
        conversation.prompts.append(conversation.prompts[0])  # a state that no vote was cast on
        for side in conversation.sides:
            side.answers.append(side.answers[0])
        assert not conversation.may_vote() and conversation.may_vote("share")

    asyncio.run(battle())
    assert [record.get("reason") for record, _ in built.seen()] == [None, None, None]
    assert built.arena.counts.votes == len(built.arena.cast) == 1


def test_a_vote_before_the_end_needs_that_both_have_begun_and_ends_the_answers(build):
    go = asyncio.Event()
    built = build({"good-model": Scripted(("One", go, " two")), "second-model": Scripted((go, "Late"))})

    async def battle():
        conversation = await built.say()
        await asyncio.sleep(0.01)
        too_early = await built.arena.vote(conversation, LEFT, VISIT)
        built.models["second-model"].words = ("Late",)
        await built.arena.stop(conversation, VISIT)
        await built.arena.regenerate(conversation, VISIT)
        await asyncio.sleep(0.05)
        return too_early, await built.arena.vote(conversation, RecordType.BOTH_BAD_VOTE, VISIT), conversation

    too_early, cast, conversation = asyncio.run(battle())
    assert (too_early, cast) == (False, True) and not conversation.answering
    lines = [record for record, _ in built.seen()]
    of_good = [line["arena"] for line in lines if line.get("model") == "good-model"]
    assert [(each["regenerated"], each["stopped"]) for each in of_good] == [(0, True), (1, True)]
    assert lines[-1]["type"] == "bothbad_vote"
    said = {state["model_name"]: state["messages"][-1][1] for state in lines[-1]["states"]}
    assert said == {"good-model": "One", "second-model": "Late"}


@pytest.mark.parametrize("words", [(None,), ("Half of", None), (), ("  ",)])
def test_a_round_with_a_failed_side_is_no_battle_and_a_failing_model_leaves_the_pool(build, words):
    built = build({"good-model": Scripted(), "broken": Scripted(words), "second-model": Scripted()})

    async def battles():
        for _ in range(20):
            conversation = await built.say()
            await built.finished(conversation)
            failed = any(side.answers[-1].failed for side in conversation.sides)
            assert await built.arena.vote(conversation, LEFT, VISIT) is not failed
            if failed:
                with pytest.raises(Refused, match="did not answer"):
                    await built.say("More", conversation=conversation)
        return {model.name for model in built.arena.pool.available()}

    assert asyncio.run(battles()) == {"good-model", "second-model"}
    assert len(built.models["broken"].asked) == 3 and built.arena.counts.failed_answers == 3
    assert "broken" not in {record.get("model") for record, _ in built.seen()}
    assert "secret" not in "".join(file.read_text() for file in built.folder.glob("*.json"))


def test_answers_reach_the_page_at_most_four_times_a_second(build):
    built = build({"good-model": Scripted(("word ",) * 3000), "second-model": Scripted()})

    async def battle():
        conversation = await built.say()
        return await built.finished(conversation)

    assert asyncio.run(battle()) <= 3


def test_every_type_of_record_is_logged_so_that_ingest_reads_it(build):
    built = build()

    async def rounds(mode, chosen, kinds):
        for kind in kinds:
            conversation = await built.say(mode=mode, chosen=chosen)
            await built.finished(conversation)
            assert await built.arena.vote(conversation, kind, VISIT)
            assert not await built.arena.vote(conversation, kind, VISIT)
        return conversation

    async def all_types():
        last = await rounds(Mode.DIRECT, ("good-model",), (RecordType.UPVOTE, RecordType.DOWNVOTE))
        await built.arena.flag(last, 0, VISIT)
        assert await built.arena.share(last, VISIT)
        votes = (RecordType.UNSURE_VOTE, LEFT, RecordType.RIGHT_VOTE, RecordType.TIE_VOTE, RecordType.BOTH_BAD_VOTE)
        assert await built.arena.share(await rounds(Mode.BATTLE, (), votes), VISIT)
        for refused in (built.arena.vote(last, LEFT, VISIT), built.say(mode=Mode.DIRECT, chosen=("gpt-9",))):
            with pytest.raises(Refused):
                await refused
        await rounds(Mode.SIDE_BY_SIDE, ("good-model", "second-model"), [RecordType.TIE_VOTE])

    asyncio.run(all_types())
    seen = built.seen()
    assert {record["type"] for record, _ in seen} == set(RecordType), "and ingest reads every line"
    record, (left, _) = seen[-1]
    assert left.anonymous is False and record["models"] == ["good-model", "second-model"]


def test_what_was_shared_can_be_taken_back_and_the_log_says_both(build):
    built = build({"good-model": Scripted(), "second-model": Scripted()})

    async def shared_and_not():
        conversation = await built.say("Hello")
        await built.finished(conversation)
        assert await built.arena.share(conversation, VISIT)
        await built.arena.unshare(conversation, VISIT)
        await built.arena.unshare(conversation, VISIT)
        assert conversation.may_vote("share")

    asyncio.run(shared_and_not())
    shares = [record["arena"] for record, _ in built.seen() if record["type"] == "share"]
    assert [mark.get("withdrawn", False) for mark in shares] == [False, True]


def test_a_message_has_so_many_images_and_none_where_no_model_reads_them(build, admission):
    built = build({name: Scripted() for name in ("sees", "looks", "reads", "listens")}, vision=("sees", "looks"))
    pictures = [admission.picture(image_file(seed=seed)) for seed in range(5)]

    async def messages():
        with pytest.raises(Refused, match="At most 4 images"):
            await built.say("Look", pictures)
        for shown, drawn in ((pictures[:4], {"sees", "looks"}), ([], {"reads", "listens"})):
            conversation = await built.say("Look", shown)
            assert {side.model.name for side in conversation.sides} == drawn
            await built.finished(conversation)
        with pytest.raises(Refused, match="Not every model"):
            await built.say("Look", pictures[:1], conversation)
        assert len(conversation.prompts) == 1

    asyncio.run(messages())
    assert len(list((built.folder / "serve_images").iterdir())) == 4, "of refused messages none is kept"


def test_records_of_other_shapes_are_no_votes(build):
    arena, whole = build().arena, {"model_name": "a", "messages": [["user", ["Look", ["0" * 32]]], ["assistant", "A"]]}
    vote = {"type": "leftvote", "models": ["", ""], "states": [whole, whole]}
    odd = [{"type": []}, vote | {"states": ["x", whole, whole]}, vote | {"states": [{"model_name": 1}, whole]}]
    odd += [vote | {"states": [whole | {"messages": 5}, whole]}, vote | {"type": "chat"}]
    whole_votes = [vote | {"states": [whole | {"messages": [[], 7, ["user"]]}, whole]}, vote]
    for record in [*odd, *whole_votes]:
        arena.logs.append(record, datetime.now(UTC))
    arena.read_logs()
    assert [(cast.model_a, cast.with_image) for cast in arena.cast] == [("a", False), ("a", True)]


def test_what_may_not_be_done(build):
    built = build(messages_a_minute=3)
    other = Visit("another browser", "198.51.100.9")

    async def tries():
        conversation = await built.say()
        await built.finished(conversation)
        for act in (
            lambda: built.arena.vote(conversation, LEFT, other),
            lambda: built.arena.forget(conversation, other),
            lambda: built.say(conversation=conversation, visit=other),
            lambda: built.say(visit=Visit("", VISIT.address)),
            lambda: built.say(visit=Visit("browser", VISIT.address, accepted=False)),
            lambda: built.say("x" * 12_001),
            lambda: built.say("  "),
        ):
            with pytest.raises(Refused):
                await act()
        await built.say()
        with pytest.raises(Refused, match="wait"):
            await built.say()

    asyncio.run(tries())
    assert {record["type"] for record, _ in built.seen()} == {"chat"}


def test_forgetting_writes_the_list_that_takedowns_read(build):
    built = build()

    async def forgotten():
        conversation = await built.say()
        await built.finished(conversation)
        assert await built.arena.forget(conversation, VISIT) and await built.arena.forget(conversation, VISIT)
        assert not await built.arena.vote(conversation, LEFT, VISIT)
        return {side.conv_id for side in conversation.sides}

    ids = asyncio.run(forgotten())
    assert set((built.folder / "takedown_requests.txt").read_text().splitlines()) == ids
    assert ids == {seen.conv_id for _, found in built.seen() for seen in found}


def test_what_visitors_forgot_is_never_taken_in_and_what_an_address_said_is_taken_down(
    build, curate, tmp_path, monkeypatch
):
    monkeypatch.setenv("CURATE_USER_KEY", KEY.decode())
    built = build()

    async def said():
        for number, text in enumerate(["Forget me", "Keep me", "By address"]):
            visit = Visit(f"browser {number}", f"203.0.113.{number}")
            conversation = await built.say(text, visit=visit)
            await built.finished(conversation)
            if number == 0:
                await built.arena.forget(conversation, visit)

    asyncio.run(said())
    report = apply_requests.fn(Settings(logs=str(built.folder), store=str(tmp_path / "store")))
    assert report.counts == {"requests": 2, "new": 2}
    store = ingested(built.folder, tmp_path / "store")
    assert "Forget me" not in str(store.read("sightings").to_dicts()) and store.read("conversations").height == 4
    code, _, err = curate("takedown", "--store", store.root, "--yes", "--user", "203.0.113.2")
    assert code == 0, err
    assert store.read("conversations").height == 2 and "Keep me" in str(store.read("conversations").to_dicts())


def test_forgetting_what_no_model_answered_drops_its_images_and_asks_for_nothing(build, admission):
    models = {"good-model": Scripted(), "second-model": Scripted()}
    built = build(models, vision=tuple(models))
    one, two = (admission.picture(image_file(seed=seed)) for seed in (1, 2))

    async def forgotten():
        await built.finished(await built.say("Logged", [one]))
        models["good-model"].words = models["second-model"].words = (None,)
        conversation = await built.say("Not answered", [one, two])
        await built.finished(conversation)
        assert not await built.arena.forget(conversation, VISIT)
        return notice(conversation)

    assert asyncio.run(forgotten()).startswith("Nothing of this conversation was kept.")
    assert [file.stem for file in (built.folder / "serve_images").iterdir()] == [one.name]
    assert not (built.folder / "takedown_requests.txt").exists()


def test_nothing_is_asked_of_a_talk_that_is_being_forgotten(build):
    """Another process holds the lock of the list of requests meanwhile."""
    built = build({"good-model": Scripted()})

    async def talk():
        conversation = await built.say(mode=Mode.DIRECT, chosen=["good-model"])
        await built.finished(conversation)
        with (built.folder / "takedown_requests.txt").open("a") as requests:
            fcntl.flock(requests, fcntl.LOCK_EX)
            forgetting = asyncio.create_task(built.arena.forget(conversation, VISIT))
            await asyncio.sleep(0.01)
            with pytest.raises(Refused):
                await built.arena.regenerate(conversation, VISIT)
            with pytest.raises(Refused):
                await built.say("More?", conversation=conversation)
        await forgetting

    asyncio.run(talk())
    assert len(built.models["good-model"].asked) == 1


def test_a_picture_that_another_talk_forgets_stays_with_the_answer_that_is_being_logged(build, admission):
    """Another process holds the lock of the log file meanwhile."""
    models = {"good-model": Scripted(), "broken": Scripted((None,))}
    built = build(models, vision=tuple(models))
    picture = admission.picture(image_file())

    async def talks():
        failed = await built.say("Look", [picture], mode=Mode.DIRECT, chosen=["broken"])
        await built.finished(failed)
        first = await built.say("Begin the file", mode=Mode.DIRECT, chosen=["good-model"])
        await built.finished(first)
        (file,) = built.folder.glob("vision-tmp-*.json")
        with file.open("rb") as log:
            fcntl.flock(log, fcntl.LOCK_EX)
            answered = await built.say("Look", [picture], mode=Mode.DIRECT, chosen=["good-model"])
            await asyncio.sleep(0.2)
            await built.arena.forget(failed, VISIT)
        await built.finished(answered)
        built.arena.tidy(seconds=-1)
        return built.arena.find(answered.id, VISIT.owner)

    assert not asyncio.run(talks()).closed


@pytest.mark.parametrize("vision", [("good-model", "second-model"), ()], ids=["drawn", "no model reads images"])
def test_a_known_image_ends_the_conversation_and_its_lines_are_flagged(build, vision):
    built = build(vision=vision)

    def known():
        raise KnownImage("0" * 32, b"never decoded")

    async def shown():
        with pytest.raises(Refused, match="has ended"):
            await built.arena.say(None, Mode.BATTLE, (), "Look", known, VISIT)

    asyncio.run(shown())
    (file,) = built.folder.glob("vision-csam-*-conv.json")
    assert file.read_text().count('"has_csam_image":true') == 2
    assert (built.folder / "csam_images" / ("0" * 32)).read_bytes() == b"never decoded"
    assert (built.folder / "csam_images").stat().st_mode & 0o077 == 0
    assert not built.seen() and not any(model.asked for model in built.models.values())


def test_an_arena_that_cannot_write_takes_nothing_until_it_can(build):
    built = build()

    async def outage():
        conversation = await built.say()
        await built.finished(conversation)
        with room_for(0):
            with pytest.raises(Refused, match="cannot write"):
                await built.arena.vote(conversation, LEFT, VISIT)
            with pytest.raises(Refused) as refused:
                await built.say()
            assert str(refused.value) == page_words()["full"] and built.arena.health()["status"] == "unwell"
        assert await built.arena.vote(conversation, LEFT, VISIT)
        await built.finished(await built.say())

    asyncio.run(outage())
    assert [record["type"] for record, _ in built.seen()] == ["chat", "chat", "leftvote", "chat", "chat"]


def test_a_reason_after_the_vote_is_the_votes_own_and_reports_go_with_any_vote(build, tmp_path):
    built = build()

    async def battle():
        conversation = await built.say()
        with pytest.raises(Refused, match="no vote"):
            await built.arena.give_reason(conversation, [], "Too early", [], VISIT)
        await built.finished(conversation)
        await built.arena.flag(conversation, 1, VISIT)
        await built.arena.vote(conversation, LEFT, VISIT)
        await built.arena.give_reason(conversation, [], "Clearer: fewer words", [], VISIT)
        for _ in range(2):
            await built.arena.flag(conversation, 0, VISIT)
        assert "Reported." in notice(conversation) and "You voted: A is better." in notice(conversation)
        return conversation

    conversation = asyncio.run(battle())
    again = build().arena
    again.read_logs()
    assert len(again.cast) == 1, "a reason makes no second vote"
    store = ingested(built.folder, tmp_path / "store")
    assert store.read("battles")["vote_reason"].to_list() == ["Clearer: fewer words"]
    feedback = {row["conversation_id"]: row["feedback"] for row in store.read("conversations").to_dicts()}
    assert feedback == {side.conv_id: ["flag"] for side in conversation.sides}


def test_a_direct_chat_has_the_sampling_that_its_visitor_chose_within_the_limits(build):
    built = build()

    async def chats():
        for sampling in ({"temperature": 3}, {"top_p": float("nan")}, {"answer_tokens_max": 2001}, {"seed": 1}):
            with pytest.raises(Refused, match="must be from"):
                await built.arena.say(None, Mode.DIRECT, ("good-model",), "Hi", list, VISIT, sampling)
        wanted = {"temperature": 0.1, "top_p": 0.5, "answer_tokens_max": 50}
        await built.finished(await built.arena.say(None, Mode.DIRECT, ("good-model",), "Hi", list, VISIT, wanted))

    asyncio.run(chats())
    ((record, _),) = built.seen()
    assert record["gen_params"] == {"temperature": 0.1, "top_p": 0.5, "max_new_tokens": 50}


def test_how_a_battle_was_drawn_is_let_go_once_both_lines_have_it(build):
    built = build()

    async def battle():
        conversation = await built.say()
        drawn = conversation.drawn
        await built.finished(conversation)
        return drawn, conversation.drawn

    drawn, kept = asyncio.run(battle())
    assert [record["arena"]["sampling"] for record, _ in built.seen()] == [drawn, drawn]
    assert kept == {}
