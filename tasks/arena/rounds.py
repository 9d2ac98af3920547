"""Actions of visitors in the arena: say, stop, regenerate, vote, share, forget. Without a user interface.

Everything runs in one event loop; checks, decoding and writes run on threads. Between a check of a conversation's state
and the change that depends on it nothing is awaited, so two clicks or two tabs can never both succeed.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from schemas.asked_model import ArenaModel
from schemas.items.conversation import RecordType
from tasks.arena.answers import SURROGATES, Answers, Counts, utc
from tasks.arena.conversations import (
    CHARACTERS_MAX,
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
from tasks.arena.entrance import ENDED, Admission, ConversationEnded, KnownImage, Refused, Visitors
from tasks.arena.logs import FEEDBACK, VOTES, Cast, LogFolder, LogsUnwritable, cast_in
from tasks.arena.pool import Pool, draw_pair, for_prompt
from tasks.providers.capabilities import StreamingModel

REASON_CHARACTERS_MAX = 500
FULL = "The arena cannot write its logs now, so it takes no messages and no votes. Please try again later."
FEW_MODELS = "Too few models answer at the moment. Please try again in a minute."
VOTING = "A vote is being written. Please try again in a moment."
TERMS = "Please accept the terms first."


@dataclass(frozen=True)
class Visit:
    """Who asks."""

    owner: str
    """Fingerprint of the browser's cookie."""
    address: str
    accepted: bool = True
    """Whether the terms were accepted."""


