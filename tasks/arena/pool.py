"""Choice of the models that are asked: the pool of those that answer now, and the two that are drawn for a battle.

A model that fails again and again leaves the pool for a while, and comes back; one that the operator pauses stays out.
Pairs are drawn by rules that are told with each draw, so that the log shows why models met.
"""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from schemas.asked_model import ArenaModel
from schemas.errors import BadInput
from schemas.upkeep import ArenaSteering
from tasks.leaderboard.battle_files import read_table

DrawnModels = tuple[ArenaModel, ArenaModel]
VotesOfPairs = Mapping[frozenset[str], int]
"""Names of two models -> votes."""
FAILURES_UNTIL_DOWN = 3
"""Answers that must fail in a row."""
PLANNED_FRACTION = 0.5
"""Share of the battles that a plan draws; the others keep all models in view."""
NEW_VOTES = 100
"""Votes under which a model is new, as on boards, which flag it `few_battles`."""
EXPOSURE_FACTOR_MAX = 4.0
"""Most that equal exposure changes a weight by: up to so many times, or down to one part in so many."""
FIRST_SECONDS, LONGEST_SECONDS = 30.0, 900.0
"""How long a model stays out: at first, and after it has failed again and again."""


@dataclass(frozen=True)
class Sampling:
    """Rules of the draw beside the models' weights."""

    narrow: bool = False
    """Whether pairs whose next vote narrows the intervals most are drawn more often."""
    boost: float = 1.0
    """Factor of the weight of a new model."""
    equal: bool = False
    """Whether models with fewer votes than the mean are drawn more often, and those with more less often."""
    plan: VotesOfPairs = field(default_factory=dict)
    """Votes that the board needs on pairs; none without a plan."""

    @property
    def by_votes(self) -> bool:
        """Whether a rule asks for the votes so far."""
        return self.narrow or self.equal or self.boost != 1


class DrawnPair(NamedTuple):
    """Two models in the order of the page, and how they were drawn."""

    pair: DrawnModels
    told: dict[str, Any]
    """For the log: `rules`, the `chance` of the pair, and of each model its `weights` and its `shares` of battles."""


class DrawnInstead(NamedTuple):
    """A model in place of one that failed, and how it was drawn."""

    model: ArenaModel
    told: dict[str, Any]
    """The same as of a pair; `shares` are those of the drawn model alone, and `in_place_of` names those that failed."""


