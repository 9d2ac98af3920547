"""What scenes are made of: conversations that take their time, and the lines the server writes about them."""

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import NamedTuple

from tasks.demo.dialogue import Phrasebook
from tasks.demo.log_writer import Channel, Fact, LogLine, record_line
from tasks.demo.models import Model, models, quality, verdict
from tasks.demo.people import Crowd, Person
from tasks.demo.picture_folder import PictureFolder
from tasks.demo.picture_pool import PicturePool, PoolPicture
from tasks.demo.preset_folder import PresetFolder
from tasks.demo.records import Talk, Turn, chat, new_conv_id, vote
from tasks.demo.timeline import Moment

Scene = Callable[[Random, Moment], Iterable[LogLine]]
"""Plays something that begins at a moment, and gives the lines it leaves in the logs."""


class Stage(NamedTuple):
    """Everything a scene can use."""

    pictures: PictureFolder
    presets: PresetFolder
    pool: PicturePool
    phrases: Phrasebook
    crowd: Crowd

    def picture(self, rng: Random, moment: Moment) -> PoolPicture:
        """Some picture that the day's server has."""
        return rng.choice(self.pool.of(moment.era))

    def prompts(self, rng: Random, picture: PoolPicture, language: str = "en", count: int = 1) -> list[str]:
        """`count` user messages about a picture."""
        later = [self.phrases.follow_up(rng, language) for _ in range(count - 1)]
        return [self.phrases.prompt(rng, picture, language), *later]

    def talk(
        self,
        rng: Random,
        picture: PoolPicture,
        prompts: Sequence[str],
        language: str = "en",
        model: Model | None = None,
    ) -> Talk:
        """The prompts answered by a model, by default any."""
        model = model or rng.choice(models())
        answers = [self.phrases.answer(rng, picture.topic, picture.facts, language, quality(model)) for _ in prompts]
        turns = tuple(Turn(prompt, answer) for prompt, answer in zip(prompts, answers, strict=True))
        return Talk(new_conv_id(rng), model, turns, picture.name)

    def pair(
        self, rng: Random, picture: PoolPicture, prompts: Sequence[str], language: str = "en"
    ) -> tuple[Talk, Talk]:
        """The prompts answered by two different models, left and right."""
        left, right = rng.sample(models(), 2)
        return self.talk(rng, picture, prompts, language, left), self.talk(rng, picture, prompts, language, right)


def chat_lines(
    rng: Random,
    talk: Talk,
    moment: Moment,
    person: Person,
    facts: Sequence[Fact] = (),
    channel: Channel = Channel.VISION,
) -> list[LogLine]:
    """One line for each turn. The facts stand on the last."""
    lines, start = [], moment.at
    for count in range(1, len(talk.turns) + 1):
        finish = start + rng.uniform(2, 12)
        record = chat(talk, moment.era, count, start, finish, person.address)
        lines.append(record_line(record, channel, tuple(facts) if count == len(talk.turns) else ()))
        start = finish + rng.uniform(10, 60)
    return lines


def battle_lines(
    rng: Random,
    talks: tuple[Talk, Talk],
    moment: Moment,
    person: Person,
    facts: Sequence[Fact] = (),
    shown: Sequence[str] = ("", ""),
) -> list[LogLine]:
    """The chat lines of both sides and the vote. The facts stand on the vote."""
    lines = [line for talk in talks for line in chat_lines(rng, talk, moment, person)]
    at = max(line.at for line in lines) + rng.uniform(3, 90)
    return [*lines, vote_line(rng, talks, moment, at, person, facts, shown)]


def vote_line(
    rng: Random,
    talks: tuple[Talk, Talk],
    moment: Moment,
    at: float,
    person: Person,
    facts: Sequence[Fact] = (),
    shown: Sequence[str] = ("", ""),
) -> LogLine:
    """A vote drawn from the strengths of the two models."""
    kind = verdict(rng, talks[0].model, talks[1].model)
    return record_line(vote(kind, talks, shown, moment.era, at, person.address), facts=tuple(facts))
