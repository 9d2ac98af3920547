"""Calls and cost of making a benchmark, before anything is sent."""

from collections.abc import Callable, Mapping

from schemas.benches.generated import Capability, Level
from schemas.policy import GeneratedRule
from schemas.run import Estimate, Prices
from schemas.settings import GenerateSettings
from tasks.generated_bench.aspects import ASPECT_ROUNDS
from tasks.generated_bench.descriptions import DESCRIPTION_ATTEMPTS
from tasks.generated_bench.making import TOLD
from tasks.generated_bench.questions import QUESTION_ATTEMPTS
from tasks.providers import Providers

ANSWER_TOKENS_MAX = 4096
"""Longest answer of a language model (`tasks/providers/production/language_model.py`; a test holds them equal)."""
IMAGE_SIDE = 1024
"""Side in pixels of the images that are expected."""
PROMPT_TOKENS, ANSWER_TOKENS = 300, 120
"""Expected lengths of a prompt file and of an answer; descriptions are counted with all the words of their level."""

Count = Callable[[str], int]


def estimate_making(
    wanted: GenerateSettings, capability: Capability, levels: Mapping[str, Level], rule: GeneratedRule,
    providers: Providers, prices: Prices, count: Count,
) -> list[Estimate]:  # fmt: skip
    """One row for each capability with a paid provider: expected calls, and the most they can cost.

    Expected: every first attempt succeeds. Most: every description, image and question is asked for as often as it may.
    """
    cells = wanted.general * wanted.fine * wanted.per_aspect
    each_level = [levels[name] for name in wanted.levels]
    descriptions, checks = cells * len(each_level), cells * sum(level.checks for level in each_level)
    words = cells * sum(level.words_max for level in each_level)
    about = count(capability.model_dump_json()) + PROMPT_TOKENS
    images, images_most = descriptions, descriptions * (1 + rule.redraws_max)
    found = []
    for name in sorted(providers.paid(("author", "pictures", "viewer"))):
        service = str(providers[name].service)
        if name == "pictures":
            found.append(_images(service, images, images_most, prices, count(TOLD)))
        elif name == "author":
            calls = 1 + 4 * descriptions
            most = ASPECT_ROUNDS + (2 * DESCRIPTION_ATTEMPTS + 2 * QUESTION_ATTEMPTS) * descriptions
            found.append(_texts(service, name, descriptions, (calls, most), calls * about + 3 * words, 0, prices))
        else:
            calls, most = checks, checks * (1 + rule.redraws_max)
            found.append(_texts(service, name, images, (calls, most), calls * PROMPT_TOKENS, calls, prices))
    return found


def _texts(
    service: str, name: str, items: int, calls: tuple[int, int], tokens: int, images: int, prices: Prices
) -> Estimate:
    price = prices.tokens(service)
    expected, most = calls
    shown = images * price.image_tokens(IMAGE_SIDE, IMAGE_SIDE) if price else 0
    output, input_tokens = expected * ANSWER_TOKENS, tokens + shown
    return Estimate(
        service=service, mode="one by one", signals=name, items=items, calls=expected, input_tokens=input_tokens,
        output_tokens=output, usd=price.usd(input_tokens, output) if price else None,
        usd_most=price.usd(input_tokens * most / expected, most * ANSWER_TOKENS_MAX) if price else None,
    )  # fmt: skip


def _images(service: str, images: int, most: int, prices: Prices, tokens: int) -> Estimate:
    usd = prices.unit_usd(service)
    return Estimate(
        service=service, mode="one by one", signals="pictures", items=images, calls=images, units=images,
        input_tokens=images * tokens, usd=None if usd is None else usd * images,
        usd_most=None if usd is None else usd * most,
    )  # fmt: skip