class Pool:
    """The models of an arena. Thread-safe."""

    def __init__(self, models: Sequence[ArenaModel], clock: Callable[[], float] = time.monotonic) -> None:
        self._of_file = list(models)
        self._clock = clock
        self._failed: dict[str, int] = {}
        self._back_at: dict[str, float] = {}
        self._lock = threading.Lock()
        self.failures = Counter[str]()
        """Failed answers since the start."""
        self.sampling = Sampling()
        self.steered: Callable[[], ArenaSteering] = ArenaSteering
        """The changes of the operator."""

    @property
    def models(self) -> list[ArenaModel]:
        """The models of the models file and those of the operator, which take the place of others of their name."""
        added = {model.name: model for model in self.steered().models}
        return [added.pop(model.name, model) for model in self._of_file] + list(added.values())

    def models_without(self, name: str) -> list[ArenaModel]:
        """The models of now when the operator's model of this name goes."""
        of_file = {model.name: model for model in self._of_file}
        kept = [model for model in self.models if model.name != name]
        return [*kept, of_file[name]] if name in of_file else kept

    def available(self) -> list[ArenaModel]:
        """The models that may be asked now; one that was out is tried again when its time is over."""
        paused = self.steered().paused
        return [model for model in self.models if model.name not in paused and not self.down_seconds(model.name)]

    def reads_images(self, *, in_battles: bool) -> bool:
        """Whether a new conversation may have images: two models that are drawn, or one to choose, read them.

        A model that failed counts, as it comes back; one that the operator pauses does not.
        """
        steering = self.steered()
        readers = [model for model in self.models if model.vision and model.name not in steering.paused]
        if in_battles:
            return sum(steering.weights.get(model.name, model.weight) > 0 for model in readers) > 1
        return any(not model.anonymous_only for model in readers)

    def down_seconds(self, name: str) -> float:
        """How long a model that failed stays out; 0 for one that is in."""
        with self._lock:
            now = self._clock()
            return max(0.0, self._back_at.get(name, now) - now)

    def sampling_in_words(self) -> str:
        """The rules of the draw, in words of the settings."""
        return ", ".join(_rules(self.sampling, planned=bool(self.sampling.plan)))

    def draw(self, with_image: bool, cast: Iterable[Sequence[Any]], rng: Random) -> DrawnPair | None:
        """Two models for a prompt; None when too few answer. `cast`: the votes so far, each with its models first."""
        drawn = draw_pair(for_prompt(self._weighted(), with_image), rng, self._votes(cast), self.sampling)
        if drawn is None:
            return None
        models = {model.name: model for model in self.models}
        return drawn._replace(pair=(models[drawn.pair[0].name], models[drawn.pair[1].name]))

    def draw_beside(
        self, kept: str, failed: Collection[str], with_image: bool, cast: Iterable[Sequence[Any]], rng: Random
    ) -> DrawnInstead | None:
        """A model that answers in place of those that `failed`, beside one that is `kept`; None when there is none.

        The rules are those of a pair, among the pairs that have the kept model, also where that one is drawn no more.
        """
        others = [model for model in self._weighted() if model.name not in {kept, *failed}]
        if not others:
            return None
        kept_model = next((model for model in self.models if model.name == kept), others[0])
        # it counts in every pair, so its own weight plays no part; a name that is served no more stands for itself
        beside = kept_model.model_copy(update={"name": kept, "weight": 1.0})
        # the models that may be drawn for this prompt
        fitting = [model for model in for_prompt([*others, beside], with_image) if model.name != kept]
        drawn = draw_pair([*fitting, beside], rng, self._votes(cast), self.sampling, kept)
        if drawn is None:
            return None
        (name,) = {model.name for model in drawn.pair} - {kept}
        # other model -> its share of the draw
        shares = {other: share for other, share in drawn.told["shares"].items() if other != kept}
        sampling = drawn.told | {"shares": shares, "in_place_of": list(failed)}
        return DrawnInstead(next(model for model in self.models if model.name == name), sampling)

    def _weighted(self) -> list[ArenaModel]:
        """The models that may be asked now, with the weights of the operator."""
        weights = {model.name: model.weight for model in self.models} | self.steered().weights
        return [model.model_copy(update={"weight": weights[model.name]}) for model in self.available()]

    def _votes(self, cast: Iterable[Sequence[Any]]) -> Counter[frozenset[str]]:
        """Votes on each pair so far; none where no rule asks for them."""
        return Counter(frozenset(vote[:2]) for vote in cast) if self.sampling.by_votes else Counter()

    def answered(self, name: str) -> None:
        """Note an answer."""
        with self._lock:
            self._failed.pop(name, None)
            self._back_at.pop(name, None)

    def failed(self, name: str) -> None:
        """Note a failure; each one beyond the third in a row doubles the time out."""
        with self._lock:
            self.failures[name] += 1
            count = self._failed[name] = self._failed.get(name, 0) + 1
            if count >= FAILURES_UNTIL_DOWN:
                seconds = FIRST_SECONDS * 2.0 ** min(count - FAILURES_UNTIL_DOWN, 10)
                self._back_at[name] = self._clock() + min(seconds, LONGEST_SECONDS)


def for_prompt(models: Sequence[ArenaModel], with_image: bool) -> list[ArenaModel]:
    """Vision models for a prompt with an image; text models for others, or all where there are fewer than two."""
    drawn = [model for model in models if model.weight > 0]
    if with_image:
        return [model for model in drawn if model.vision]
    texts = [model for model in drawn if not model.vision]
    return texts if len(texts) > 1 else drawn


def read_plan(file: Path, models: Sequence[ArenaModel]) -> VotesOfPairs:
    """Planned votes on pairs of these models, summed over the rows of `curate rate --table plan --json`.

    Rows without models or votes count nothing, nor do those that are `too_close` for votes to tell. Raises BadInput for
    a file that is no such plan, or that plans nothing for these models.
    """
    rows = read_table(file, {"model", "rival", "votes", "flags"})
    if not {"model", "rival", "votes", "flags"} <= {*rows.columns} or rows.is_empty():
        raise BadInput(f"plan {str(file)!r} is not what `curate rate … --table plan --json` prints; write it anew")
    plan = Counter[frozenset[str]]()
    for row in rows.drop_nulls(["model", "rival", "votes"]).iter_rows(named=True):
        if "too_close" not in row["flags"]:
            plan[frozenset((row["model"], row["rival"]))] += int(row["votes"])
    served_pairs = {frozenset((a.name, b.name)) for a, b in combinations(models, 2)}
    votes_of_pairs = {pair: votes for pair, votes in plan.items() if votes > 0 and pair in served_pairs}
    if not votes_of_pairs:
        raise BadInput(f"plan {str(file)!r} asks for no vote on two of {', '.join(model.name for model in models)}")
    return votes_of_pairs


