"""Calls and cost of making a benchmark, before anything is sent."""

from collections.abc import Mapping, Sequence

from schemas.asked_model import ANSWER_TOKENS_MAX
from schemas.benches.generated import Capability, Level
from schemas.policy import GeneratedRule
from schemas.run import Estimate, Prices
from schemas.settings import GenerateSettings
from tasks.generated_bench.aspects import ASPECT_ROUNDS
from tasks.generated_bench.descriptions import DESCRIPTION_ATTEMPTS
from tasks.generated_bench.making import TOLD
from tasks.generated_bench.questions import QUESTION_ATTEMPTS
from tasks.providers import Providers
from tasks.providers.cost import Count, ExpectedUse, Size, estimate_row

_SHOWN = (1024, 1024)
"""Size in pixels of the images that are expected."""
PROMPT_TOKENS, ANSWER_TOKENS = 300, 120
"""Expected lengths of a prompt file and of an answer; descriptions are counted with all the words of their level."""


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
    redraws, written, asked_most = 1 + rule.redraws_max, 1 + 4 * descriptions, ASPECT_ROUNDS
    asked_most += 2 * (DESCRIPTION_ATTEMPTS + QUESTION_ATTEMPTS) * descriptions
    expected = {
        "author": (descriptions, _answers(written, written * about + 3 * words), asked_most / written),
        "pictures": (descriptions, ExpectedUse(descriptions, descriptions, descriptions * count(TOLD)), redraws),
        "viewer": (descriptions, _answers(checks, checks * PROMPT_TOKENS, [_SHOWN] * checks), redraws),
    }
    return [
        estimate_row(str(providers[name].service), name, items, use, prices, most=most)
        for name in sorted(providers.paid(expected))
        for items, use, most in [expected[name]]
    ]


def _answers(calls: int, input_tokens: int, images: Sequence[Size] = ()) -> ExpectedUse:
    return ExpectedUse(calls, 0, input_tokens, images, calls * ANSWER_TOKENS, calls * ANSWER_TOKENS_MAX)
