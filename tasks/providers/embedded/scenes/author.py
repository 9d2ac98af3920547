"""Writes aspects, descriptions and questions by a grammar over scenes.

It understands no capability: the words of `author.yaml` are all it knows, so what it makes shows that the way works and
is never published.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from schemas.benches.generated import Level
from schemas.benches.generated_results import (
    Solved,
    WrittenAspect,
    WrittenAspects,
    WrittenChecks,
    WrittenDescription,
    WrittenQuestion,
)
from tasks.drawing.scene import (
    COLOURS,
    KINDS,
    LARGE_MAX,
    LIGHTS,
    PLACES,
    PLAIN,
    SETTINGS,
    SIZES,
    Group,
    Scene,
    described,
    plural,
    scene_in,
)  # fmt: skip
from tasks.providers.capabilities import AspectsWanted, DescriptionWanted, Failed, QuestionWanted
from tasks.providers.embedded.scenes.scene_questions import checks_of, questions_of, solved
from tasks.runtime.untrusted import read_yaml

NOT_UNDERSTOOD = "not_in_the_grammar"
"""Failure reason for a text that is no scene of the grammar."""


class SceneAuthor:
    """The stand-in of an author."""

    version = "scene-author-2"
    calls_at_once = 1

    def aspects(self, wanted: AspectsWanted) -> WrittenAspects | Failed:
        """Every general aspect with every scope, as far as the words reach."""
        known, words = set(wanted.known), _words()
        named = words["capabilities"].get(wanted.capability.name) or list(words["generals"])
        found = []
        for general in named[: wanted.general]:
            free = [scope for scope in words["scopes"] if (general, _name(general, scope)) not in known]
            lacking = wanted.fine - sum(1 for each, _ in known if each == general)
            found += [_aspect(general, scope) for scope in free[: max(0, lacking)]]
        return WrittenAspects(aspects=found)

    def describe(self, wanted: DescriptionWanted) -> WrittenDescription | Failed:
        """A scene of the aspect's scope, in sentences."""
        rng = _chance(wanted.seed)
        kind = _kind_of(wanted.aspect.general)
        scene = _scene(rng, wanted.level, kind, _scope(wanted.aspect.name), set(wanted.kept_out))
        first = scene.groups[0]
        words = [first.colour, first.place, *(each.kind for each in scene.groups[1:]), first.size]
        words += [scene.setting, *(each.colour for each in scene.groups[1:])]
        return WrittenDescription(
            description=described(scene, wanted.level.relations, wanted.level.light),
            topic_word=first.kind,
            key_words=list(dict.fromkeys(word for word in words if word != first.kind))[:6],
        )

    def checks(self, description: str, count: int) -> WrittenChecks | Failed:
        """Each thing, its number, colour, size and place; then the setting, and the light if it is told."""
        scene = scene_in(description)
        if scene is None:
            return Failed(NOT_UNDERSTOOD)
        return WrittenChecks(checks=checks_of(scene, tells_light(description))[:count])

    def question(self, wanted: QuestionWanted) -> WrittenQuestion | Failed:
        """A question of the aspect's kind, or of another kind where the scene or the failed elements allow none."""
        scene = scene_in(wanted.description)
        if scene is None:
            return Failed(NOT_UNDERSTOOD)
        failed, rng = set(wanted.failed), _chance(wanted.seed)
        able = [
            each for each in questions_of(scene, tells_light(wanted.description), rng) if failed.isdisjoint(each.about)
        ]
        if not able:
            return Failed("no_question_left")
        lowest, highest = wanted.level.asked_min, wanted.level.asked_max
        of_level = [each for each in able if lowest <= len(each.elements) <= highest] or able
        fitting = [each for each in of_level if each.kind == _kind_of(wanted.aspect.general)]
        chosen = rng.choice(fitting or of_level)
        return WrittenQuestion(kind=chosen.kind, question=chosen.question, right=chosen.right, wrong=list(chosen.wrong))

    def solve(self, description: str, question: str, options: Sequence[str]) -> Solved | Failed:
        """The answer by the description; the options are only chosen from."""
        scene = scene_in(description)
        answer = solved(scene, question) if scene else None
        return Failed(NOT_UNDERSTOOD) if answer is None else Solved(answer=answer)


def tells_light(description: str) -> bool:
    """Whether a description says what light there is."""
    return any(told in description for told in LIGHTS.values())


def _scene(rng: Random, level: Level, kind: str, scope: Mapping[str, Any], kept_out: set[str]) -> Scene:
    kinds = _allowed(KINDS, scope.get("kinds"), kept_out)
    places = _allowed(PLACES, scope.get("places"), kept_out)
    count = min(rng.randint(level.objects_min, level.objects_max), len(PLACES))
    if kind in ("relation", "total", "most", "difference"):
        count = max(count, min(2, level.objects_max))
    chosen = rng.sample(kinds, min(count, len(kinds)))
    chosen += rng.sample([each for each in KINDS if each not in chosen], count - len(chosen))
    where = rng.sample(places, min(count, len(places)))
    where += rng.sample([each for each in PLACES if each not in where], count - len(where))
    colours = _allowed(tuple(COLOURS), scope.get("colours"), kept_out)
    groups = [_group(rng, level, *pair, rng.choice(colours)) for pair in zip(chosen, where, strict=True)]
    settings = _allowed(tuple(name for name in SETTINGS if name != PLAIN), scope.get("settings"), kept_out)
    light = rng.choice(list(LIGHTS)) if level.light else "day"
    return Scene(tuple(groups), PLAIN if level.plain else rng.choice(settings), light)


def _group(rng: Random, level: Level, kind: str, place: str, colour: str) -> Group:
    number = rng.randint(1, level.number_max)
    return Group(kind, number, colour, SIZES[0] if number > LARGE_MAX else rng.choice(SIZES), place)


def _allowed(every: Sequence[str], scope: Sequence[str] | None, kept_out: set[str]) -> list[str]:
    """The words of the scope that are not kept out; all of the scope when nothing would be left."""
    within = list(scope or every)
    return [word for word in within if word not in kept_out and plural(word) not in kept_out] or within


def _aspect(general: str, scope: str) -> WrittenAspect:
    about = _words()["generals"][general]["about"]
    return WrittenAspect(
        general=general,
        name=_name(general, scope),
        introduction=f"{about} Here the scenes are made of {scope}.",
        guideline=(
            f"State kind, number, size, colour and place of everything. Use {scope}. Keep numbers, colours and places "
            "even over descriptions. No two things of one kind, and no two in one place."
        ),
    )


def _name(general: str, scope: str) -> str:
    return f"{general}: {scope}"


def _scope(name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = _words()["scopes"].get(name.partition(": ")[2], {})
    return found


def _kind_of(general: str) -> str:
    return str(_words()["generals"].get(general, {}).get("kind", ""))


@cache
def _words() -> dict[str, Any]:
    found: dict[str, Any] = read_yaml(Path(__file__).with_name("author.yaml"))
    return found


def _chance(seed: str) -> Random:
    return Random(int.from_bytes(hashlib.blake2b(seed.encode(), digest_size=8).digest()))  # noqa: S311 - no secret
