"""Users, the texts of prompts and answers, conversations and their log lines, and ordinary traffic without problems."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from tasks.demo.images import ImageFolder, PoolImage, PresetFolder
from tasks.demo.records import (
    Channel,
    Era,
    Exchange,
    LogLine,
    Model,
    Moment,
    PlantedFact,
    Talk,
    feedback,
    logged_turn,
    logged_vote,
    models,
    new_conv_id,
    record_line,
)
from tasks.demo.words import load, speeches, topics

CONVERSATIONS_A_PERSON = 4
TIE_PROBABILITY, BOTH_BAD_PROBABILITY = 0.14, 0.07
CONTEXT_PROBABILITY, STYLE_PROBABILITY, REFUSAL_PROBABILITY = 0.35, 0.35, 0.015
_RANGES, _HOSTS = ("192.0.2", "198.51.100", "203.0.113"), 254
"""Addresses that are reserved for documentation."""
_UNSPACED = {"zh", "ja"}


class Person(NamedTuple):
    """One user."""

    address: str
    language: str


class Crowd:
    """All users of the arena; a few are frequent, most come once or twice."""

    def __init__(self, conversations: int) -> None:
        self._size = max(5, conversations // CONVERSATIONS_A_PERSON)
        self._languages = [code for code, speech in speeches().items() for _ in range(round(speech.share))]

    def anybody(self, rng: Random) -> Person:
        """A random user; frequent users are more likely."""
        index = int(self._size * rng.random() ** 1.5)
        language = self._languages[index * 37 % len(self._languages)]
        if index < len(_RANGES) * _HOSTS:
            return Person(f"{_RANGES[index % len(_RANGES)]}.{1 + index // len(_RANGES)}", language)
        return Person(f"2001:db8::{index:x}", language)


def quality(model: Model) -> float:
    """0 for the weakest model to 1 for the strongest."""
    strengths = [other.strength for other in models()]
    return (model.strength - min(strengths)) / (max(strengths) - min(strengths))


def verdict(rng: Random, left_model: Model, right: Model) -> str:
    """The type of a random vote. Ties do not depend on the models, so they do not change the models' order."""
    luck = rng.random()
    if luck < TIE_PROBABILITY:
        return "tievote"
    if luck < TIE_PROBABILITY + BOTH_BAD_PROBABILITY:
        return "bothbad_vote"
    left_wins = 1 / (1 + 10 ** ((right.strength - left_model.strength) / 400))
    return "leftvote" if rng.random() < left_wins else "rightvote"


def synthetic_answer(rng: Random, topic: str, facts: Mapping[str, str], language: str, quality: float) -> str:
    """An answer; better models write more and use more Markdown."""
    speech = speeches()[language]
    if rng.random() < REFUSAL_PROBABILITY:
        return rng.choice(speech.refusals)
    if language == "en":
        opening = rng.choice(topics()[topic].openings).format_map(facts)
        details = [detail.format_map(facts) for detail in topics()[topic].details]
    else:
        opening = rng.choice(speech.openings).format(noun=topics()[topic].nouns[language])
        details = list(speech.details)
    rng.shuffle(details)
    kept = details[: rng.randint(0, 2) + round(quality * 3)]
    closing = [rng.choice(speech.closings)] if rng.random() < 0.2 else []
    if len(kept) > 1 and rng.random() < 0.2 + 0.4 * quality:
        items = "\n".join(f"- {detail}" for detail in kept)
        return "\n\n".join([f"**{opening}**" if rng.random() < 0.5 else opening, items, *closing])
    return _joined([opening, *kept, *closing], language)


def _joined(parts: list[str], language: str) -> str:
    return ("" if language in _UNSPACED else " ").join(part for part in parts if part)


_TURN_COUNTS, _TURN_WEIGHTS = (1, 2, 3, 4), (70, 18, 8, 4)
FEEDBACK_PROBABILITY, SHARE_PROBABILITY = 0.06, 0.02


