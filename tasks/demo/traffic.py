"""Conversations, the log lines that the server writes about them, and ordinary traffic without problems."""

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import NamedTuple

from tasks.demo.images import ImageFolder, ImagePool, PoolImage, PresetFolder
from tasks.demo.log_writer import Channel, Fact, LogLine, record_line
from tasks.demo.people import Crowd, Person, Phrasebook, quality, verdict
from tasks.demo.records import Model, Moment, Talk, Turn, chat, feedback, models, new_conv_id, vote

Scene = Callable[[Random, Moment], Iterable[LogLine]]
"""Function that plays a scene from a moment on and returns its log lines."""
_TURN_COUNTS, _TURN_WEIGHTS = (1, 2, 3, 4), (70, 18, 8, 4)
FEEDBACK_PROBABILITY, SHARE_PROBABILITY = 0.06, 0.02


class Stage(NamedTuple):
    """Resources that scenes use."""

    images: ImageFolder
    presets: PresetFolder
    pool: ImagePool
    phrases: Phrasebook
    crowd: Crowd

    def image(self, rng: Random, moment: Moment) -> PoolImage:
        """A random image that the day's server has."""
        return rng.choice(self.pool.of(moment.era))

    def prompts(self, rng: Random, image: PoolImage, language: str = "en", count: int = 1) -> list[str]:
        """`count` user messages about an image."""
        later = [self.phrases.follow_up(rng, language) for _ in range(count - 1)]
        return [self.phrases.prompt(rng, image, language), *later]

    def talk(
        self, rng: Random, image: PoolImage, prompts: Sequence[str], language: str = "en", model: Model | None = None
    ) -> Talk:
        """A conversation with the prompts, answered by a model (default: a random one)."""
        model = model or rng.choice(models())
        answers = [self.phrases.answer(rng, image.topic, image.facts, language, quality(model)) for _ in prompts]
        turns = tuple(Turn(prompt, answer) for prompt, answer in zip(prompts, answers, strict=True))
        return Talk(new_conv_id(rng), model, turns, image.name)

    def any_talk(self, rng: Random, moment: Moment, turns: int = 1) -> Talk:
        """An English conversation about a random image."""
        image = self.image(rng, moment)
        return self.talk(rng, image, self.prompts(rng, image, count=turns))

    def pair(self, rng: Random, image: PoolImage, prompts: Sequence[str], language: str = "en") -> tuple[Talk, Talk]:
        """The prompts answered by two different models, left and right."""
        left, right = rng.sample(models(), 2)
        return self.talk(rng, image, prompts, language, left), self.talk(rng, image, prompts, language, right)

    def chat(
        self,
        rng: Random,
        moment: Moment,
        talk: Talk,
        *facts: Fact,
        person: Person | None = None,
        channel: Channel = Channel.VISION,
    ) -> list[LogLine]:
        """The chat lines of a conversation, one per turn; `facts` are attached to the last. Default: a random user."""
        lines, start, person = [], moment.at, person or self.crowd.anybody(rng)
        for count in range(1, len(talk.turns) + 1):
            finish = start + rng.uniform(2, 12)
            record = chat(talk, moment.era, count, start, finish, person.address)
            lines.append(record_line(record, channel, facts if count == len(talk.turns) else ()))
            start = finish + rng.uniform(10, 60)
        return lines

    def battle(
        self,
        rng: Random,
        moment: Moment,
        talks: tuple[Talk, Talk],
        *facts: Fact,
        person: Person | None = None,
        shown: Sequence[str] = ("", ""),
    ) -> list[LogLine]:
        """The chat lines of both sides and the vote; `facts` are attached to the vote."""
        person = person or self.crowd.anybody(rng)
        lines = [line for talk in talks for line in self.chat(rng, moment, talk, person=person)]
        at = max(line.at for line in lines) + rng.uniform(3, 90)
        return [*lines, vote_line(rng, Moment(moment.day, at), talks, person, *facts, shown=shown)]


def vote_line(
    rng: Random, moment: Moment, talks: tuple[Talk, Talk], person: Person, *facts: Fact, shown: Sequence[str] = ("", "")
) -> LogLine:
    """A vote with a random verdict from the strengths of the two models."""
    kind = verdict(rng, talks[0].model, talks[1].model)
    return record_line(vote(kind, talks, shown, moment.era, moment.at, person.address), facts=facts)


def direct_chat(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """One user chats with one model; sometimes the user presses a button."""
    person, image = stage.crowd.anybody(rng), stage.image(rng, moment)
    count = rng.choices(_TURN_COUNTS, _TURN_WEIGHTS)[0]
    talk = stage.talk(rng, image, stage.prompts(rng, image, person.language, count), person.language)
    lines = stage.chat(rng, moment, talk, person=person)
    if rng.random() < FEEDBACK_PROBABILITY:
        kind, at = rng.choice(["upvote", "downvote"]), lines[-1].at + rng.uniform(1, 20)
        lines.append(record_line(feedback(kind, talk, moment.era, at, person.address)))
    return lines


def battle(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """Two anonymous models answer the same prompts and the user votes; sometimes the page is shared."""
    person, image = stage.crowd.anybody(rng), stage.image(rng, moment)
    count = rng.choices(_TURN_COUNTS[:2], _TURN_WEIGHTS[:2])[0]
    talks = stage.pair(rng, image, stage.prompts(rng, image, person.language, count), person.language)
    lines = stage.battle(rng, moment, talks, person=person)
    if rng.random() < SHARE_PROBABILITY:
        names = [f"### Model {side}: {talk.model.name}" for side, talk in zip("AB", talks, strict=True)]
        at = lines[-1].at + rng.uniform(1, 20)
        lines.append(record_line(vote("share", talks, names, moment.era, at, person.address)))
    return lines
