"""Every table of a store: its row type, the columns its rows are sorted by, and what its id columns name."""

import re
from collections.abc import Collection
from importlib.metadata import EntryPoint, entry_points

from pydantic import BaseModel

from schemas.benches.agreement import JudgeVote
from schemas.benches.bench import (
    BenchAgreement,
    BenchDraw,
    BenchFilter,
    BenchItem,
    BenchMeasure,
    CaseReference,
    Failure,
    FailureMark,
    FailureRate,
    HiddenChange,
    HiddenItem,
)
from schemas.benches.certificate import ArenaMonth, BestOf, Exposure, ModelLife, Suspect, VoteCheck
from schemas.benches.generated import (
    Alignment,
    Drawing,
    GeneratedAspect,
    GeneratedBench,
    GeneratedDescription,
    GeneratedImage,
    GeneratedItem,
    GeneratedOutcome,
    GeneratedQuestion,
)
from schemas.benches.generated_results import AuditAnswer
from schemas.benches.judge_release import ITEM_BOARDS, JudgeAgreement, JudgeCard, ScreenedText
from schemas.benches.judging import Answer, JudgeRating, Verdict
from schemas.benches.known import BenchmarkImage, KnownMatch, KnownPicture, KnownQuestion, KnownSource
from schemas.benches.written import Caption, Reference, WrittenItem
from schemas.errors import BadInput
from schemas.items.conversation import Battle, Conversation, LogFileRead, Reaction, RedactedConversation, Sighting
from schemas.items.decision import Decision, NearPrompt, RuleParity
from schemas.items.image import Image, ImageFile, NearImage, Preset, RedactedImage, SearchedImage, SemanticImage
from schemas.items.reject import Quarantined, Reject, Tombstone
from schemas.items.review import Review
from schemas.items.topic import FittedDocument, KeptTopicName, TopicChange, TopicFit, TopicMember, TopicMerge
from schemas.rating import (
    EloRating,
    Fragility,
    LengthDifference,
    OutlierJudge,
    PairRecord,
    RankChange,
    Rating,
    StyleCoefficient,
    VoteShare,
    VoteStatistics,
    WinRate,
)
from schemas.row import Held, Row, Table, arrow_schema
from schemas.signals import BUILT_IN_SIGNALS, MeasuredOn, SignalEntry, SignalKey

SIGNAL_ENTRY_POINTS = "arena_curation.signals"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")


def installed_signals(names: Collection[str]) -> dict[str, SignalEntry]:
    """Name of each entry point -> its `SignalEntry`, with the package's name.

    Raises BadInput, naming the package, for an entry that does not load, is not valid, or has a name in `names`.
    """
    entries: dict[str, SignalEntry] = {}
    for point in sorted(entry_points(group=SIGNAL_ENTRY_POINTS), key=lambda entry_point: entry_point.name):
        package = point.dist.name if point.dist else point.value
        try:
            if point.name in names or point.name in entries:
                raise TypeError("its name is taken already")
            entries[point.name] = _entry(point)._replace(package=package)
        except Exception as error:  # whatever the package's code raises as it is imported
            raise BadInput(
                f"signal {point.name!r} of the installed package {package!r} cannot be used: {_in_words(error)}; "
                f"repair or uninstall {package!r} (docs/extending.md says what an entry must be)"
            ) from None
    return entries


def _entry(point: EntryPoint) -> SignalEntry:
    """The entry of an entry point. Raises TypeError when it is not valid, and whatever its import raises."""
    entry = point.load()
    if not _NAME.fullmatch(point.name):
        raise TypeError("a name is lower-case letters, digits and underscores, 41 at most")
    if not isinstance(entry, SignalEntry):
        raise TypeError(f"it leads to a {type(entry).__name__}, not to a schemas.signals.SignalEntry")
    if not (isinstance(entry.value, type) and issubclass(entry.value, Row)):
        raise TypeError("its value type is no schemas.row.Row")
    if taken := set(entry.value.model_fields) & set(SignalKey.model_fields):
        raise TypeError(f"its value has the column {min(taken)!r}, which every signal has")
    if entry.on not in set(MeasuredOn) - {MeasuredOn.DOCUMENTS, MeasuredOn.FAILURES, MeasuredOn.ITEM_IMAGES}:
        raise TypeError("it is measured on images, messages, assistant_messages or prompt")
    if not (entry.version and callable(entry.rule)):
        raise TypeError("it needs a version and a rule")
    arrow_schema(entry.value)
    return entry