@dataclass(frozen=True)
class Stage:
    """Resources that scenes use."""

    images: ImageFolder
    presets: PresetFolder
    pool: dict[Era, list[PoolImage]]
    crowd: Crowd
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Prompts that were made about each image in each language."""

    def image(self, rng: Random, moment: Moment) -> PoolImage:
        """A random image that the day's server has."""
        return rng.choice(self.pool[moment.era])

    def prompt(self, rng: Random, image: PoolImage, language: str) -> str:
        """An opening prompt about an image; prompts repeat only after all were used."""
        prompts, speech = topics()[image.topic].prompts[language], speeches()[language]
        key = (image.name, language)
        question = prompts[(int(image.name[:6], 16) + self.asked[key]) % len(prompts)].format_map(image.facts)
        self.asked[key] += 1
        before = rng.choice(speech.contexts) if rng.random() < CONTEXT_PROBABILITY else ""
        after = rng.choice(speech.styles) if rng.random() < STYLE_PROBABILITY else ""
        return _joined([before, question, after], language)

    def prompts(self, rng: Random, image: PoolImage, language: str = "en", count: int = 1) -> list[str]:
        """`count` user messages about an image."""
        later = [rng.choice(speeches()[language].follow_ups) for _ in range(count - 1)]
        return [self.prompt(rng, image, language), *later]

    def talk(
        self, rng: Random, image: PoolImage, prompts: Sequence[str], language: str = "en", model: Model | None = None
    ) -> Talk:
        """A conversation with the prompts, answered by a model (default: a random one)."""
        model = model or rng.choice(models())
        answers = [synthetic_answer(rng, image.topic, image.facts, language, quality(model)) for _ in prompts]
        turns = tuple(Exchange(prompt, answer) for prompt, answer in zip(prompts, answers, strict=True))
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
        self, rng: Random, moment: Moment, talk: Talk, *facts: PlantedFact, person: Person | None = None,
        channel: Channel = Channel.VISION,
    ) -> list[LogLine]:  # fmt: skip
        """The chat lines of a conversation, one per turn; `facts` are attached to the last. Default: a random user."""
        lines, start, person = [], moment.at, person or self.crowd.anybody(rng)
        for count in range(1, len(talk.turns) + 1):
            finish = start + rng.uniform(2, 12)
            record = logged_turn(talk, moment.era, count, start, finish, person.address)
            lines.append(record_line(record, channel, facts if count == len(talk.turns) else ()))
            start = finish + rng.uniform(10, 60)
        return lines

    def battle(
        self, rng: Random, moment: Moment, talks: tuple[Talk, Talk], *facts: PlantedFact, person: Person | None = None,
        shown: Sequence[str] = ("", ""), asks_why: bool = False, vote: str = "",
    ) -> list[LogLine]:  # fmt: skip
        """The chat lines of both sides and the vote; `facts` are attached to the vote."""
        person = person or self.crowd.anybody(rng)
        lines = [line for talk in talks for line in self.chat(rng, moment, talk, person=person)]
        then = Moment(moment.day, max(line.at for line in lines) + rng.uniform(3, 90))
        return [*lines, vote_line(rng, then, talks, person, *facts, shown_names=shown, asks_why=asks_why, vote=vote)]


PlayedScene = Callable[[Stage, Random, Moment], Iterable[LogLine]]
"""Function that plays a scene from a moment on and returns its log lines."""


def vote_line(
    rng: Random, moment: Moment, talks: tuple[Talk, Talk], person: Person, *facts: PlantedFact,
    shown_names: Sequence[str] = ("", ""), asks_why: bool = False, vote: str = "",
) -> LogLine:  # fmt: skip
    """A vote, by default random from the strengths of the two models; some with a reason, if the page asks why."""
    kind = vote or verdict(rng, talks[0].model, talks[1].model)
    reason = vote_reason(kind, talks[0].conv_id) if asks_why and person.language == "en" else ""
    return record_line(
        logged_vote(kind, talks, shown_names, moment.era, moment.at, person.address, reason), facts=facts
    )


def vote_reason(kind: str, conv_id: str) -> str:
    """Reason that a voter wrote for a vote of this type; mostly nothing. It depends on the conversation's id alone."""
    words, lot = load("vote_reasons"), int(conv_id[:8], 16)
    if lot % words["share"]:
        return ""
    drawn = lot // words["share"]
    among = words["reasons"][kind] if drawn % words["private_share"] else words["private"]
    return str(among[drawn // words["private_share"] % len(among)])


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


def anonymous_battle(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """Two anonymous models answer the same prompts and the user votes; sometimes the page is shared."""
    person, image = stage.crowd.anybody(rng), stage.image(rng, moment)
    count = rng.choices(_TURN_COUNTS[:2], _TURN_WEIGHTS[:2])[0]
    talks = stage.pair(rng, image, stage.prompts(rng, image, person.language, count), person.language)
    lines = stage.battle(rng, moment, talks, person=person, asks_why=True)
    if rng.random() < SHARE_PROBABILITY:
        names = [f"### Model {side}: {talk.model.name}" for side, talk in zip("AB", talks, strict=True)]
        at = lines[-1].at + rng.uniform(1, 20)
        lines.append(record_line(logged_vote("share", talks, names, moment.era, at, person.address)))
    return lines
