"""Whether a question asks about an element that the image does not show. In doubt it does."""

from schemas.generated import ElementType
from tasks.bench.generate.alignment import THINGS, FailedElement
from tasks.bench.generate.wordings import content_words

_PLACES = frozenset({ElementType.SPATIAL, ElementType.LOCATION})
_WORDS: dict[frozenset[ElementType], str] = {
    frozenset({ElementType.COLOR}): (
        "color colour colored coloured hue shade tint red orange yellow green turquoise blue purple violet pink brown "
        "black white grey gray beige golden silver"
    ),
    frozenset({ElementType.COUNTING}): "many number count total most fewest more fewer less " + " ".join(
        str(number) for number in range(21)
    ),
    _PLACES: (
        "where place position location left right top bottom middle center centre above below under over behind front "
        "beside between near next inside outside"
    ),
    frozenset({ElementType.MATERIAL}): "material made wooden wood metal glass plastic stone",
    frozenset({ElementType.SHAPE}): "shape shaped form round square triangular",
    frozenset({ElementType.ACTIVITY}): "doing action activity happening",
    frozenset({ElementType.ATTRIBUTE}): "size sized small large big tall short long",
}  # fmt: skip
"""What the words of a question say it asks for."""
_EVERYTHING = content_words("things objects items everything all total")
"""Words that mean every thing of the image."""


def rests_on(question: str, right: str, failed: FailedElement) -> bool:
    """Whether a question, with its right option, asks about a failed element.

    It does when it has all words of the element; when it names a thing that is not shown; and when it names the thing
    of a failed attribute, unless its words ask for another attribute of it alone.
    """
    asked = content_words(question)
    if content_words(failed.element) <= asked:
        return True
    thing = content_words(failed.thing) - _words_for(failed.type)
    if not ((thing and thing <= asked | content_words(right)) or asked & _EVERYTHING):
        return False
    if failed.type in THINGS or failed.type is ElementType.OTHER:
        return True
    said = content_words(failed.expected)
    types = {type_ for types, words in _WORDS.items() if asked & content_words(words) for type_ in types}
    return not types or failed.type in types or (bool(said) and said <= asked)


def _words_for(wanted: ElementType) -> frozenset[str]:
    return frozenset().union(*(content_words(words) for types, words in _WORDS.items() if wanted in types))