def _in_words(error: Exception) -> str:
    return str(error) if type(error) is TypeError else f"it does not load ({type(error).__name__}: {error})"


_NO_IDS: dict[str, Held] = {}
"""For figures, and for what a benchmark's author wrote before there was an item."""
_IMAGE = {"image_id": Held.IMAGE}
_PAIR = {"image_a": Held.IMAGE, "image_b": Held.IMAGE}
_SIDES = {"conversation_a": Held.CONVERSATION, "conversation_b": Held.CONVERSATION}
_DOCUMENT = {"document_id": Held.CONTENT}
_SHOWN = {"document_id": Held.CONTENT, "image_ids": Held.IMAGE, "user_id": Held.USER}
_LATER = ("unread_parts",)

TABLES: dict[str, Table] = {
    "log_files": Table(LogFileRead, ("source",), _NO_IDS),
    "sightings": Table(
        Sighting,
        ("source", "line", "side"),
        {"conv_id": Held.LINE},
        {"user_id": Held.USER},
        compression="lz4",
        later=(*_LATER, "opinion"),
    ),
    "conversations": Table(
        Conversation, ("tstamp", "conversation_id"), {"conversation_id": Held.CONVERSATION}, _SHOWN, later=_LATER
    ),
    "battles": Table(Battle, ("tstamp", "battle_id"), _SIDES, {"battle_id": Held.CONVERSATION, "judge": Held.USER}),
    "reactions": Table(
        Reaction,
        ("tstamp", "conversation_id", "turn", "source", "line"),
        {"conversation_id": Held.CONVERSATION},
        {"opponent_id": Held.CONVERSATION, "user_id": Held.USER},
    ),
    "images": Table(Image, ("image_id",), _IMAGE),
    "image_files": Table(ImageFile, ("name",), {"name": Held.IMAGE_NAME, "image_id": Held.IMAGE}),
    "presets": Table(Preset, ("path",), _IMAGE),
    "near_images": Table(NearImage, ("image_a", "image_b"), _PAIR),
    "searched_images": Table(SearchedImage, ("image_id",), _IMAGE),
    "semantic_images": Table(SemanticImage, ("image_a", "image_b"), _PAIR),
    "searched_vectors": Table(SearchedImage, ("image_id",), _IMAGE),
    "known_sources": Table(KnownSource, ("benchmark",), _NO_IDS),
    "known_pictures": Table(KnownPicture, ("benchmark", "picture"), _NO_IDS),
    "known_questions": Table(KnownQuestion, ("benchmark", "question"), _NO_IDS),
    "known_images": Table(BenchmarkImage, ("image_id", "benchmark"), _IMAGE),
    "searched_known": Table(SearchedImage, ("image_id",), _IMAGE),
    "known_matches": Table(
        KnownMatch, ("conversation_id", "benchmark"), {"conversation_id": Held.CONVERSATION}, derived=True
    ),
    "rejects": Table(Reject, ("source", "line", "reason"), {"source": Held.PLACE}),
    "quarantine": Table(Quarantined, ("kind", "key", "cause"), {"key": Held.WITHHELD}),
    "redacted_images": Table(
        RedactedImage, ("image_id", "source_image_id"), {"image_id": Held.IMAGE, "source_image_id": Held.IMAGE}
    ),
    "redacted_conversations": Table(
        RedactedConversation,
        ("tstamp", "conversation_id"),
        {"conversation_id": Held.CONVERSATION},
        _SHOWN,
        later=_LATER,
    ),
    "takedowns": Table(Tombstone, ("key",), _NO_IDS),
    "reviews": Table(
        Review,
        ("conversation_id", "content_id", "reasons"),
        {"conversation_id": Held.CONVERSATION},
        {"content_id": Held.CONTENT, "item_id": Held.CONTENT},
        grown=True,
    ),
    "decisions": Table(Decision, ("item_kind", "item_id"), {"item_id": Held.CONVERSATION}, derived=True),
    "near_prompts": Table(NearPrompt, ("conversation_a",), _SIDES),
    "rule_parity": Table(RuleParity, ("item_kind", "reason"), _NO_IDS, derived=True),
    "topics": Table(TopicMember, ("document_id",), _DOCUMENT),
    "topic_model": Table(FittedDocument, ("model", "document_id"), _DOCUMENT),
    "topic_fits": Table(TopicFit, ("model",), _NO_IDS),
    "topic_names": Table(KeptTopicName, ("evidence",), {"document_ids": Held.CONTENT}, grown=True),
    "topic_tree": Table(TopicMerge, ("node",), _NO_IDS),
    "topic_changes": Table(TopicChange, ("old_topic", "new_topic"), _NO_IDS),
    "bench": Table(BenchItem, ("document_id",), {"conversation_id": Held.CONVERSATION}, {"document_id": Held.CONTENT}),
    "bench_draws": Table(BenchDraw, ("drawn_from",), _NO_IDS),
    "bench_funnel": Table(BenchFilter, ("step",), _NO_IDS, derived=True),
    "bench_measures": Table(BenchMeasure, ("measure",), _NO_IDS, derived=True),
    "bench_agreement": Table(BenchAgreement, ("reference", "metric", "sample"), _NO_IDS, derived=True),
    "bench_items": Table(WrittenItem, ("bench", "item_id"), {"item_id": Held.CONVERSATION}),
    "captions": Table(
        Caption, ("item_id", "place", "written_at"), {"item_id": Held.CONVERSATION}, {"document_id": Held.CONTENT}
    ),
    "generic_captions": Table(
        Caption, ("item_id", "place", "written_at"), {"item_id": Held.CONVERSATION}, {"document_id": Held.CONTENT}
    ),
    "references": Table(
        Reference, ("item_id", "written_at"), {"item_id": Held.CONVERSATION}, {"document_id": Held.CONTENT}
    ),
    "hidden": Table(HiddenItem, ("document_id",), _DOCUMENT),
    "hidden_changes": Table(HiddenChange, ("document_id",), _DOCUMENT),
    "failures": Table(
        Failure,
        ("document_id",),
        {"document_id": Held.CONTENT, "conversation_id": Held.CONVERSATION},
        derived=True,
        grown=True,
    ),
    "case_references": Table(
        CaseReference,
        ("document_id", "written_at"),
        {"conversation_id": Held.CONVERSATION},
        {"document_id": Held.CONTENT},
    ),
    "failure_marks": Table(
        FailureMark,
        ("document_id", "model"),
        {"document_id": Held.CONTENT, "conversation_id": Held.CONVERSATION},
        derived=True,
    ),
    "failure_rates": Table(FailureRate, ("failure_type", "model"), _NO_IDS, derived=True),
    "generated_benches": Table(GeneratedBench, ("bench",), _NO_IDS),
    "generated_aspects": Table(GeneratedAspect, ("bench", "aspect"), _NO_IDS),
    "generated_descriptions": Table(GeneratedDescription, ("bench", "aspect", "level", "number"), _NO_IDS),
    "drawings": Table(Drawing, ("description_id", "attempt"), _NO_IDS, {"name": Held.IMAGE_NAME}),
    "generated_images": Table(GeneratedImage, ("description_id", "attempt"), _IMAGE, {"name": Held.IMAGE_NAME}),
    "alignments": Table(Alignment, ("description_id", "attempt", "version"), _IMAGE),
    "generated_questions": Table(GeneratedQuestion, ("description_id", "attempt"), _IMAGE),
    "generated_outcomes": Table(GeneratedOutcome, ("bench", "description_id"), _NO_IDS),
    "generated_items": Table(
        GeneratedItem,
        ("bench", "number"),
        {"item_id": Held.CONVERSATION, "image_id": Held.IMAGE},
        {"name": Held.IMAGE_NAME},
    ),
    "audit_answers": Table(AuditAnswer, ("item_id", "model", "mode", "version"), {"item_id": Held.CONVERSATION}),
    "answers": Table(
        Answer,
        ("question_id", "model", "version"),
        _NO_IDS,
        {"question_id": Held.CONVERSATION, "document_id": Held.CONTENT},
    ),
    "verdicts": Table(
        Verdict,
        ("question_id", "model_a", "model_b", "judge_version"),
        _NO_IDS,
        {"question_id": Held.CONVERSATION, "document_id": Held.CONTENT},
    ),
    "judge_votes": Table(JudgeVote, ("battle_id", "judge_version", "shown"), _SIDES, {"battle_id": Held.CONVERSATION}),
    "judge_ratings": Table(JudgeRating, ("slice", "rank", "model"), _NO_IDS, derived=True),
    "judge_agreement": Table(JudgeAgreement, ("judge_version",), _NO_IDS, derived=True),
    "judge_cards": Table(
        JudgeCard, ("question_id", "model_a", "model_b"), _NO_IDS, {"question_id": Held.CONVERSATION}, derived=True
    ),
    **{name: Table(row, ("bench",), _NO_IDS, derived=True) for name, row in ITEM_BOARDS.items()},
    "screened_texts": Table(
        ScreenedText,
        ("question_id", "item_id"),
        _NO_IDS,
        {"question_id": Held.CONVERSATION, "item_id": Held.CONTENT},
        derived=True,
    ),
    "ratings": Table(Rating, ("slice", "rank", "model"), _NO_IDS, derived=True),
    "style_coefficients": Table(StyleCoefficient, ("slice", "covariate"), _NO_IDS, derived=True, later=("of",)),
    "rank_changes": Table(RankChange, ("slice", "rank_style", "model"), _NO_IDS, derived=True),
    "pair_records": Table(PairRecord, ("slice", "model", "opponent"), _NO_IDS, derived=True),
    "win_rates": Table(WinRate, ("model",), _NO_IDS, derived=True),
    "vote_shares": Table(VoteShare, ("slice",), _NO_IDS, derived=True),
    "vote_statistics": Table(VoteStatistics, ("slice",), _NO_IDS, derived=True),
    "length_differences": Table(LengthDifference, ("slice", "low"), _NO_IDS, derived=True),
    "elo_ratings": Table(EloRating, ("order", "model"), _NO_IDS, derived=True),
    "fragility": Table(
        Fragility, ("slice", "contest", "place", "change"), _NO_IDS, {"needed_ids": Held.CONVERSATION}, derived=True
    ),
    "outlier_judges": Table(OutlierJudge, ("judge",), {"judge": Held.USER}, derived=True),
    "exposure": Table(Exposure, ("by", "group"), _NO_IDS, derived=True),
    "model_lives": Table(ModelLife, ("model",), _NO_IDS, derived=True),
    "months": Table(ArenaMonth, ("month",), _NO_IDS, derived=True),
    "best_of": Table(BestOf, ("provider",), _NO_IDS, derived=True),
    "suspects": Table(Suspect, ("judge",), {"judge": Held.USER}, derived=True),
    "vote_checks": Table(VoteCheck, ("check",), _NO_IDS, derived=True),
}

SIGNAL_ENTRIES: dict[str, SignalEntry] = BUILT_IN_SIGNALS | installed_signals(BUILT_IN_SIGNALS)
"""Every signal: those of this repository, then those of other installed packages."""

SIGNALS: dict[str, type[Row]] = {name: entry.value for name, entry in SIGNAL_ENTRIES.items()}
"""Signal -> its value type."""


def _stored(name: str, value: type[BaseModel]) -> type[BaseModel]:
    """`SignalKey` and the columns of `value` as one row type."""
    return type(f"Stored{name.title().replace('_', '')}", (value, SignalKey), {"__doc__": value.__doc__})


_ABOUT = {"content_id": Held.CONTENT}
TABLES |= {
    f"signals/{name}": Table(_stored(name, value), ("content_id", "version"), _ABOUT, derived=True, grown=True)
    for name, value in SIGNALS.items()
}
