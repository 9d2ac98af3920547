"""Actions of visitors in the arena: say, stop, regenerate, vote, share, forget. Without a user interface.

Everything runs in one event loop; checks, decoding and writes run on threads. Between a check of a conversation's state
and the change that depends on it nothing is awaited, so two clicks or two tabs can never both succeed.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from schemas.asked_model import ArenaModel
from schemas.items.conversation import RecordType
from tasks.arena.admin.figures import ArenaFigures
from tasks.arena.admin.steering import Steering
from tasks.arena.answers import SURROGATES, Answers, Counts, utc
from tasks.arena.conversations import (
    TURNS_MAX,
    ArenaConversation,
    Mode,
    Picture,
    Side,
    StreamedAnswer,
    VisitorPrompt,
    flagged_record,
    vote_record,
)
from tasks.arena.entrance import Admission, ConversationEnded, KnownImage, Refused, Visit, Visitors, with_sampling
from tasks.arena.logs import RATINGS, VOTES, Cast, Line, LogFolder, LogsUnwritable, cast_in, conv_ids_in
from tasks.arena.past import Past
from tasks.arena.pool import Pool
from tasks.providers.capabilities import StreamingModel

REASON_CHARACTERS_MAX = 500
KEPT_SECONDS = 240.0
"""How long a conversation stays in memory after its visitor did something last; then it is read from the log."""


class Arena:
    """Everything that one server does, for all its visitors."""

    def __init__(
        self, models: Sequence[ArenaModel], connect: Callable[[ArenaModel], StreamingModel], admission: Admission,
        logs: LogFolder, visitors: Visitors, *, version: str, images_max: int = 4, characters_max: int = 12_000,
        answers_at_once: int = 40, rng: Random | None = None,
    ) -> None:  # fmt: skip
        self.pool, self.admission, self.logs, self.visitors = Pool(models), admission, logs, visitors
        self.images_max, self.characters_max, self.counts = images_max, characters_max, Counts()
        self.cast: list[Cast] = []
        """Anonymous votes so far."""
        self._writing: set[asyncio.Task[None]] = set()
        self._about = {"version": version}
        self._answers = Answers(connect, self.pool, logs, self.counts, self._about, answers_at_once)
        self.past = Past(logs, {model.name: model for model in models})
        self.figures, self.steering, self.refusals = ArenaFigures(models), Steering(logs.folder), Counter[str]()
        self.pool.steered = self.steering.now
        self._answers.noted = self._note
        self._open_now: dict[str, ArenaConversation] = {}
        self.before, self.updates, self.waiting = self._answers.before, self._answers.updates, self._answers.waiting
        self._rng = rng or Random()  # noqa: S311 - draws pairs

    def _note(self, record: dict[str, Any], line: Line) -> None:
        self.past.note(record, line)
        self.figures.note(record)

    def read_logs(self) -> None:
        """Take in what the log holds: anonymous votes, the last one of each battle, and whose conversations it has."""
        forgotten, votes = self.logs.forgotten(), dict[str, Cast]()
        for number, (record, line) in enumerate(self.logs.records()):
            self._note(record, line)
            if (vote := cast_in(record)) and not forgotten & set(conv_ids_in(record)):
                votes[vote.battle or str(number)] = vote
        self.past.drop(forgotten)
        self.cast += votes.values()

    def find(self, number: str, owner: str) -> ArenaConversation:
        """A browser's conversation, from memory or from the log. Raises Refused when it is not there or another's."""
        found = self._open_now.get(number)
        if found is None and owner:
            found = self.past.load(number, self.visitors.browser(owner), owner)
        if found is None or not owner:
            raise Refused("no_conversation")
        if found.owner != owner:
            raise Refused("other_browser")
        found.used = time.monotonic()
        return self._open_now.setdefault(number, found)

    def tidy(self, seconds: float = KEPT_SECONDS) -> None:
        """Let conversations go that nobody used for so long; the log has them."""
        before = time.monotonic() - seconds
        for number, each in list(self._open_now.items()):
            if each.used <= before and not each.answering and not each.voting:
                del self._open_now[number]

    def listed(self, owner: str) -> list[dict[str, Any]]:
        """A browser's conversations in the log, newest first, as they may be shown to it."""
        return self.past.listed(self.visitors.browser(owner)) if owner else []

    async def forget_all(self, visit: Visit) -> int:
        """Ask for the removal of everything of a browser. Returns how many conversations there were."""
        numbers = self.past.numbers(self.visitors.browser(visit.owner)) if visit.owner else []
        for number in numbers:
            await self.forget(self.find(number, visit.owner), visit)
        return len(numbers)

    async def say(
        self, conversation: ArenaConversation | None, mode: Mode, chosen: Sequence[str], text: str,
        pictures: Callable[[], Sequence[Picture]], visit: Visit, sampling: Mapping[str, float] = {},
    ) -> ArenaConversation:  # fmt: skip
        """Take a message, open a conversation if there is none, and start the answers.

        `pictures` gives the images that came with it, or raises Refused or KnownImage. `sampling`: settings of the
        models of a new direct chat. Raises Refused when the message is not taken; then nothing of it is kept.
        """
        text = SURROGATES.sub("\ufffd", text).strip()
        self._check_visit(conversation, text, visit)
        if not self.logs.writable:
            await self._written(self.logs.check)
        try:
            shown = list(pictures())
        except KnownImage as known:
            await self._end(conversation or self._not_sent(mode, chosen, visit), known, visit)
            raise ConversationEnded("ended") from None
        if len(shown) > self.images_max:
            raise Refused("images_at_most", most=self.images_max)
        if not text and not shown:
            raise Refused("write_something")
        spoken = conversation or self._open(mode, chosen, bool(shown), visit, sampling)
        before = spoken.state
        if shown and not all(side.model.vision for side in spoken.sides):
            raise Refused("sides_no_vision")
        texts = [*spoken.texts(), *([text] if text else [])]
        moderation = await asyncio.to_thread(self.admission.check_texts, texts, spoken.open)
        for picture in shown:
            await self._written(partial(self.logs.keep_image, picture.name, picture.png))
        self._check_still(spoken, before)
        spoken.moderation = moderation
        spoken.prompts.append(VisitorPrompt(text, tuple(shown)))
        self.counts.messages += 1
        self._answers.start(spoken, [StreamedAnswer() for _ in spoken.sides], self.visitors.logged(visit.address))
        spoken.used = time.monotonic()
        self._open_now[spoken.id] = spoken
        return spoken

    def _check_visit(self, conversation: ArenaConversation | None, text: str, visit: Visit) -> None:
        if not visit.owner:
            raise Refused("cookies")
        if not visit.proven:
            raise Refused("captcha_first")
        if not visit.accepted:
            raise Refused("terms_first")
        if conversation is not None:
            self._check_owner(conversation, visit)
            if conversation.closed or len(conversation.prompts) >= TURNS_MAX:
                raise Refused("ended")
            self._check_still(conversation, conversation.state)
            if any(side.answers[-1].failed for side in conversation.sides if side.answers):
                raise Refused("did_not_answer")
        if len(text) > self.characters_max:
            raise Refused("too_long", characters=len(text), most=self.characters_max)
        self._check_limits(visit)

    def _check_limits(self, visit: Visit) -> None:
        budget = self.pool.steered().usd_a_day_max
        if budget is not None and self.figures.usd_today() >= budget:
            raise Refused("budget_reached")
        if wait := self.visitors.wait_seconds(visit.address, visit.owner):
            raise Refused("too_many", seconds=round(wait))

    def _check_still(self, conversation: ArenaConversation, state: tuple[int, int]) -> None:
        """Raises Refused when a second click was faster."""
        if conversation.voting:
            raise Refused("vote_being_written")
        if conversation.answering or conversation.closed or conversation.state != state:
            raise Refused("still_coming")

    def _check_owner(self, conversation: ArenaConversation, visit: Visit) -> None:
        if conversation.owner != visit.owner:
            raise Refused("other_browser")

    async def _written(self, write: Callable[[], None]) -> None:
        try:
            await asyncio.to_thread(write)
        except LogsUnwritable:
            raise Refused("full") from None

    def _open(
        self, mode: Mode, chosen: Sequence[str], with_image: bool, visit: Visit, sampling: Mapping[str, float] = {}
    ) -> ArenaConversation:  # fmt: skip
        """A conversation with drawn or chosen models. Raises Refused."""
        if mode is Mode.BATTLE:
            drawn = self.pool.draw(with_image, self.cast, self._rng)
            if drawn is None:
                no_vision = with_image and not any(model.vision for model in self.pool.models)
                raise Refused("no_vision" if no_vision else "few_models")
            return self._begun(mode, drawn.pair, visit, drawn.told)
        models = {model.name: model for model in self.pool.available() if not model.anonymous_only}
        if len(chosen) != (1 if mode is Mode.DIRECT else 2) or any(name not in models for name in chosen):
            raise Refused("choose_models")
        return self._begun(mode, [with_sampling(models[name], sampling) for name in chosen], visit)

    def _begun(
        self, mode: Mode, models: Sequence[ArenaModel], visit: Visit, drawn: Mapping[str, Any] = {}
    ) -> ArenaConversation:
        browser = self.visitors.browser(visit.owner)
        return ArenaConversation(mode, [Side(each) for each in models], visit.owner, browser, drawn=dict(drawn))

    def _not_sent(self, mode: Mode, chosen: Sequence[str], visit: Visit) -> ArenaConversation:
        """A conversation of which nothing is sent, also when no model answers now: for the log alone."""
        try:
            return self._open(mode, chosen, True, visit)
        except Refused:
            return self._begun(mode, self.pool.models[: 1 if mode is Mode.DIRECT else 2], visit)

    async def _end(self, conversation: ArenaConversation, known: KnownImage, visit: Visit) -> None:
        """Quarantine a known image, and end the conversation that it came with."""
        conversation.closed = True
        user, now = self.visitors.logged(visit.address), time.time()

        def write() -> None:
            self.logs.quarantine(known.name, known.content)
            for side in conversation.sides:
                record = flagged_record(conversation, side, known.name, now, user)
                self.logs.append(record, utc(now), flagged=True)

        try:
            await self._written(write)
        except Refused:
            conversation.closed = False  # the next try writes it
            raise

    async def stop(self, conversation: ArenaConversation, visit: Visit) -> None:
        """End the answers that are coming; what has come is logged."""
        self._check_owner(conversation, visit)
        await self._answers.stop(conversation)

    async def regenerate(self, conversation: ArenaConversation, visit: Visit) -> None:
        """Ask every side again for its last answer. Raises Refused."""
        self._check_owner(conversation, visit)
        if not conversation.prompts or conversation.answering or conversation.closed:
            raise Refused("nothing_to_regenerate")
        self._check_still(conversation, conversation.state)
        self._check_limits(visit)
        before, texts = conversation.state, conversation.texts(last_answers=False)
        moderation = await asyncio.to_thread(self.admission.check_texts, texts, conversation.open)
        self._check_still(conversation, before)
        conversation.moderation = moderation
        answers = [StreamedAnswer(regenerated=side.answers[-1].regenerated + 1) for side in conversation.sides]
        self._answers.start(conversation, answers, self.visitors.logged(visit.address))

    async def vote(self, conversation: ArenaConversation, kind: RecordType, reason: str, visit: Visit) -> bool:
        """Cast a vote on the present state. Returns False when there was one already. Raises Refused.

        An answer that is still coming ends. The vote is on the disk when this returns.
        """
        self._check_owner(conversation, visit)
        if kind not in (RATINGS if conversation.mode is Mode.DIRECT else VOTES):
            raise Refused("no_such_vote")
        if not conversation.may_vote():
            return False
        await self._claimed("vote", kind, conversation, partial(self._cast, conversation, kind, _clean(reason), visit))
        return True

    async def _cast(self, conversation: ArenaConversation, kind: RecordType, reason: str, visit: Visit) -> None:
        await self.stop(conversation, visit)
        if any(side.answers[-1].failed for side in conversation.sides):
            raise Refused("did_not_answer")
        vote = cast_in(await self._write_vote(conversation, kind, reason, visit))
        self.counts.votes += 1
        if vote:
            conversation.revealed = conversation.closed = True
            self.cast.append(vote)

    async def give_reason(self, conversation: ArenaConversation, reason: str, visit: Visit) -> None:
        """Add a reason to the vote on the present state: its line is written again, and the last line counts."""
        self._check_owner(conversation, visit)
        kind = conversation.voted.get(("vote", *conversation.state))
        if kind is None or conversation.forgotten:
            raise Refused("no_vote_yet")
        if conversation.voting:
            raise Refused("vote_being_written")
        if reason := _clean(reason):
            await self._write_vote(conversation, kind, reason, visit)
            conversation.voted["reason", *conversation.state] = kind

    async def flag(self, conversation: ArenaConversation, place: int, visit: Visit) -> None:
        """Report an answer, which is then not published; also while it comes, before, after and beside a vote."""
        self._check_owner(conversation, visit)
        if conversation.forgotten or not conversation.said(place):
            raise Refused("no_such_vote")
        if (f"flag {place}", *conversation.state) not in conversation.voted:
            write = partial(self._write_vote, conversation, RecordType.FLAG, "", visit, place)
            await self._claimed(f"flag {place}", RecordType.FLAG, conversation, write)

    async def _claimed(
        self, what: str, kind: RecordType, conversation: ArenaConversation, write: Callable[[], Awaitable[Any]]
    ) -> None:
        """Take the present state for a vote or a share, then write it; only a failed write gives the state back.

        A request that is cancelled meanwhile changes nothing: the write goes on and counts.
        """
        state = (what, *conversation.state)
        conversation.voted[state], conversation.voting = kind, True

        async def whole() -> None:
            try:
                await write()
            except BaseException:
                del conversation.voted[state]
                raise
            finally:
                conversation.voting = False

        task = asyncio.create_task(whole())
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        await asyncio.shield(task)

    async def share(self, conversation: ArenaConversation, visit: Visit) -> bool:
        """Log that the visitor allows this state to be shown to others; once."""
        self._check_owner(conversation, visit)
        if conversation.mode is Mode.DIRECT or conversation.answering or not conversation.may_vote("share"):
            return False
        write = partial(self._write_vote, conversation, RecordType.SHARE, "", visit)
        await self._claimed("share", RecordType.SHARE, conversation, write)
        return True

    async def unshare(self, conversation: ArenaConversation, visit: Visit) -> None:
        """Log that the visitor no longer allows this state to be shown: a line of its own, of which the last counts."""
        self._check_owner(conversation, visit)
        shared = ("share", *conversation.state)
        if shared in conversation.voted and not conversation.voting:
            await self._write_vote(conversation, RecordType.SHARE, "", visit, withdrawn=True)
            del conversation.voted[shared]

    async def _write_vote(
        self, conversation: ArenaConversation, kind: RecordType, reason: str, visit: Visit, place: int = 0,
        withdrawn: bool = False,
    ) -> dict[str, Any]:  # fmt: skip
        now = time.time()
        user = self.visitors.logged(visit.address)
        about = {**self._about, "withdrawn": True} if withdrawn else self._about
        record = vote_record(conversation, kind, now, user, about, reason, place)
        await self._written(lambda: self._note(record, self.logs.append(record, utc(now))))
        return record

    async def forget(self, conversation: ArenaConversation, visit: Visit) -> bool:
        """Ask for the removal of everything that was logged of a conversation. Returns whether anything was."""
        self._check_owner(conversation, visit)
        await self.stop(conversation, visit)
        logged = [side.conv_id for side in conversation.sides if side.logged]
        unnamed = conversation.unanswered_pictures()

        def write() -> None:
            if logged:
                self.logs.ask_takedown(logged)
            self.logs.drop_images(unnamed)

        if not conversation.forgotten:
            await self._written(write)
        conversation.forgotten = conversation.closed = True
        self.past.drop({conversation.id})
        self.cast[:] = [cast for cast in self.cast if cast.battle != conversation.id]
        return bool(logged)

    def health(self) -> dict[str, Any]:
        """Answer of `/health`: counts without persons and without names."""
        available = len(self.pool.available())
        return {
            "status": "ok" if self.logs.writable and available > 1 else "unwell",
            "logs_writable": self.logs.writable,
            "models": {"answering": available, "down": len(self.pool.models) - available},
            "answers_coming": self._answers.coming(),
            **vars(self.counts),
        }


def _clean(reason: str) -> str:
    return SURROGATES.sub("\ufffd", reason).strip()[:REASON_CHARACTERS_MAX]
