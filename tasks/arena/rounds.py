"""Actions of visitors in the arena: say, stop, regenerate, vote, react, share, forget. Without a user interface.

Everything runs in one event loop; checks, decoding and writes run on threads. Between a check of a conversation's state
and the change that depends on it nothing is awaited, so two clicks or two tabs can never both succeed.
"""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
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
    said_record,
    vote_record,
)
from tasks.arena.entrance import (
    Admission,
    ConversationEnded,
    KnownImage,
    Refused,
    Value,
    Visit,
    Visitors,
    with_sampling,
    with_sampling_of,
)
from tasks.arena.live import LiveTexts
from tasks.arena.logs import CHOICES, RATINGS, Cast, Line, LogFolder, LogsUnwritable, cast_in, conv_ids_in
from tasks.arena.opinions import AnswerReaction, TurnVote, first_vote
from tasks.arena.past import Past
from tasks.arena.pool import DrawnInstead, Pool
from tasks.arena.reasons import Reasons, read_reasons
from tasks.arena.starters import Starters, read_starters
from tasks.providers.capabilities import StreamingModel

REASON_CHARACTERS_MAX = 500
ROUND_KEPT_SECONDS = 240.0
"""How long a conversation stays in memory after its visitor did something last; then it is read from the log."""


class Arena:
    """Everything that one server does, for all its visitors."""

    def __init__(
        self, models: Sequence[ArenaModel], connect: Callable[[ArenaModel], StreamingModel], admission: Admission,
        logs: LogFolder, visitors: Visitors, *, version: str, images_max: int = 4, characters_max: int = 12_000,
        answers_at_once: int = 40, rng: Random | None = None, reasons: Reasons | None = None,
        starters: Starters | None = None,
    ) -> None:  # fmt: skip
        self.pool, self.admission, self.logs, self.visitors = Pool(models), admission, logs, visitors
        self.images_max, self.characters_max, self.counts = images_max, characters_max, Counts()
        self.cast: list[Cast] = []
        """Anonymous votes so far."""
        self._writing: set[asyncio.Task[None]] = set()
        self._about = {"version": version}
        self._answers = Answers(connect, self.pool, logs, self.counts, self._about, answers_at_once)
        self.past = Past(logs, lambda: self.pool.models, visitors.link)
        self.figures, self.steering, self.refusals = ArenaFigures(models), Steering(logs.folder), Counter[str]()
        self.pool.steered = self.figures.steered = self.steering.now
        self.texts = LiveTexts(self.steering.now, reasons or read_reasons(None), starters or read_starters(None))
        self.texts.check()
        self._answers.noted = self._note
        self._open_now: dict[str, ArenaConversation] = {}
        self.before, self.updates, self.waiting = self._answers.before, self._answers.updates, self._answers.waiting
        self._rng = rng or Random()  # noqa: S311 - draws pairs

    @property
    def reasons(self) -> Reasons:
        """The reasons that visitors may choose now."""
        return self.texts.reasons()

    def _note(self, record: dict[str, Any], line: Line) -> None:
        self.past.note(record, line)
        self.figures.note(record)

    def read_logs(self) -> None:
        """Take in what the log holds: anonymous votes, the last one of each battle, and whose conversations it has."""
        forgotten, votes = self.logs.forgotten(), dict[str, Cast]()
        for number, (record, line) in enumerate(self.logs.records()):
            self._note(record, line)
            self.past.links_read_to[line.file] = line.start
            if (vote := cast_in(record)) and not forgotten & set(conv_ids_in(record)):
                votes[vote.battle or str(number)] = vote
        self.past.drop(forgotten)
        self.cast += votes.values()

    def find(self, number: str, owner: str) -> ArenaConversation:
        """A browser's conversation, from memory or from the log. Raises Refused when it is not there or another's."""
        conversation = self._open_now.get(number)
        if conversation is None and owner:
            conversation = self.past.load(number, self.visitors.browser(owner), owner)
        if conversation is None or not owner:
            raise Refused("no_conversation")
        if conversation.owner != owner:
            raise Refused("other_browser")
        conversation.used = time.monotonic()
        return self._open_now.setdefault(number, conversation)

    def tidy(self, seconds: float = ROUND_KEPT_SECONDS) -> None:
        """Let conversations go that nobody used for so long; the log has them."""
        before = time.monotonic() - seconds
        for number, conversation in list(self._open_now.items()):
            is_busy = conversation.answering or conversation.voting or conversation.check_count
            if conversation.used <= before and not is_busy:
                del self._open_now[number]

    def listed(self, owner: str, whole: bool = False) -> list[dict[str, Any]]:
        """A browser's conversations in the log, newest first, as they may be shown to it; `whole`: also the oldest."""
        return self.past.listed(self.visitors.browser(owner), whole) if owner else []

    async def forget_all(self, visit: Visit) -> int:
        """Ask for the removal of everything of a browser. Returns how many conversations there were."""
        if not visit.owner:
            return 0
        logged = self.past.numbers(self.visitors.browser(visit.owner))
        # talks in memory, with those whose first answers still come
        current = [talk.id for talk in self._open_now.values() if talk.owner == visit.owner and not talk.forgotten]
        numbers = list(dict.fromkeys([*logged, *current]))
        for number in numbers:
            try:
                conversation = self.find(number, visit.owner)
            except Refused:  # no answer of it is in the log: it was removed there, or never came
                ids = self.past.conv_ids(number)
                await self._written(partial(self.logs.ask_takedown, ids))
                self.past.drop({number})
            else:
                await self.forget(conversation, visit)
        return len(numbers)

    async def say(
        self, conversation: ArenaConversation | None, mode: Mode, chosen: Sequence[str], text: str,
        pictures: Callable[[], Sequence[Picture]], visit: Visit, sampling: Mapping[str, float] = {}, sure: bool = False,
    ) -> ArenaConversation:  # fmt: skip
        """Take a message, open a conversation if there is none, and start the answers.

        `pictures` gives the images that came with it, or raises Refused or KnownImage. `sampling`: settings of the
        models of a new direct chat. `sure`: the visitor sends what looks like personal data. Raises Refused when the
        message is not taken; then nothing of it is kept.
        """
        text = SURROGATES.sub("\ufffd", text).strip()
        self._check_visit(conversation, text, visit)
        before = conversation.state if conversation else (0, 0)
        if not self.logs.writable:
            await self._written(self.logs.check)
        try:
            images = list(pictures())
        except KnownImage as known_image:
            await self._end(conversation or self._not_sent(mode, chosen, visit), known_image, visit)
            raise ConversationEnded("ended") from None
        if len(images) > self.images_max:
            raise Refused("images_at_most", most=self.images_max)
        if images and not self.images_most(conversation.mode if conversation else mode):
            raise Refused("no_vision")
        if not text and not images:
            raise Refused("write_something")
        spoken = conversation or self._open(mode, chosen, bool(images), visit, sampling)
        _require_readers(spoken.sides, bool(images))
        texts = [*spoken.texts(), *([text] if text else [])]
        admission, is_open = self.admission, spoken.open
        personal, moderation = await self._checked(
            spoken, lambda: (admission.require_sure(text, sure), admission.check_texts(texts, is_open))
        )
        try:
            for picture in images:
                await self._written(partial(self.logs.keep_image, picture.name, picture.png))
            self._check_still(spoken, before)
        except Refused:
            await self._written(partial(self.logs.drop_images, {picture.name for picture in images}))
            raise
        spoken.moderation = moderation
        spoken.prompts.append(VisitorPrompt(text, tuple(images), personal))
        spoken.terms = visit.terms
        self.counts.messages += 1
        answers = {place: StreamedAnswer() for place in range(len(spoken.sides))}
        self._answers.start(spoken, answers, self.visitors.logged(visit.address))
        spoken.used = time.monotonic()
        self._open_now[spoken.id] = spoken
        return spoken

    async def _moderated(
        self, conversation: ArenaConversation, texts: Sequence[str], is_open: bool
    ) -> list[str] | None:  # fmt: skip
        """Categories of texts that pass. Raises Refused."""
        return await self._checked(conversation, partial(self.admission.check_texts, texts, is_open))

    async def _checked(self, conversation: ArenaConversation, check: Callable[[], Value]) -> Value:
        """Check texts on a thread; however long that takes, the conversation stays in memory. Raises Refused."""
        conversation.check_count += 1
        try:
            return await asyncio.to_thread(check)
        finally:
            conversation.check_count -= 1
            conversation.used = time.monotonic()

    def images_most(self, mode: Mode | None = None) -> int:
        """Images that a message may have now, in a mode or in any; 0 while too few of the models read images."""
        modes = [mode] if mode else list(Mode)
        are_read = any(self.pool.reads_images(in_battles=one_mode is Mode.BATTLE) for one_mode in modes)
        return self.images_max if are_read else 0

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
            self._take_models_of_now(conversation, conversation.sides)
        if len(text) > self.characters_max:
            raise Refused("too_long", characters=len(text), most=self.characters_max)
        self._check_limits(visit)

    def _take_models_of_now(self, conversation: ArenaConversation, sides: Sequence[Side]) -> None:
        """Ask models as they are served now, with the sampling of their talk.

        Raises Refused where one is no more, or reads the images of the talk no more.
        """
        served = {model.name: model for model in self.pool.models}
        if any(side.model.name not in served for side in sides):
            raise Refused("ended")
        for side in sides:
            side.model = with_sampling_of(side.model, served[side.model.name])
        _require_readers(sides, any(prompt.pictures for prompt in conversation.prompts))

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

    def _check_unclaimed(self, what: str, conversation: ArenaConversation) -> None:
        """Raises Refused while something else of a conversation is being written; a second click is none."""
        if conversation.voting and (what, *conversation.state) not in conversation.voted:
            raise Refused("vote_being_written")

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
                raise Refused("few_models")
            return self._begun(mode, drawn.pair, visit, drawn.told)
        models = {model.name: model for model in self.pool.available() if not model.anonymous_only}
        count = 1 if mode is Mode.DIRECT else 2
        if not len(chosen) == len(set(chosen)) == count or any(name not in models for name in chosen):
            raise Refused("choose_models")
        return self._begun(mode, [with_sampling(models[name], sampling) for name in chosen], visit)

    def _begun(
        self, mode: Mode, models: Sequence[ArenaModel], visit: Visit, drawn: Mapping[str, Any] = {}
    ) -> ArenaConversation:
        browser = self.visitors.browser(visit.owner)
        return ArenaConversation(mode, [Side(model) for model in models], visit.owner, browser, drawn=dict(drawn))

    def _not_sent(self, mode: Mode, chosen: Sequence[str], visit: Visit) -> ArenaConversation:
        """A conversation of which nothing is sent, also when no model answers now: for the log alone."""
        try:
            return self._open(mode, chosen, True, visit)
        except Refused:
            return self._begun(mode, self.pool.models[: 1 if mode is Mode.DIRECT else 2], visit)

    async def _end(self, conversation: ArenaConversation, known_image: KnownImage, visit: Visit) -> None:
        """Quarantine a known image, and end the conversation that it came with."""
        conversation.closed = True
        user, now = self.visitors.logged(visit.address), time.time()

        def write() -> None:
            self.logs.quarantine(known_image.name, known_image.content)
            for side in conversation.sides:
                record = flagged_record(conversation, side, known_image.name, now, user)
                self._note(record, self.logs.append(record, utc(now), flagged=True))

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
        if conversation.mode is Mode.BATTLE and conversation.state in conversation.votes:
            raise Refused("nothing_to_regenerate")  # the vote is on these answers
        self._take_models_of_now(conversation, conversation.sides)
        self._check_limits(visit)
        before, texts = conversation.state, conversation.texts(last_answers=False)
        moderation = await self._moderated(conversation, texts, conversation.open)
        self._check_still(conversation, before)

        async def replace_answers() -> None:
            for reaction in conversation.reactions_to_last():  # the answers go, and what was said of them
                await self._write_reaction(conversation, reaction, visit, withdrawn=True)
            if conversation.closed:  # it was forgotten meanwhile
                raise Refused("ended")
            conversation.moderation = moderation
            # one new answer a side, numbered after the one that it replaces
            answers = {
                place: StreamedAnswer(regenerated=side.answers[-1].regenerated + 1)
                for place, side in enumerate(conversation.sides)
            }
            self._answers.start(conversation, answers, self.visitors.logged(visit.address))

        await self._alone(conversation, replace_answers)

    async def ask_again(self, conversation: ArenaConversation, visit: Visit) -> None:
        """Ask for the answer of the one side that gave none; the other side's answer stays. Raises Refused.

        In a battle another model takes the place of one that has answered nothing yet, drawn by the same rules.
        """
        self._check_owner(conversation, visit)
        side = conversation.failed_side()
        if side is None:
            raise Refused("nothing_to_regenerate")
        self._check_limits(visit)
        before, place = conversation.state, conversation.sides.index(side)
        model, drawn = side.model, side.drawn
        if conversation.is_drawn_anew(side):
            anew = self._draw_beside(conversation, side)
            model, drawn = anew.model, anew.told
        else:
            self._take_models_of_now(conversation, [side])
            model = side.model
        models = [model, *(other.model for other in conversation.sides if other is not side)]
        texts = conversation.texts(last_answers=False)
        is_open = all(served.open for served in models)
        moderation = await self._moderated(conversation, texts, is_open)
        self._check_still(conversation, before)
        conversation.moderation, side.model, side.drawn = moderation, model, drawn
        answer = StreamedAnswer(regenerated=side.answers[-1].regenerated)
        self._answers.start(conversation, {place: answer}, self.visitors.logged(visit.address))

    def _draw_beside(self, conversation: ArenaConversation, side: Side) -> DrawnInstead:
        """The model that takes the place of a side's. Raises Refused when none is left."""
        (kept,) = (other.model.name for other in conversation.sides if other is not side)
        failed = [*side.drawn.get("in_place_of", ()), side.model.name]
        with_image = any(prompt.pictures for prompt in conversation.prompts)
        drawn = self.pool.draw_beside(kept, failed, with_image, self.cast, self._rng)
        if drawn is None:
            raise Refused("few_models")
        return drawn

    async def vote(
        self, conversation: ArenaConversation, kind: RecordType, visit: Visit, goes_on: bool = False
    ) -> bool:  # fmt: skip
        """Cast a vote on the present state. Returns False when there was one already. Raises Refused.

        An answer that is still coming ends. A battle ends, too, unless it `goes_on`: then its names stay hidden, and
        the next answers may be voted on. The vote is on the disk when this returns.
        """
        self._check_owner(conversation, visit)
        if kind not in (RATINGS if conversation.mode is Mode.DIRECT else CHOICES):
            raise Refused("no_such_vote")
        self._check_unclaimed("vote", conversation)
        if not conversation.may_vote():
            return False
        goes_on = goes_on and conversation.mode is Mode.BATTLE
        await self._claimed("vote", kind, conversation, partial(self._cast, conversation, kind, visit, goes_on))
        return True

    async def _cast(self, conversation: ArenaConversation, kind: RecordType, visit: Visit, goes_on: bool) -> None:
        now = time.time()
        coming = conversation.answering
        await self.stop(conversation, visit)
        answers = [side.answers[-1] for side in conversation.sides]
        if any(answer.failed for answer in answers):
            raise Refused("did_not_answer")
        seconds = 0.0 if coming else now - max(answer.finished for answer in answers)
        vote = first_vote(kind, conversation.state, len(conversation.sides), seconds, goes_on)
        await self._write_vote(conversation, vote, visit)
        self.counts.votes += kind is not RecordType.UNSURE_VOTE

    async def reveal(self, conversation: ArenaConversation, visit: Visit) -> None:
        """End a battle that went on after a vote, and show its names. Raises Refused.

        The line of the last vote is written again, without its mark that the talk goes on.
        """
        self._check_owner(conversation, visit)
        if conversation.voting:
            raise Refused("vote_being_written")
        if not conversation.may_reveal():
            raise Refused("no_vote_yet")
        last = list(conversation.votes.values())[-1]

        async def end() -> None:
            await self.stop(conversation, visit)
            await self._write_vote(conversation, replace(last, goes_on=False), visit)

        await self._claimed("reveal", last.kind, conversation, end)

    async def give_reason(
        self, conversation: ArenaConversation, keys: Sequence[str], words: str, comments: Sequence[str], visit: Visit
    ) -> None:
        """Add reasons, words, and a comment on each side to the vote on the present state. Raises Refused.

        The vote's line is written again, and the last line counts; a comment alone leaves the reasons of before.
        """
        self._check_owner(conversation, visit)
        vote = conversation.votes.get(conversation.state)
        if vote is None or vote.kind is RecordType.UNSURE_VOTE or conversation.forgotten:
            raise Refused("no_vote_yet")
        if conversation.voting:
            raise Refused("vote_being_written")
        chosen, text, on_sides = (
            self._fitting(vote.kind, keys),
            _clean(words),
            [_clean(comment) for comment in comments],
        )
        if chosen or text or any(on_sides):
            if wait := self.visitors.wait_seconds(visit.address, visit.owner, "reason of"):
                raise Refused("too_many", seconds=round(wait))
            added = vote.with_reasons(self.reasons, chosen, text, on_sides)
            await self._claimed(
                "reason", vote.kind, conversation, partial(self._write_vote, conversation, added, visit)
            )

    def _fitting(self, kind: RecordType, keys: Sequence[str]) -> list[str]:
        """The keys, once each. Raises Refused for a reason that does not fit the vote, or that nobody offers."""
        if not set(keys) <= self.reasons.fitting(kind).keys():
            raise Refused("no_such_reason")
        return list(dict.fromkeys(keys))

    async def react(
        self, conversation: ArenaConversation, reaction: AnswerReaction, visit: Visit, withdrawn: bool = False
    ) -> None:
        """Say of one answer of an open conversation whether it is good, and why; or take that back. Raises Refused."""
        self._check_owner(conversation, visit)
        where = reaction.turn, reaction.place
        earlier = conversation.reactions.get(where)
        if reaction.kind not in RATINGS or conversation.mode is Mode.DIRECT:
            raise Refused("no_such_vote")  # of direct chats the votes are reactions
        if conversation.closed or conversation.forgotten:
            raise Refused("ended")
        if conversation.answer_to(*where) is None or (withdrawn and earlier is None):
            raise Refused("no_such_vote")
        if conversation.voting:
            raise Refused("vote_being_written")
        reasons, comment = tuple(self._fitting(reaction.kind, reaction.reasons)), _clean(reaction.comment)
        if wait := self.visitors.wait_seconds(visit.address, visit.owner, "reaction of"):
            raise Refused("too_many", seconds=round(wait))
        checked = replace(reaction, reasons=reasons, comment=comment)
        write = partial(self._write_reaction, conversation, checked, visit, withdrawn)
        await self._alone(conversation, write)

    async def _write_reaction(
        self, conversation: ArenaConversation, reaction: AnswerReaction, visit: Visit, withdrawn: bool
    ) -> None:
        where = reaction.turn, reaction.place
        opinions = [reaction.opinion(self.reasons, withdrawn)]
        await self._write_said(
            conversation, reaction.kind, visit, place=reaction.place, turn=reaction.turn, opinions=opinions
        )
        if withdrawn:
            conversation.reactions.pop(where, None)
        else:
            conversation.reactions[where] = reaction

    async def flag(self, conversation: ArenaConversation, place: int, visit: Visit) -> None:
        """Report an answer, which is then not published; also while it comes, before, after and beside a vote."""
        self._check_owner(conversation, visit)
        if conversation.forgotten or not conversation.said(place):
            raise Refused("no_such_vote")
        if (f"flag {place}", *conversation.state) not in conversation.voted:
            write = partial(self._write_said, conversation, RecordType.FLAG, visit, place=place)
            await self._claimed(f"flag {place}", RecordType.FLAG, conversation, write, alone=False)

    async def _claimed(
        self, what: str, kind: RecordType, conversation: ArenaConversation, write: Callable[[], Awaitable[Any]],
        alone: bool = True,
    ) -> None:  # fmt: skip
        """Take the present state for a vote, its reason or a share, then write it; only a failed write gives it back.

        `alone`: meanwhile nothing else is taken.
        """
        state = (what, *conversation.state)
        before = {state: conversation.voted[state]} if state in conversation.voted else {}
        conversation.voted[state] = kind

        async def claimed() -> None:
            try:
                await write()
            except BaseException:
                del conversation.voted[state]
                conversation.voted |= before
                raise

        await (self._alone(conversation, claimed) if alone else self._whole(claimed))

    async def _alone(self, conversation: ArenaConversation, write: Callable[[], Awaitable[Any]]) -> None:
        """Write something of a conversation while nothing else of it is taken but a report."""
        conversation.voting = True

        async def alone() -> None:
            try:
                await write()
            finally:
                conversation.voting = False

        await self._whole(alone)

    async def _whole(self, write: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Write something. A request that is cancelled meanwhile changes nothing: the write goes on and counts."""
        task = asyncio.create_task(write())
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        await asyncio.shield(task)

    async def share(self, conversation: ArenaConversation, visit: Visit) -> bool:
        """Let everybody who has a link read this state: the visitor's consent, once for each state. Raises Refused.

        The link stays the same until it is taken back, and shows the state that was shared last.
        """
        self._check_owner(conversation, visit)
        self._check_unclaimed("share", conversation)
        if conversation.answering or not conversation.may_vote("share"):
            return False
        if wait := self.visitors.wait_seconds(visit.address, visit.owner, "link of"):
            raise Refused("too_many", seconds=round(wait))
        link = conversation.link or secrets.token_hex(16)

        async def write() -> None:
            marks = {"link": link, "named": conversation.named}
            await self._write_said(conversation, RecordType.SHARE, visit, marks)
            conversation.link = link

        await self._claimed("share", RecordType.SHARE, conversation, write)
        return True

    async def unshare(self, conversation: ArenaConversation, visit: Visit) -> None:
        """Take the consent and the link back: a line of its own, of which the last counts. Raises Refused."""
        self._check_owner(conversation, visit)
        if conversation.voting:
            raise Refused("vote_being_written")
        shared = [state for state in conversation.voted if state[0] == "share"]

        async def write() -> None:
            marks = {"withdrawn": True, **({"link": conversation.link} if conversation.link else {})}
            await self._write_said(conversation, RecordType.SHARE, visit, marks)
            conversation.link = ""
            for state in shared:
                conversation.voted.pop(state, None)

        if shared:
            await self._claimed("unshare", RecordType.SHARE, conversation, write)

    async def _write_vote(self, conversation: ArenaConversation, vote: TurnVote, visit: Visit) -> None:
        """Log a vote, and take it in once it is on the disk: in a battle that does not go on, it shows the names."""
        now = time.time()
        record = vote_record(conversation, vote, now, self.visitors.logged(visit.address), self._about)
        await self._append(record, now)
        is_first = not conversation.votes
        conversation.votes[vote.state] = vote
        if conversation.mode is Mode.BATTLE and not vote.goes_on:
            conversation.revealed = conversation.closed = True
        if (cast := cast_in(record)) and not conversation.forgotten:
            if not is_first:  # the last vote of a battle is the one that counts
                self.cast[:] = [earlier for earlier in self.cast if earlier.battle != cast.battle]
            self.cast.append(cast)

    async def _write_said(
        self, conversation: ArenaConversation, kind: RecordType, visit: Visit, marks: Mapping[str, Any] = {},
        **about: Any,
    ) -> None:  # fmt: skip
        now, user = time.time(), self.visitors.logged(visit.address)
        await self._append(said_record(conversation, kind, now, user, {**self._about, **marks}, **about), now)

    async def _append(self, record: dict[str, Any], now: float) -> None:
        await self._written(lambda: self._note(record, self.logs.append(record, utc(now))))

    async def forget(self, conversation: ArenaConversation, visit: Visit) -> bool:
        """Ask for the removal of everything that was logged of a conversation. Returns whether anything was."""
        self._check_owner(conversation, visit)
        was_closed, conversation.closed = conversation.closed, True  # meanwhile nothing more is asked
        await self.stop(conversation, visit)
        unnamed = conversation.unanswered_pictures()
        # of all sides: the number is the first one's, and a report may be about one that gave no whole answer
        asked_ids = [side.conv_id for side in conversation.sides] if conversation.is_logged else []

        def write() -> None:
            if asked_ids:
                self.logs.ask_takedown(asked_ids)
            self.logs.drop_images(unnamed)

        if not conversation.forgotten:
            try:
                await self._written(write)
            except Refused:
                conversation.closed = was_closed or conversation.revealed  # the next try writes it
                raise
        conversation.forgotten = True
        conversation.link = ""
        self.past.drop({conversation.id})
        self.cast[:] = [cast for cast in self.cast if cast.battle != conversation.id]
        return bool(asked_ids)

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


def _require_readers(sides: Sequence[Side], with_image: bool) -> None:
    """Raises Refused where an image would be sent to a model that reads none; which one it is, nobody is told."""
    if with_image and not all(side.model.vision for side in sides):
        raise Refused("sides_no_vision")


def _clean(reason: str) -> str:
    return SURROGATES.sub("\ufffd", reason).strip()[:REASON_CHARACTERS_MAX]