def draw_pair(
    models: Sequence[ArenaModel],
    rng: Random,
    votes: Mapping[frozenset[str], int] = {},
    sampling: Sampling = Sampling(),
    kept: str = "",
) -> DrawnPair | None:
    """Two different models in random order; None when there are fewer than two. `votes`: of each pair so far.

    `kept`: the model that one of them must be.

    A pair's chance is the product of its models' weights, as `weights_of` gives them. With `narrow` it is also in
    proportion to what one more vote takes off the standard error of the pair's win rate, which goes with
    1 / sqrt(votes) (Chatbot Arena, arXiv 2403.04132, eq. 9, with equal variances and one vote more for each pair).
    With a plan, half of the pairs are drawn by the product of their weights and the votes planned on them.
    """
    pairs = [pair for pair in combinations([model.name for model in models], 2) if not kept or kept in pair]
    if not pairs:
        return None
    weights = weights_of(models, votes, sampling)
    so_far = [votes.get(frozenset(pair), 0) for pair in pairs]
    # what one more vote on each pair takes off its standard error
    gains = [math.sqrt(1 / (n + 1)) - math.sqrt(1 / (n + 2)) if sampling.narrow else 1.0 for n in so_far]
    # the share of each pair, in the order of `pairs`: without the plan, and by the plan alone
    chances = _scaled([weights[a] * weights[b] * gain for (a, b), gain in zip(pairs, gains, strict=True)])
    planned_chances = _scaled([weights[a] * weights[b] * sampling.plan.get(frozenset((a, b)), 0) for a, b in pairs])
    if any(planned_chances):
        both = zip(chances, planned_chances, strict=True)
        chances = [(1 - PLANNED_FRACTION) * free + PLANNED_FRACTION * planned for free, planned in both]
    (number,) = rng.choices(range(len(pairs)), chances)
    shares = Counter[str]()
    for pair, chance in zip(pairs, chances, strict=True):
        shares.update(dict.fromkeys(pair, chance))
    sampled = {
        "rules": _rules(sampling, planned=any(planned_chances)),
        "chance": round(chances[number], 6),
        "weights": {name: round(weight, 4) for name, weight in weights.items()},
        "shares": {name: round(shares[name], 6) for name in weights},
    }
    by_name = {model.name: model for model in models}
    first, second = (by_name[name] for name in pairs[number])
    return DrawnPair((first, second) if rng.random() < 0.5 else (second, first), sampled)


def weights_of(
    models: Sequence[ArenaModel], votes: Mapping[frozenset[str], int], sampling: Sampling
) -> dict[str, float]:  # fmt: skip
    """Name -> weight under the rules about single models.

    A model with fewer than `NEW_VOTES` votes has its weight times the boost. Equal exposure multiplies each weight by
    (mean votes + 1) / (own votes + 1), within a factor of four, so that a model that comes late is not in every battle.
    """
    weights = {model.name: model.weight for model in models}
    if sampling.boost == 1 and not sampling.equal:
        return weights
    votes_of_model = Counter[str]()
    for pair, number in votes.items():
        votes_of_model.update(dict.fromkeys(pair, number))
    mean = sum(votes_of_model[name] for name in weights) / len(weights)
    for name in weights:
        if votes_of_model[name] < NEW_VOTES:
            weights[name] *= sampling.boost
        if sampling.equal:
            factor = (mean + 1) / (votes_of_model[name] + 1)
            weights[name] *= min(max(factor, 1 / EXPOSURE_FACTOR_MAX), EXPOSURE_FACTOR_MAX)
    return weights


def _rules(sampling: Sampling, *, planned: bool) -> list[str]:
    """The rules in force, in words of the settings."""
    rules = {
        f"boost={sampling.boost:g}": sampling.boost != 1,
        "equal": sampling.equal,
        "narrow": sampling.narrow,
        "plan": planned,
    }
    return ["weights", *(rule for rule, holds in rules.items() if holds)]


def _scaled(weights: Sequence[float]) -> list[float]:
    """Weights that sum to 1; zeros stay zeros."""
    whole = sum(weights)
    return [weight / whole for weight in weights] if whole else list(weights)
