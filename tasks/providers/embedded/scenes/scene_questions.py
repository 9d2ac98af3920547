"""Questions about scenes in fixed words, and their answers by a scene: of the grammar, or as read from pixels."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations, product
from random import Random

from schemas.benches.generated import CheckQuestion, ElementType
from tasks.drawing.scene import (
    COLOURS,
    KINDS,
    LIGHTS,
    NUMBERS,
    PLACES,
    PLAIN,
    RELATIONS,
    SETTINGS,
    SIZES,
    Group,
    Scene,
    plural,
    relation,
)  # fmt: skip

_NUMBERS = [number.lower() for number in NUMBERS]
SETTING, LIGHT = "setting of the scene", "light of the scene"
"""Elements that are not of one thing."""
_PAIRED = {
    "colour": "What colour are the {}, and what colour are the {}?",
    "number": "How many {} and how many {} are there?",
}
_LIGHT_ASKED = "Where and at what time of day is the scene set?"


@dataclass(frozen=True)
class SceneQuestion:
    """A question about a scene with its options."""

    kind: str
    question: str
    right: str
    wrong: tuple[str, ...]
    about: frozenset[str]
    """Elements of the check that the answer rests on."""

    @property
    def elements(self) -> frozenset[str]:
        """Things, setting and light among them, without attributes."""
        return self.about & {*KINDS, SETTING, LIGHT}


def checks_of(scene: Scene, light: bool) -> list[CheckQuestion]:
    """Whether each thing is there, and if so how many, in which colour and size, and where; then setting and light."""
    found: list[CheckQuestion] = []
    for group in scene.groups:
        thing, parent = plural(group.kind), len(found)
        told: tuple[tuple[str, ElementType, Sequence[str], str], ...] = (
            (f"How many {thing} are there?", ElementType.COUNTING, (), _NUMBERS[group.number - 1]),
            (f"What colour are the {thing}?", ElementType.COLOR, list(COLOURS), group.colour),
            (f"Are the {thing} small or large?", ElementType.ATTRIBUTE, SIZES, group.size),
            (f"Where are the {thing}?", ElementType.SPATIAL, PLACES, group.place),
        )
        found.append(_check(f"Are there any {thing}?", group.kind, ElementType.OBJECT, ("yes", "no"), "yes", None))
        for name, (question, type_, choices, answer) in zip(("number", "colour", "size", "place"), told, strict=True):
            found.append(_check(question, f"{name} of the {thing}", type_, choices, answer, parent))
    found.append(_check("Where is the scene set?", SETTING, ElementType.LOCATION, list(SETTINGS), scene.setting, None))
    if light:
        found.append(_check("What time of day is it?", LIGHT, ElementType.OTHER, list(LIGHTS), scene.light, None))
    return found


def _check(
    question: str, element: str, type_: ElementType, choices: Sequence[str], answer: str, parent: int | None
) -> CheckQuestion:
    return CheckQuestion(
        question=question, element=element, type=type_, choices=list(choices), answer=answer, parent=parent
    )


def questions_of(scene: Scene, light: bool, rng: Random) -> list[SceneQuestion]:
    """Every question that the scene has exactly one right answer to."""
    found = [each for group in scene.groups for each in _of_group(group, scene, rng)]
    for first, second in permutations(scene.groups, 2):
        if where := relation(first, second):
            asked = f"Where are the {plural(first.kind)} seen from the {plural(second.kind)}?"
            about = _about("place", first, second)
            found.append(_question("relation", asked, where, RELATIONS, about, rng))
    found += [each for pair in combinations(scene.groups, 2) for each in _of_pair(*pair, rng)]
    if len(scene.groups) > 1:
        found += _of_numbers(scene, rng)
    if scene.setting != PLAIN:
        settings = [name for name in SETTINGS if name != PLAIN]
        found.append(_question("setting", "Where is the scene set?", scene.setting, settings, {SETTING}, rng))
    if light:
        found.append(_of_light(scene, rng))
    return found


def _of_pair(first: Group, second: Group, rng: Random) -> Iterator[SceneQuestion]:
    """Colours, or numbers, of two things at once: each wrong option has one of them wrong, or both."""
    for kind, among in (("colour", list(COLOURS)), ("number", _NUMBERS)):
        right = _both(first, second, kind)
        others = [rng.choice([each for each in among if each != value]) for value in right]
        pairs = list(product(*zip(right, others, strict=True)))
        asked = _PAIRED[kind].format(plural(first.kind), plural(second.kind))
        said = [" and ".join(pair) for pair in pairs]
        yield SceneQuestion(kind, asked, said[0], tuple(said[1:]), frozenset(_about(kind, first, second)))


def _both(first: Group, second: Group, kind: str) -> tuple[str, str]:
    one, other = (each.colour if kind == "colour" else _word(each.number) for each in (first, second))
    return one, other


def _of_light(scene: Scene, rng: Random) -> SceneQuestion:
    """Setting and light together, because there are fewer than four lights."""
    other_light = rng.choice([name for name in LIGHTS if name != scene.light])
    other_setting = rng.choice([name for name in SETTINGS if name not in (PLAIN, scene.setting)])
    among = [_surroundings(s, li) for s in (scene.setting, other_setting) for li in (scene.light, other_light)]
    return SceneQuestion("light", _LIGHT_ASKED, among[0], tuple(among[1:]), frozenset({SETTING, LIGHT}))


def _surroundings(setting: str, light: str) -> str:
    return f"{setting} at {light}" if light != "day" else f"{setting} by day"


def _of_size(group: Group, rng: Random) -> SceneQuestion:
    """Size and colour together, because there are two sizes."""
    other_colour = rng.choice([name for name in COLOURS if name != group.colour])
    other_size = next(name for name in SIZES if name != group.size)
    among = [f"{size} and {colour}" for size in (group.size, other_size) for colour in (group.colour, other_colour)]
    about = _about("size", group) | _about("colour", group)
    asked = f"What are the {plural(group.kind)} like?"
    return SceneQuestion("size", asked, among[0], tuple(among[1:]), frozenset(about))


def _of_group(group: Group, scene: Scene, rng: Random) -> Iterator[SceneQuestion]:
    thing = plural(group.kind)
    yield _question("colour", f"What colour are the {thing}?", group.colour, COLOURS, _about("colour", group), rng)
    yield _question(
        "number", f"How many {thing} are there?", _NUMBERS[group.number - 1], _NUMBERS, _about("number", group), rng
    )
    yield _question("place", f"Where are the {thing}?", group.place, PLACES, _about("place", group), rng)
    shown = {each.kind for each in scene.groups}
    others = [group.kind, *(kind for kind in KINDS if kind not in shown)]
    yield _question("thing", f"What is {group.place}?", group.kind, others, _about("place", group), rng)
    yield _of_size(group, rng)


def _of_numbers(scene: Scene, rng: Random) -> Iterator[SceneQuestion]:
    numbers, about = [group.number for group in scene.groups], _about("number", *scene.groups)
    total = sum(numbers)
    near = [str(n) for n in range(max(1, total - 3), total + 4)]
    yield _question("total", "How many things are there in all?", str(total), near, about, rng)
    most = max(scene.groups, key=lambda group: group.number)
    if numbers.count(most.number) == 1:
        kinds = [group.kind for group in scene.groups]
        kinds += rng.sample([kind for kind in KINDS if kind not in kinds], max(0, 4 - len(kinds)))
        yield _question("most", "Of which thing are there the most?", most.kind, kinds, about, rng)
    for first, second in permutations(scene.groups, 2):
        if (more := first.number - second.number) > 0:
            asked = f"How many more {plural(first.kind)} than {plural(second.kind)} are there?"
            yield _question("difference", asked, _NUMBERS[more - 1], _NUMBERS, _about("number", first, second), rng)


def _about(name: str, *groups: Group) -> set[str]:
    return {element for group in groups for element in (group.kind, f"{name} of the {plural(group.kind)}")}


def _question(
    kind: str, question: str, right: str, among: Sequence[str] | dict[str, float], about: set[str], rng: Random
) -> SceneQuestion:
    wrong = rng.sample([each for each in among if each != right], 3)
    return SceneQuestion(kind, question, right, tuple(wrong), frozenset(about))


_FORMS: tuple[tuple[str, Callable[[Scene, Sequence[str]], str | None]], ...] = (
    (r"Are there any (\w+)\?", lambda scene, words: "yes" if _named(scene, words[0]) else "no"),
    (r"How many more (\w+) than (\w+) are there\?", lambda scene, words: _difference(scene, words)),
    (r"How many things are there in all\?", lambda scene, _: str(sum(group.number for group in scene.groups))),
    (_PAIRED["colour"][:-1].format(*[r"(\w+)"] * 2) + r"\?", lambda scene, words: _pair(scene, words, "colour")),
    (_PAIRED["number"][:-1].format(*[r"(\w+)"] * 2) + r"\?", lambda scene, words: _pair(scene, words, "number")),
    (r"How many (\w+) are there\?", lambda scene, words: _number(scene, words[0])),
    (r"What colour are the (\w+)\?", lambda scene, words: _of(scene, words[0], "colour")),
    (r"Are the (\w+) small or large\?", lambda scene, words: _of(scene, words[0], "size")),
    (r"Where are the (\w+) seen from the (\w+)\?", lambda scene, words: _relation(scene, words)),
    (r"Where are the (\w+)\?", lambda scene, words: _of(scene, words[0], "place")),
    (r"Where is the scene set\?", lambda scene, _: scene.setting),
    (r"What time of day is it\?", lambda scene, _: scene.light),
    (re.escape(_LIGHT_ASKED), lambda scene, _: _surroundings(scene.setting, scene.light)),
    (r"What are the (\w+) like\?", lambda scene, words: _like(scene, words[0])),
    (r"What is ([a-z ]+)\?", lambda scene, words: next((g.kind for g in scene.groups if g.place == words[0]), None)),
    (r"Of which thing are there the most\?", lambda scene, _: max(scene.groups, key=lambda g: g.number).kind),
)
_COMPILED = [(re.compile(form), answer) for form, answer in _FORMS]


def solved(scene: Scene, question: str) -> str | None:
    """The answer by a scene; null for a question in other words, or about what is not there."""
    for form, answer in _COMPILED:
        if match := form.fullmatch(question.strip()):
            return answer(scene, match.groups()) if scene.groups else None
    return None


def _named(scene: Scene, noun: str) -> Group | None:
    return next((group for group in scene.groups if noun in (group.kind, plural(group.kind))), None)


def _of(scene: Scene, noun: str, name: str) -> str | None:
    group = _named(scene, noun)
    return getattr(group, name) if group else None


def _number(scene: Scene, noun: str) -> str | None:
    group = _named(scene, noun)
    return _word(group.number) if group else None


def _difference(scene: Scene, nouns: Sequence[str]) -> str | None:
    first, second = (_named(scene, noun) for noun in nouns)
    return _word(first.number - second.number) if first and second else None


def _pair(scene: Scene, nouns: Sequence[str], kind: str) -> str | None:
    first, second = (_named(scene, noun) for noun in nouns)
    return " and ".join(_both(first, second, kind)) if first and second else None


def _relation(scene: Scene, nouns: Sequence[str]) -> str | None:
    first, second = (_named(scene, noun) for noun in nouns)
    return relation(first, second) if first and second else None


def _word(number: int) -> str:
    return _NUMBERS[number - 1] if 1 <= number <= len(_NUMBERS) else str(number)


def _like(scene: Scene, noun: str) -> str | None:
    group = _named(scene, noun)
    return f"{group.size} and {group.colour}" if group else None
