"""Questions about scenes in fixed words, and their answers by a scene: of the grammar, or as read from pixels.

Each form asks for one kind of fact at one level: a medium question needs two, a hard one is found in several steps,
such as by two relations at once. So no level's question is another's in the same words.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from operator import attrgetter
from random import Random

from schemas.benches.generated import CheckQuestion, ElementType
from tasks.drawing.scene import (
    COLOURS,
    LIGHTS,
    PLACE_RELATIONS,
    PLACES,
    PLAIN,
    SCENE_SETTINGS,
    SIZES,
    SPELLED,
    THING_KINDS,
    Group,
    Scene,
    plural,
    relation,
)  # fmt: skip

_NUMBERS = [number.lower() for number in SPELLED]
SETTING, LIGHT = "setting of the scene", "light of the scene"
"""Elements that are not of one thing."""
_FURTHEST = {
    "furthest to the left": "further to the left than",
    "furthest to the right": "further to the right than",
    "highest up": "higher up than",
    "lowest down": "lower down than",
}
"""Direction -> how a thing lies in it from another. Rows and columns decide, whatever the other coordinate is."""


@dataclass(frozen=True)
class SceneQuestion:
    """A question about a scene with its options."""

    kind: str
    question: str
    right: str
    wrong: tuple[str, ...]
    about: frozenset[str]
    """Elements of the check that the answer rests on."""


def checks_of(scene: Scene, light: bool) -> list[CheckQuestion]:
    """Whether each thing is there, and if so how many, in which colour and size, and where; then setting and light."""
    checks: list[CheckQuestion] = []
    for group in scene.groups:
        thing, parent = plural(group.kind), len(checks)
        facts: tuple[tuple[str, ElementType, Sequence[str], str], ...] = (
            (f"How many {thing} are there?", ElementType.COUNTING, (), _number(group.number)),
            (f"What colour are the {thing}?", ElementType.COLOR, list(COLOURS), group.colour),
            (f"Are the {thing} small or large?", ElementType.ATTRIBUTE, SIZES, group.size),
            (f"Where are the {thing}?", ElementType.SPATIAL, PLACES, group.place),
        )
        checks.append(_check(f"Are there any {thing}?", group.kind, ElementType.OBJECT, ("yes", "no"), "yes", None))
        for name, (question, type_, choices, answer) in zip(("number", "colour", "size", "place"), facts, strict=True):
            checks.append(_check(question, f"{name} of the {thing}", type_, choices, answer, parent))
    checks.append(
        _check("Where is the scene set?", SETTING, ElementType.LOCATION, list(SCENE_SETTINGS), scene.setting, None)
    )
    if light:
        checks.append(_check("What time of day is it?", LIGHT, ElementType.OTHER, list(LIGHTS), scene.light, None))
    return checks


def _check(
    question: str, element: str, type_: ElementType, choices: Sequence[str], answer: str, parent: int | None
) -> CheckQuestion:
    return CheckQuestion(
        question=question, element=element, type=type_, choices=list(choices), answer=answer, parent=parent
    )


@dataclass(frozen=True)
class _Answer:
    """Answer of a scene to a question."""

    values: tuple[str, ...]
    """One, or two for a question with two parts."""
    rests_on: frozenset[str] = frozenset()
    """Elements of the check that decide it."""


Filling = str | Group
"""Content of a gap of a form: words of the grammar, or the things that a noun names."""


@dataclass(frozen=True)
class _Form:
    """A question with gaps: `{a}` to `{c}` are things, `{r}` and `{q}` relations, other letters as in `_WORDS`."""

    kind: str
    """Kind of fact that it asks for; empty for one that only images are checked with."""
    level: str
    """The level that asks it."""
    words: str
    domain: str
    """Set of its options, as in `_options`."""
    answer: Callable[..., _Answer | None]
    """Called with the scene and what is in each gap; null where the scene has not exactly one right answer."""

    @property
    def gaps(self) -> list[str]:
        """Letters of the gaps, in order."""
        return re.findall(r"\{(\w)\}", self.words)


def kinds_asked(level: str) -> set[str]:
    """Kinds of question that a level has."""
    return {form.kind for form in _FORMS if form.level == level and form.kind}


def questions_of(scene: Scene, kind: str, level: str, rng: Random) -> list[SceneQuestion]:
    """Every question of a kind and level that the scene has exactly one right answer to."""
    return [
        _with_options(scene, form, gaps, answer, rng)
        for form in _FORMS
        if (form.kind, form.level) == (kind, level)
        for gaps in _fillings(scene, form)
        if (answer := form.answer(scene, **gaps))
    ]


def solved(scene: Scene, question: str) -> str | None:
    """The answer by a scene; null for a question in other words, or about what is not there."""
    nouns = {noun: group for group in scene.groups for noun in (group.kind, plural(group.kind))}
    for form, pattern in _COMPILED:
        if match := pattern.fullmatch(question.strip()):
            words_in_gaps = match.groupdict()
            if form.words == _ANY:
                return ("yes" if words_in_gaps["a"] in nouns else "no") if scene.groups else None
            gaps = {gap: nouns.get(word) if gap in _THINGS else word for gap, word in words_in_gaps.items()}
            answer = form.answer(scene, **gaps) if scene.groups and None not in gaps.values() else None
            return " and ".join(answer.values) if answer else None
    return None


_THINGS = "abc"
_WORDS: Mapping[str, Sequence[str]] = {
    "r": PLACE_RELATIONS, "q": PLACE_RELATIONS, "p": PLACES, "o": PLACES, "s": SIZES,
    "d": list(_FURTHEST), "e": list(_FURTHEST), "m": list(_FURTHEST.values()),
}  # fmt: skip
"""Gap -> the words that fit in it, for gaps without a thing."""


def _fillings(scene: Scene, form: _Form) -> Iterator[dict[str, Filling]]:
    """Every way to fill the gaps of a form, no two with one thing."""
    words = [gap for gap in form.gaps if gap not in _THINGS]
    things = [gap for gap in form.gaps if gap in _THINGS]
    for groups in permutations(scene.groups, len(things)):
        for chosen in product(*(_WORDS[gap] for gap in words)):
            yield dict(zip(things, groups, strict=True)) | dict(zip(words, chosen, strict=True))


def _pattern(form: _Form) -> re.Pattern[str]:
    gaps = {gap: r"(?P<a>\w+)".replace("a", gap) for gap in _THINGS}
    gaps |= {gap: f"(?P<{gap}>{'|'.join(words)})" for gap, words in _WORDS.items()}
    return re.compile(form.words.replace("?", r"\?").format(**gaps))


def _with_options(
    scene: Scene, form: _Form, gaps: Mapping[str, Filling], answer: _Answer, rng: Random
) -> SceneQuestion:
    """The question with three wrong options, or one where only True and False are possible.

    Of two parts each has one wrong value, and the options are all pairs.
    """
    named = {place.kind for place in gaps.values() if isinstance(place, Group)}
    if len(answer.values) == 1:
        options = [*answer.values, *_options(form.domain, answer.values[0], scene, named | set(answer.values), rng)[:3]]
    else:
        parts, taken = list[tuple[str, str]](), named | set(answer.values)
        for value in answer.values:
            parts.append((value, _options(form.domain, value, scene, taken, rng)[0]))
            taken.add(parts[-1][1])
        options = [" and ".join(pair) for pair in product(*parts)]
    words = {gap: plural(place.kind) if isinstance(place, Group) else place for gap, place in gaps.items()}
    return SceneQuestion(form.kind, form.words.format(**words), options[0], tuple(options[1:]), answer.rests_on | named)


def _options(domain: str, right: str, scene: Scene, taken: set[str], rng: Random) -> list[str]:
    """Wrong values of a domain in an order by chance; of kinds, those in the scene come first."""
    if domain == "surroundings":
        domain = "light" if right in LIGHTS else "setting"
    if domain == "count":
        among = [str(number) for number in range(max(1, int(right) - 3), int(right) + 4)]
    else:
        among = list(_DOMAINS[domain])
    wrong = [value for value in among if value != right]
    rng.shuffle(wrong)
    if domain == "kind":
        kinds_in_scene = {group.kind for group in scene.groups}
        wrong = sorted((kind for kind in wrong if kind not in taken), key=lambda kind: kind not in kinds_in_scene)
    return wrong


_DOMAINS: Mapping[str, Sequence[str]] = {
    "colour": list(COLOURS), "number": _NUMBERS, "size": SIZES, "place": PLACES, "kind": THING_KINDS,
    "relation": PLACE_RELATIONS,
    "truth": ("True", "False"), "setting": [name for name in SCENE_SETTINGS if name != PLAIN], "light": list(LIGHTS),
}  # fmt: skip


def _number(number: int) -> str:
    return _NUMBERS[number - 1] if 1 <= number <= len(_NUMBERS) else str(number)


def _elements(name: str, *groups: Group) -> frozenset[str]:
    """The elements of the check that say something about these groups; `name` is of an attribute."""
    return frozenset(element for group in groups for element in (group.kind, f"{name} of the {plural(group.kind)}"))


def _attribute(name: str, *groups: Group | None) -> _Answer | None:
    """The value of an attribute, of each group; null where a group is missing."""
    present = [group for group in groups if group]
    if len(present) < len(groups):
        return None
    values = tuple(_number(group.number) if name == "number" else getattr(group, name) for group in present)
    return _Answer(values, _elements("place" if name == "kind" else name, *present))


def _resting_on_places(scene: Scene, answer: _Answer | None) -> _Answer | None:
    """The same answer, which rests on the places of all things: had one stood elsewhere, it could be another."""
    return answer and _Answer(answer.values, answer.rests_on | _elements("place", *scene.groups))


def _counted(number: int, *groups: Group) -> _Answer | None:
    return _Answer((str(number),), _elements("number", *groups)) if number > 0 else None


def _lies(group: Group, compared: str, other: Group) -> bool:
    """Whether a group lies further in a direction than another; by its row or its column alone."""
    (row, column), (other_row, other_column) = (
        divmod(PLACES.index(placed_group.place), 3) for placed_group in (group, other)
    )
    left, right, up, _ = _FURTHEST.values()
    if compared in (left, right):
        return column < other_column if compared == left else column > other_column
    return row < other_row if compared == up else row > other_row


def _standing(scene: Scene, *where: tuple[str, Group]) -> Group | None:
    """The one group in these relations to others; null when another one lies in their direction, too, or none does."""
    compared = dict(zip(PLACE_RELATIONS, _FURTHEST.values(), strict=True))
    candidates = [g for g in scene.groups if all(_lies(g, compared[name], other) for name, other in where)]
    is_exact = len(candidates) == 1 and all(relation(candidates[0], other) == name for name, other in where)
    return candidates[0] if is_exact else None


def _by_two(scene: Scene, r: str, a: Group, q: str, b: Group) -> Group | None:
    """The one group that has a relation to each of two others; null where both relations are the same."""
    return _standing(scene, (r, a), (q, b)) if r != q else None


def _furthest(groups: Sequence[Group], direction: str) -> Group | None:
    """The group that lies further in a direction than all others; null for several, and for fewer than two groups."""
    first = [g for g in groups if all(_lies(g, _FURTHEST[direction], other) for other in groups if other is not g)]
    return first[0] if len(groups) > 1 and first else None


def _furthest_of(scene: Scene, m: str, a: Group, d: str) -> Group | None:
    """The furthest of those that lie in direction `m` from a group, where it is not the furthest of all."""
    chosen = _furthest([group for group in scene.groups if _lies(group, m, a)], d)
    return chosen if chosen is not _furthest(scene.groups, d) else None


def _by_number(groups: Sequence[Group], *, most: bool) -> Group | None:
    """The group with the most, or the fewest, things; null for several such groups, and for fewer than two groups."""
    ordered = sorted(groups, key=attrgetter("number"), reverse=most)
    return ordered[0] if len(ordered) > 1 and ordered[0].number != ordered[1].number else None


def _most_of(scene: Scene, m: str, a: Group) -> _Answer | None:
    """The thing there is the most of among those in direction `m` from a group, where it is not the most of all."""
    chosen = _by_number([group for group in scene.groups if _lies(group, m, a)], most=True)
    answer = _attribute("kind", chosen) if chosen is not _by_number(scene.groups, most=True) else None
    return answer and _resting_on_places(scene, _by_all_numbers(scene, answer))


def _by_all_numbers(scene: Scene, answer: _Answer | None) -> _Answer | None:
    """The same answer, which rests on the number of each thing."""
    return answer and _Answer(answer.values, answer.rests_on | _elements("number", *scene.groups))


def _related(scene: Scene, first: Group | None, second: Group) -> _Answer | None:
    where = relation(first, second) if first and first is not second else None
    return _Answer((where,), _elements("place", *scene.groups)) if where else None


def _side_with_another(scene: Scene, a: Group) -> _Answer | None:
    """Where the only other group is."""
    others = [group for group in scene.groups if group is not a]
    return _related(scene, others[0], a) if len(others) == 1 else None


def _at(scene: Scene, *places: str) -> _Answer | None:
    """The kinds in these places; null where a place is given twice."""
    groups_there = [next((group for group in scene.groups if group.place == place), None) for place in places]
    return _attribute("kind", *groups_there) if len(set(places)) == len(places) else None


def _outermost(scene: Scene, d: str, e: str) -> _Answer | None:
    first, second = _furthest(scene.groups, d), _furthest(scene.groups, e)
    different = first is not second and list(_FURTHEST).index(d) < list(_FURTHEST).index(e)
    return _resting_on_places(scene, _attribute("kind", first, second)) if different else None


def _setting(scene: Scene) -> _Answer | None:
    """The setting, of a plain image that it is plain: an image without its setting has another answer than the key."""
    return _Answer((scene.setting,), frozenset({SETTING}))


def _surroundings(scene: Scene) -> _Answer | None:
    return _Answer((scene.setting, scene.light), frozenset({SETTING, LIGHT})) if scene.setting != PLAIN else None


def _sizes_by_two(scene: Scene, r: str, a: Group, q: str, b: Group, c: Group) -> _Answer | None:
    return (
        _resting_on_places(scene, _attribute("size", _by_two(scene, r, a, q, b), c))
        if c is not _by_two(scene, r, a, q, b)
        else None
    )


def _one_by_two(name: str) -> Callable[..., _Answer | None]:
    """Function that answers with an attribute of the one thing that has two relations."""
    return lambda scene, r, a, q, b: _resting_on_places(scene, _attribute(name, _by_two(scene, r, a, q, b)))


def _of_one(name: str) -> Callable[..., _Answer | None]:
    return lambda _, a: _attribute(name, a)


def _of_both(name: str) -> Callable[..., _Answer | None]:
    return lambda _, a, b: _attribute(name, a, b)


_ANY = "Are there any {a}?"
_BY_TWO = "stands {r} the {a} and {q} the {b}"
_FORMS = (
    _Form("", "", _ANY, "", lambda _, a: None),
    _Form("", "", "Are the {a} small or large?", "size", _of_one("size")),
    _Form("", "", "What time of day is it?", "light", lambda s: _Answer((s.light,))),
    _Form("colour", "easy", "What colour are the {a}?", "colour", _of_one("colour")),
    _Form("colour", "medium", "What colour are the {a}, and what colour are the {b}?", "colour", _of_both("colour")),
    _Form("colour", "hard", f"What colour is what {_BY_TWO}?", "colour", _one_by_two("colour")),
    _Form("number", "easy", "How many {a} are there?", "number", _of_one("number")),
    _Form("number", "medium", "How many {a} and how many {b} are there?", "number", _of_both("number")),
    _Form("number", "hard", f"How many are there of what {_BY_TWO}?", "number", _one_by_two("number")),
    _Form(
        "size", "easy", "Is it true that the {a} are {s}?", "truth",
        lambda _, a, s: _Answer((str(a.size == s),), _elements("size", a)),
    ),
    _Form("size", "medium", "What size are the {a}, and what size are the {b}?", "size", _of_both("size")),
    _Form("size", "hard", f"What size is what {_BY_TWO}, and what size are the {{c}}?", "size", _sizes_by_two),
    _Form("thing", "easy", "What is {p}?", "kind", lambda s, p: _at(s, p)),
    _Form("thing", "medium", "What is {p}, and what is {o}?", "kind", lambda s, p, o: _at(s, p, o)),
    _Form("thing", "hard", f"What {_BY_TWO}?", "kind", _one_by_two("kind")),
    _Form("place", "easy", "Where are the {a}?", "place", _of_one("place")),
    _Form("place", "medium", "Where are the {a}, and where are the {b}?", "place", _of_both("place")),
    _Form("place", "hard", f"Where is what {_BY_TWO}?", "place", _one_by_two("place")),
    _Form("relation", "easy", "On which side of the {a} is there something else?", "relation", _side_with_another),
    _Form(
        "relation", "medium", "Where are the {a} seen from the {b}?", "relation",
        lambda s, a, b: _Answer((where,), _elements("place", a, b)) if (where := relation(a, b)) else None,
    ),
    _Form(
        "relation", "hard", "Where is what stands {r} the {a}, seen from the {b}?", "relation",
        lambda s, r, a, b: _related(s, _standing(s, (r, a)), b),
    ),
    _Form(
        "outermost", "easy", "What is {d}?", "kind",
        lambda s, d: _resting_on_places(s, _attribute("kind", _furthest(s.groups, d))),
    ),
    _Form("outermost", "medium", "What is {d}, and what is {e}?", "kind", _outermost),
    _Form(
        "outermost", "hard", "Of what is {m} the {a}, what is {d}?", "kind",
        lambda s, m, a, d: _resting_on_places(s, _attribute("kind", _furthest_of(s, m, a, d))),
    ),
    _Form("setting", "medium", "Where is the scene set?", "setting", _setting),
    _Form(
        "setting", "hard", "In which setting and at which time of day is the scene?", "surroundings", _surroundings
    ),
    _Form(
        "total", "easy", "How many {a} would there be with two more?", "count",
        lambda _, a: _counted(a.number + 2, a),
    ),
    _Form(
        "total", "medium", "How many {a} and {b} are there together?", "count",
        lambda _, a, b: _counted(a.number + b.number, a, b),
    ),
    _Form(
        "total", "hard", "How many {a}, {b} and {c} are there together?", "count",
        lambda _, a, b, c: _counted(a.number + b.number + c.number, a, b, c),
    ),
    _Form(
        "most", "easy", "What is there the most of?", "kind",
        lambda s: _by_all_numbers(s, _attribute("kind", _by_number(s.groups, most=True))),
    ),
    _Form(
        "most", "medium", "What is there the most of, and what the fewest?", "kind",
        lambda s: _by_all_numbers(
            s, _attribute("kind", _by_number(s.groups, most=True), _by_number(s.groups, most=False))
        ),
    ),
    _Form("most", "hard", "Of what is {m} the {a}, what is there the most of?", "kind", _most_of),
    _Form(
        "difference", "easy", "How many more {a} would make six?", "count", lambda _, a: _counted(6 - a.number, a)
    ),
    _Form(
        "difference", "medium", "How many more {a} than {b} are there?", "count",
        lambda _, a, b: _counted(a.number - b.number, a, b),
    ),
    _Form(
        "difference", "hard", "How many more {a} and {b} are there together than {c}?", "count",
        lambda _, a, b, c: _counted(a.number + b.number - c.number, a, b, c),
    ),
)  # fmt: skip
"""Every question of the grammar, the level it belongs to and what its answer is."""
_COMPILED = [(form, _pattern(form)) for form in _FORMS]
