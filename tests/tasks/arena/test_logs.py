"""Lines are whole and on the disk, whoever writes and whenever they are killed."""

import asyncio
import json
import multiprocessing
import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime

import pytest

from schemas.errors import BadInput
from schemas.items.conversation import RecordType
from schemas.row import Held
from schemas.signals import MeasuredOn
from tasks.arena.conversations import Mode
from tasks.arena.entrance import Refused
from tasks.arena.logs import LogFolder, LogsUnwritable
from tasks.providers.capabilities import Thought, TokensUsed
from tasks.storage.content_id import text_id
from tasks.storage.keyed_ids import Tombstones, store_key
from tasks.storage.queries.explain import explain_item
from tasks.storage.queries.texts import ConversationForm, Texts, all_texts
from tasks.takedown.going import going
from tests.builders import facts_frame
from tests.built_arena import VISIT, Scripted
from tests.cut_off import room_for
from tests.tasks.ingest.logs import ingested

NOW = datetime(2026, 5, 4, 23, 59, 59, tzinfo=UTC)
FILE = "vision-tmp-2026-05-04-conv.json"


def _write_many(folder, writer, acknowledged):
    logs = LogFolder(folder)
    for number in range(1_000_000):
        logs.append({"writer": writer, "number": number, "text": "x" * 5_000}, NOW)
        acknowledged.send((writer, number))


def test_several_processes_are_killed_and_every_acknowledged_line_is_there(tmp_path):
    start = multiprocessing.get_context("spawn")
    receiver, sender = start.Pipe(duplex=False)
    workers = [start.Process(target=_write_many, args=(tmp_path, writer, sender)) for writer in range(2)]
    for worker in workers:
        worker.start()
    acknowledged = set()
    while len(acknowledged) < 200 or len({writer for writer, _ in acknowledged}) < 2:
        acknowledged.add(receiver.recv())
    for worker in workers:
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
    sender.close()
    with pytest.raises((EOFError, OSError)):
        while True:
            acknowledged.add(receiver.recv())
    lines = (tmp_path / FILE).read_bytes().splitlines()
    read, half_count = [], 0
    for line in lines:
        try:
            record = json.loads(line)
            read.append((record["writer"], record["number"]))
        except json.JSONDecodeError:
            half_count += 1
    assert half_count <= len(workers), "each killed process may leave half of its last line"
    assert len(acknowledged) >= 200 and acknowledged <= set(read) and len(read) == len(set(read))
    assert {writer for writer, _ in read} == {0, 1}


def test_a_line_after_half_a_line_stands_on_its_own(tmp_path):
    (tmp_path / FILE).write_bytes(b'{"whole": 1}\n{"half": "of a li')
    logs = LogFolder(tmp_path)
    logs.append({"next": "line\nwith a break"}, NOW)
    lines = (tmp_path / FILE).read_bytes().splitlines()
    assert [lines[0], json.loads(lines[2])] == [b'{"whole": 1}', {"next": "line\nwith a break"}]
    found = list(logs.records())
    assert [record for record, _ in found] == [{"whole": 1}, {"next": "line\nwith a break"}]
    assert logs.read(place for _, place in found) == [record for record, _ in found], "each is found again at its place"
    assert (tmp_path / FILE).read_bytes().endswith(b"\n")


def test_visitors_who_use_an_image_first_at_the_same_time_both_have_it(tmp_path):
    logs = LogFolder(tmp_path)
    logs.prepare(NOW.date())
    with ThreadPoolExecutor(8) as threads:
        for number in range(20):
            list(threads.map(lambda _, name=f"{number}": logs.keep_image(name, b"x" * 50_000), range(8)))
    assert sorted(file.name for file in (tmp_path / "serve_images").iterdir()) == sorted(f"{n}.png" for n in range(20))
    assert {file.stat().st_size for file in (tmp_path / "serve_images").iterdir()} == {50_000}


def test_a_write_that_fails_leaves_no_piece_of_a_line(tmp_path):
    logs = LogFolder(tmp_path)
    logs.append({"first": 1}, NOW)
    with room_for(len(b'{"first":1}\n') + 5), pytest.raises(LogsUnwritable):
        logs.append({"second": 2}, NOW)
    assert not logs.writable and (tmp_path / FILE).read_bytes() == b'{"first":1}\n'


