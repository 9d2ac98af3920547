"""How many planted problems a store caught, for the demo's own arena and for any other with an `expected.jsonl`.

A new kind is a line here, with what a good pipeline does and the check that tells.
"""

from itertools import chain
from pathlib import Path

from schemas.errors import BadInput, known_values
from schemas.planted import PlantedScore
from tasks.demo import checks, group_checks
from tasks.demo.evidence import Evidence, Fact, read_facts
from tasks.demo.judging import Expectation, each, falls, kept
from tasks.tables import Store

LOGS = "logs"
"""Where the raw logs lie, beside the file of planted facts."""

_DUPLICATES = "of each group one is released"
_REFUSED = "the picture is rejected and the conversation with it"

EXPECTATIONS: dict[str, Expectation] = {
    "face": Expectation("not released", falls("face")),
    "nsfw_probe": Expectation("not released", falls("nsfw_image")),
    "pii_text": Expectation("not released", falls("pii_text")),
    "pii_image": Expectation("not released", falls("pii_image")),
    "not_pii_text": Expectation("released", each(kept)),
    "leaked_identity": Expectation("not released", falls("leaked_identity")),
    "not_leaked_identity": Expectation("released", each(kept)),
    "service_error": Expectation("not released", falls("service_error")),
    "unfinished": Expectation("not released", falls("unfinished")),
    "empty_answer": Expectation("not released", falls("empty_message", "no_answer")),
    "user_flag": Expectation("not released", falls("flagged_by_user")),
    "hostile_text": Expectation("released unchanged", each(checks.hostile_text_survives)),
    "exact_duplicate": Expectation(_DUPLICATES, group_checks.one_of_each_group),
    "near_duplicate_picture": Expectation("paired with its original", group_checks.versions_recognised),
    "not_near_duplicate": Expectation("released, and not taken for another", group_checks.look_alikes_survive),
    "hot_prompt": Expectation("every use is found", each(checks.hot_prompt_found)),
    "preset": Expectation("known as a preset", each(checks.preset_known)),
    "exif_gps": Expectation("stored without EXIF", each(checks.without_metadata)),
    "image_corrupt": Expectation(_REFUSED, each(checks.picture_refused)),
    "image_missing": Expectation(_REFUSED, each(checks.picture_refused)),
    "image_bomb": Expectation(_REFUSED, each(checks.picture_refused)),
    "image_animated": Expectation(_REFUSED, each(checks.picture_refused)),
    "animated_picture": Expectation(_REFUSED, each(checks.picture_refused)),
    "image_path_escape": Expectation(_REFUSED, each(checks.picture_refused)),
    "csam_flag": Expectation("held back, never opened", each(checks.never_opened)),
    "bad_line": Expectation("rejected with file and line", each(checks.line_rejected)),
    "named_battle": Expectation("known as named, not released", checks.battle_is(anonymous=False)),
    "anonymous_revealed": Expectation("known as anonymous", checks.battle_is(anonymous=True)),
    "same_model_both_sides": Expectation("not released", falls("same_model")),
    "unequal_sides": Expectation("not released", falls("unequal_sides")),
    "multi_turn_battle": Expectation("one vote with all turns", each(checks.turns_counted)),
    "vote_without_chat": Expectation("released", each(checks.vote_counts)),
    "regenerated": Expectation("the last answer counts", each(checks.last_answer_kept)),
    "image_reset_same_conv_id": Expectation("two conversations", each(checks.told_apart)),
    "crosses_midnight": Expectation("one conversation", each(checks.one_conversation)),
    "stringified_record": Expectation("read like any other", each(checks.one_conversation)),
    "few_shot_offset": Expectation("examples are left out", each(checks.one_conversation)),
    "text_only": Expectation("read, without picture", each(checks.without_picture)),
    "model_strengths": Expectation("no two models are rated the wrong way round", group_checks.order_recovered),
}
"""Kind -> what should become of it."""


def score_planted(expected: Path, store: Store) -> list[PlantedScore]:
    """One score for each kind that `expected` holds, in the order of `EXPECTATIONS`.

    Lines planted without a number are found by their hash in the `logs` folder beside `expected`.
    Raises BadInput for a kind that is not known here.
    """
    by_kind = read_facts(expected)
    for kind in by_kind:
        if kind not in EXPECTATIONS:
            raise BadInput(f"{str(expected)!r}: unknown kind {known_values(kind, EXPECTATIONS)}")
    evidence = Evidence(store, chain.from_iterable(by_kind.values()), expected.parent / LOGS)
    return [_score(kind, evidence, by_kind) for kind in EXPECTATIONS if kind in by_kind]


def _score(kind: str, evidence: Evidence, by_kind: dict[str, list[Fact]]) -> PlantedScore:
    expectation = EXPECTATIONS[kind]
    planted, missed = expectation.judge(evidence, by_kind[kind])
    return PlantedScore(
        kind=kind,
        good_outcome=expectation.good_outcome,
        planted=planted,
        caught=planted - len(missed),
        missed=len(missed),
        missed_ids=missed,
    )
