"""Writes aspects, descriptions and questions by a grammar over scenes.

It understands no capability: the words of `author.yaml` are all it knows, so what it makes shows that the way works and
is never published. An aspect that its questions are not about is refused.
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
    LARGE_MAX,
    LIGHTS,
    PLACES,
    PLAIN,
    SCENE_SETTINGS,
    SIZES,
    THING_KINDS,
    Group,
    Scene,
    described,
    plural,
    scene_in,
)  # fmt: skip
from tasks.providers.capabilities import NO_QUESTION, AspectsWanted, DescriptionWanted, Failed, QuestionWanted
from tasks.providers.embedded.scenes.scene_questions import checks_of, kinds_asked, questions_of, solved
from tasks.runtime.untrusted import read_yaml

NOT_UNDERSTOOD = "not_in_the_grammar"
"""Failure reason for a text that is no scene of the grammar."""
SCENES_DRAWN_MAX = 500
"""Scenes drawn for one description until a question of its aspect and level can be asked about one."""


class SceneAuthor:
    """The stand-in of an author."""

    version = "scene-author-3"
    calls_at_once = 1

    def refusal(self, wanted: AspectsWanted) -> str:
        """The general or fine aspects that it can ask about, where these are fewer than are wanted."""
        words, at = _words(), f"at {', '.join(wanted.levels)}"
        name, advice = wanted.capability.name, "give another author with --provider author=NAME"
        if not (named := words["capabilities"].get(name)):
            return f"the embedded author cannot ask about {name!r}, only {', '.join(words['capabilities'])}; {advice}"
        if len(able := _generals(wanted)) < wanted.general:
            others = "; ".join(
                f"{general} not at {', '.join(lacking)}"
                for general in named
                if (lacking := _levels_lacking(general, wanted))
            )
            reason = f"{', '.join(able) or 'nothing'}{f' ({others})' if others else ''}"
            return (
                f"the embedded author can ask about {len(able)} general aspects of {name!r} {at}, not "
                f"{wanted.general}: {reason}; set generate.general or generate.levels, or {advice}"
            )
        if len(scopes := _scopes(wanted)) < wanted.fine:
            return (
                f"the embedded author has {len(scopes)} fine aspects {at}, not {wanted.fine}; set generate.fine, or "
                f"{advice}"
            )
        return ""

    def aspects(self, wanted: AspectsWanted) -> WrittenAspects | Failed:
        """Every general aspect of the capability with every scope, as far as the words reach."""
        existing, written_aspects = set(wanted.known), list[WrittenAspect]()
        for general in _generals(wanted)[: wanted.general]:
            free = [scope for scope in _scopes(wanted) if (general, _name(general, scope)) not in existing]
            lacking = wanted.fine - sum(1 for existing_general, _ in existing if existing_general == general)
            written_aspects += [_aspect(general, scope) for scope in free[: max(0, lacking)]]
        return WrittenAspects(aspects=written_aspects)

    def describe(self, wanted: DescriptionWanted) -> WrittenDescription | Failed:
        """A scene of the aspect's scope that a question of its kind and level can be asked about, in sentences."""
        rng, kind = _chance(wanted.seed), _kind_of(wanted.aspect.general)
        scope, kept_out = _words()["scopes"].get(wanted.aspect.name.partition(": ")[2]) or {}, set(wanted.kept_out)
        scenes = (_scene(rng, wanted.level, scope, kept_out) for _ in range(SCENES_DRAWN_MAX))
        scene = next((candidate for candidate in scenes if questions_of(candidate, kind, wanted.level_name, rng)), None)
        if scene is None:
            return Failed(NOT_UNDERSTOOD)
        first = scene.groups[0]
        words = [first.colour, first.place, *(group.kind for group in scene.groups[1:]), first.size]
        words += [scene.setting, *(group.colour for group in scene.groups[1:])]
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
        """A question of the aspect's kind and level that rests on no failed element, if there is one."""
        scene = scene_in(wanted.description)
        if scene is None:
            return Failed(NOT_UNDERSTOOD)
        failed, rng = set(wanted.failed), _chance(wanted.seed)
        of_level = questions_of(scene, _kind_of(wanted.aspect.general), wanted.level_name, rng)
        able = [candidate for candidate in of_level if failed.isdisjoint(candidate.about)]
        if not able:
            return Failed(NO_QUESTION)
        chosen = rng.choice(able)
        return WrittenQuestion(kind=chosen.kind, question=chosen.question, right=chosen.right, wrong=list(chosen.wrong))

    def solve(self, description: str, question: str, options: Sequence[str]) -> Solved | Failed:
        """The answer by the description; the options are only chosen from."""
        scene = scene_in(description)
        answer = solved(scene, question) if scene else None
        return Failed(NOT_UNDERSTOOD) if answer is None else Solved(answer=answer)