def test_days_are_utc_and_a_clock_that_went_back_is_an_error(tmp_path):
    logs = LogFolder(tmp_path / "new")
    logs.prepare(date(2026, 5, 4))
    logs.append({"day": "of Greenwich"}, datetime.fromisoformat("2026-05-05T01:30:00+03:00"))
    assert (tmp_path / "new" / FILE).stat().st_mode & 0o077 == 0
    with pytest.raises(BadInput, match=re.escape("2026-05-04, and this machine's clock says 2026-05-03")):
        logs.prepare(date(2026, 5, 3))
    (tmp_path / "new" / "vision-tmp-2026-13-45-conv.json").write_text("a file of no day is none of the arena's")
    logs.prepare(date(2026, 5, 4))
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be written"):
        LogFolder(tmp_path / "file" / "logs").prepare(date(2026, 5, 4))


def test_thinking_is_logged_apart_and_is_no_part_of_the_answer(build, tmp_path):
    marked = Scripted((Thought("Hmm, "), Thought("well. "), "Yes.", TokensUsed(12, 34)))
    written = Scripted(("<th", "inking>Let me ", "see</thi", "nking>\n\nNo", "."))
    built = build({"good-model": marked, "second-model": written, "only-thinks": Scripted(("<think>For ever",))})

    async def rounds():
        for name in ("good-model", "second-model", "only-thinks"):
            conversation = await built.say(mode=Mode.DIRECT, chosen=(name,))
            await built.finished(conversation)
        return conversation

    assert asyncio.run(rounds()).sides[0].answers[0].failed
    told = {record["model"]: record["arena"] for record, _ in built.seen()}
    assert {name: arena["thinking"] for name, arena in told.items()} == {
        "good-model": "Hmm, well. ",
        "second-model": "Let me see",
    }
    assert all(arena["first_word_seconds"] >= 0 for arena in told.values())
    store = ingested(built.folder, tmp_path / "store")
    rows = {row["model"]: row for row in store.read("conversations").iter_rows(named=True)}
    assert {name: row["turns"][-1]["content"] for name, row in rows.items()} == {
        "good-model": "Yes.",
        "second-model": "No.",
    }
    (told,) = rows["good-model"]["served"]
    assert (told["turn"], told["thinking"], told["thinking_id"]) == (1, "Hmm, well. ", text_id("Hmm, well. "))
    assert 0 <= told["first_token_seconds"] <= told["first_word_seconds"]
    assert (told["input_tokens"], told["output_tokens"]) == (12, 34)
    assert rows["second-model"]["served"][0]["output_tokens"] is None
    screened = {text_id(text): text for text in ("Hmm, well. ", "Let me see")}
    assert (
        all_texts(store, Texts(ConversationForm.LOGGED, MeasuredOn.ASSISTANT_MESSAGES), {}).items() >= screened.items()
    )
    (row,) = explain_item(store, rows["good-model"]["conversation_id"])["served"]
    assert (row["output_tokens"], row["signals"]) == (34, {}) and "thinking" not in row
    store.append("signals/text_pii", facts_frame("text_pii", {each: {} for each in (*screened, "0" * 32)}))
    gone = going(store, Tombstones(store, store_key(store))).gone[Held.CONTENT]
    assert gone.to_list() == ["0" * 32], "what is known of thoughts stays until they are taken down"


def test_an_answer_is_reported_while_it_comes_and_rated_beside_that(build, tmp_path):
    gate = asyncio.Event()
    built = build({"good-model": Scripted(("Half ", gate, "done.")), "second-model": Scripted()})

    async def chat():
        conversation = await built.say(mode=Mode.DIRECT, chosen=("good-model",))
        for place in (0, 1, -1):
            with pytest.raises(Refused, match="no vote"):
                await built.arena.flag(conversation, place, VISIT)  # nothing has come
        async for _ in built.arena.updates(conversation):
            if conversation.said(0):
                break
        await built.arena.flag(conversation, 0, VISIT)
        gate.set()
        await built.finished(conversation)
        await built.arena.vote(conversation, RecordType.UPVOTE, VISIT)

    asyncio.run(chat())
    (row,) = ingested(built.folder, tmp_path / "store").read("conversations").to_dicts()
    assert (row["turns"][-1]["content"], row["feedback"]) == ("Half done.", ["flag", "upvote"])