class Arena:
    """Everything that one server does, for all its visitors."""

    def __init__(
        self,
        models: Sequence[ArenaModel],
        connect: Callable[[ArenaModel], StreamingModel],
        admission: Admission,
        logs: LogFolder,
        visitors: Visitors,
        *,
        version: str,
        images_max: int = 4,
        narrowing: bool = False,
        rng: Random | None = None,
    ) -> None:
        self.pool, self.admission, self.logs, self.visitors = Pool(models), admission, logs, visitors
        self.images_max, self.counts = images_max, Counts()
        self.cast: list[Cast] = []
        """Anonymous votes so far."""
        self._writing: set[asyncio.Task[None]] = set()
        self._about = {"version": version}
        asked = {model.name: connect(model) for model in models}
        self._answers = Answers(asked, self.pool, logs, self.counts, self._about)
        self._narrowing, self._rng = narrowing, rng or Random()  # noqa: S311 - draws pairs

    def read_votes(self, records: Iterable[dict[str, Any]]) -> None:
        """Take in the anonymous votes of earlier logs; records of other shapes are left out."""
        for record in records:
            if vote := cast_in(record):
                self.cast.append(vote)

    async def say(
        self,
        conversation: ArenaConversation | None,
        mode: Mode,
        chosen: Sequence[str],
        text: str,
        pictures: Callable[[], Sequence[Picture]],
        visit: Visit,
    ) -> ArenaConversation:
        """Take a message, open a conversation if there is none, and start the answers.

        `pictures` gives the images that came with it, or raises Refused or KnownImage. Raises Refused when the message
        is not taken; then nothing of it is kept.
        """
        try:
            return await self._say(conversation, mode, chosen, text, pictures, visit)
        except Refused:
            self.counts.refused += 1
            raise

    async def _say(
        self,
        conversation: ArenaConversation | None,
        mode: Mode,
        chosen: Sequence[str],
        text: str,
        pictures: Callable[[], Sequence[Picture]],
        visit: Visit,
    ) -> ArenaConversation:
        text = SURROGATES.sub("\ufffd", text).strip()
        self._check_visit(conversation, text, visit)
        await self._check_logs()
        try:
            shown = list(pictures())
        except KnownImage as known:
            await self._end(conversation or self._not_sent(mode, chosen, visit), known, visit)
            raise ConversationEnded(ENDED) from None
        if len(shown) > self.images_max:
            raise Refused(f"At most {self.images_max} images are taken with a message.")
        if not text and not shown:
            raise Refused("Please write something.")
        spoken = conversation or self._open(mode, chosen, bool(shown), visit)
        before = spoken.state
        if shown and not all(side.model.vision for side in spoken.sides):
            raise Refused("These models read no images. Start a new round with the image in its first message.")
        texts = [*spoken.texts(), *([text] if text else [])]
        moderation = await self._moderated(spoken, texts)
        for picture in shown:
            await self._written(partial(self.logs.keep_image, picture.name, picture.png))
        self._check_still(spoken, before)
        spoken.moderation = moderation
        spoken.prompts.append(VisitorPrompt(text, tuple(shown)))
        self.counts.messages += 1
        self._answers.start(spoken, [StreamedAnswer() for _ in spoken.sides], self.visitors.logged(visit.address))
        return spoken

    async def _moderated(self, conversation: ArenaConversation, texts: Sequence[str]) -> list[str] | None:
        to_open = all(side.model.open for side in conversation.sides)
        return await asyncio.to_thread(self.admission.check_texts, texts, to_open)

    def _check_visit(self, conversation: ArenaConversation | None, text: str, visit: Visit) -> None:
        if not visit.owner:
            raise Refused("Please reload the page, with cookies allowed.")
        if not visit.accepted:
            raise Refused(TERMS)
        if conversation is not None:
            self._check_owner(conversation, visit)
            if conversation.closed or len(conversation.prompts) >= TURNS_MAX:
                raise Refused(ENDED)
            self._check_still(conversation, conversation.state)
            if any(side.answers[-1].failed for side in conversation.sides if side.answers):
                raise Refused("A model did not answer. Regenerate, or start a new round.")
        if len(text) > CHARACTERS_MAX:
            raise Refused(f"The message has {len(text):,} characters; at most {CHARACTERS_MAX:,} are taken.")
        if wait := self.visitors.wait_seconds(visit.address):
            raise Refused(f"Too many messages in a minute. Please wait {wait:.0f} seconds.")

    def _check_still(self, conversation: ArenaConversation, state: tuple[int, int]) -> None:
        """Raises Refused when a second click was faster."""
        if conversation.voting:
            raise Refused(VOTING)
        if conversation.answering or conversation.closed or conversation.state != state:
            raise Refused("An answer is still coming.")

    def _check_owner(self, conversation: ArenaConversation, visit: Visit) -> None:
        if conversation.owner != visit.owner:
            raise Refused("This conversation was opened in another browser.")

    async def _check_logs(self) -> None:
        if not self.logs.writable:
            await self._written(self.logs.check)

    async def _written(self, write: Callable[[], None]) -> None:
        try:
            await asyncio.to_thread(write)
        except LogsUnwritable:
            raise Refused(FULL) from None

    def _open(self, mode: Mode, chosen: Sequence[str], with_image: bool, visit: Visit) -> ArenaConversation:
        """A conversation with drawn or chosen models. Raises Refused."""
        available = self.pool.available()
        if mode is Mode.BATTLE:
            battles = Counter(frozenset(vote[:2]) for vote in self.cast) if self._narrowing else None
            drawn = draw_pair(for_prompt(available, with_image), self._rng, battles, self.pool.plan)
            if drawn is None:
                no_vision = with_image and not any(model.vision for model in self.pool.models)
                raise Refused("The models of this arena read no images." if no_vision else FEW_MODELS)
            return ArenaConversation(mode, [Side(model) for model in drawn], visit.owner)
        models = {model.name: model for model in available if not model.anonymous_only}
        if len(chosen) != (1 if mode is Mode.DIRECT else 2) or any(name not in models for name in chosen):
            raise Refused("Please choose models that answer now.")
        return ArenaConversation(mode, [Side(models[name]) for name in chosen], visit.owner)

    def _not_sent(self, mode: Mode, chosen: Sequence[str], visit: Visit) -> ArenaConversation:
        """A conversation of which nothing is sent, also when no model answers now: for the log alone."""
        try:
            return self._open(mode, chosen, True, visit)
        except Refused:
            models = self.pool.models[: 1 if mode is Mode.DIRECT else 2]
            return ArenaConversation(mode, [Side(model) for model in models], visit.owner)

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

    def updates(self, conversation: ArenaConversation) -> AsyncIterator[None]:
        """Yields when answers have changed, at most four times a second, and a last time when all have ended."""
        return self._answers.updates(conversation)

    async def stop(self, conversation: ArenaConversation, visit: Visit) -> None:
        """End the answers that are coming; what has come is logged."""
        self._check_owner(conversation, visit)
        await self._answers.stop(conversation)

    async def regenerate(self, conversation: ArenaConversation, visit: Visit) -> None:
        """Ask every side again for its last answer. Raises Refused."""
        self._check_owner(conversation, visit)
        if not conversation.prompts or conversation.answering or conversation.closed:
            raise Refused("There is no finished answer to make anew.")
        self._check_still(conversation, conversation.state)
        if wait := self.visitors.wait_seconds(visit.address):
            raise Refused(f"Too many messages in a minute. Please wait {wait:.0f} seconds.")
        before, texts = conversation.state, conversation.texts(last_answers=False)
        moderation = await self._moderated(conversation, texts)
        self._check_still(conversation, before)
        conversation.moderation = moderation
        answers = [StreamedAnswer(regenerated=side.answers[-1].regenerated + 1) for side in conversation.sides]
        self._answers.start(conversation, answers, self.visitors.logged(visit.address))

    async def vote(self, conversation: ArenaConversation, kind: RecordType, reason: str, visit: Visit) -> bool:
        """Cast a vote on the present state. Returns False when there was one already. Raises Refused.

        An answer that is still coming ends. The vote is on the disk when this returns.
        """
        self._check_owner(conversation, visit)
        if kind not in (FEEDBACK if conversation.mode is Mode.DIRECT else VOTES):
            raise Refused("This is no vote for this kind of conversation.")
        if not conversation.may_vote():
            return False
        await self._claimed("vote", kind, conversation, partial(self._cast, conversation, kind, _clean(reason), visit))
        return True

    async def _cast(self, conversation: ArenaConversation, kind: RecordType, reason: str, visit: Visit) -> None:
        await self.stop(conversation, visit)
        if any(side.answers[-1].failed for side in conversation.sides):
            raise Refused("A model did not answer. Regenerate, or start a new round.")
        await self._write_vote(conversation, kind, reason, visit)
        self.counts.votes += 1
        if conversation.mode is Mode.BATTLE:
            conversation.revealed = conversation.closed = True
            a, b = (side.model.name for side in conversation.sides)
            self.cast.append(Cast(a, b, kind, any(prompt.pictures for prompt in conversation.prompts)))

    async def _claimed(
        self, what: str, kind: RecordType, conversation: ArenaConversation, write: Callable[[], Awaitable[None]]
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

    async def _write_vote(self, conversation: ArenaConversation, kind: RecordType, reason: str, visit: Visit) -> None:
        now = time.time()
        user = self.visitors.logged(visit.address)
        record = vote_record(conversation, kind, now, user, self._about, reason)
        await self._written(lambda: self.logs.append(record, utc(now)))

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
        return bool(logged)

    def close(self, conversation: ArenaConversation) -> None:
        """Forget the running state of a conversation that its visitor has left."""
        self._answers.close(conversation)

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