def tells_light(description: str) -> bool:
    """Whether a description says what light there is."""
    return any(phrase in description for phrase in LIGHTS.values())


def _generals(request: AspectsWanted) -> list[str]:
    """The general aspects of a capability that can be asked about at every level."""
    return [
        general
        for general in _words()["capabilities"].get(request.capability.name, [])
        if not _levels_lacking(general, request)
    ]


def _levels_lacking(general: str, request: AspectsWanted) -> list[str]:
    return [level for level in request.levels if _kind_of(general) not in kinds_asked(level)]


def _scopes(request: AspectsWanted) -> list[str]:
    """The fine aspects whose scenes every level may show: a plain background is no beach."""
    plain = any(level.plain for level in request.levels.values())
    return [name for name, scope in _words()["scopes"].items() if not (plain and scope.get("settings"))]


def _scene(rng: Random, level: Level, scope: Mapping[str, Any], kept_out: set[str]) -> Scene:
    """A scene of the scope; the first thing is none of the words kept out, where the scope has another."""
    kinds, places = scope.get("kinds") or THING_KINDS, scope.get("places") or PLACES
    count = rng.randint(level.objects_min, min(level.objects_max, len(kinds), len(places)))
    topic = rng.choice(_allowed(kinds, kept_out))
    chosen = [topic, *_preferred(rng, [kind for kind in kinds if kind != topic], kept_out, count - 1)]
    where = _preferred(rng, places, kept_out, count)
    rng.shuffle(where)
    colours = _allowed(scope.get("colours") or tuple(COLOURS), kept_out)
    groups = [_group(rng, level, *pair, rng.choice(colours)) for pair in zip(chosen, where, strict=True)]
    settings = _allowed(scope.get("settings") or [name for name in SCENE_SETTINGS if name != PLAIN], kept_out)
    light = rng.choice(list(LIGHTS)) if level.light else "day"
    return Scene(tuple(groups), PLAIN if level.plain else rng.choice(settings), light)


def _preferred(rng: Random, words: Sequence[str], kept_out: set[str], count: int) -> list[str]:
    """So many of the words by chance, kept-out ones only where the others do not suffice."""
    free = [word for word in words if word in _allowed(words, kept_out)]
    chosen = rng.sample(free, min(count, len(free)))
    return chosen + rng.sample([word for word in words if word not in free], count - len(chosen))


def _group(rng: Random, level: Level, kind: str, place: str, colour: str) -> Group:
    number = rng.randint(1, level.number_max)
    return Group(kind, number, colour, SIZES[0] if number > LARGE_MAX else rng.choice(SIZES), place)


def _allowed(words: Sequence[str], kept_out: set[str]) -> list[str]:
    """The words that are not kept out; all of them when nothing would be left."""
    return [word for word in words if word not in kept_out and plural(word) not in kept_out] or list(words)


def _aspect(general: str, scope: str) -> WrittenAspect:
    about = _words()["generals"][general]["about"]
    return WrittenAspect(
        general=general,
        name=_name(general, scope),
        introduction=f"{about} Here: {scope}.",
        guideline=(
            f"State kind, number, size, colour and place of everything. Use {scope}. Keep numbers, colours and places "
            "even over descriptions. No two things of one kind, and no two in one place."
        ),
    )


def _name(general: str, scope: str) -> str:
    return f"{general}: {scope}"


def _kind_of(general: str) -> str:
    return str(_words()["generals"].get(general, {}).get("kind", ""))


@cache
def _words() -> dict[str, Any]:
    words: dict[str, Any] = read_yaml(Path(__file__).with_name("author.yaml"))
    return words


def _chance(seed: str) -> Random:
    return Random(int.from_bytes(hashlib.blake2b(seed.encode(), digest_size=8).digest()))  # noqa: S311 - no secret
