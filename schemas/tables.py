"""Every table of a store: its row type and the columns its rows are sorted by."""

from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from schemas.agreement import JudgeVote
from schemas.battle import Battle
from schemas.bench import (
    BenchAgreement,
    BenchFilter,
    BenchItem,
    BenchMeasure,
    Failure,
    FailureLabel,
    FailureRate,
    HiddenChange,
    HiddenItem,
)
from schemas.conversation import Conversation, LogFileRead, RedactedConversation, Sighting
from schemas.decision import Decision, NearPrompt, RuleParity
from schemas.generated import (
    Alignment,
    Drawing,
    GeneratedAspect,
    GeneratedBench,
    GeneratedDescription,
    GeneratedFate,
    GeneratedImage,
    GeneratedItem,
    GeneratedQuestion,
)
from schemas.generated_results import AuditAnswer
from schemas.image import Image, ImageFile, NearImage, Preset, RedactedImage, SearchedImage, SemanticImage
from schemas.installed_signals import installed_signals
from schemas.judge_release import JudgeAgreement, JudgeCard, ScreenedText
from schemas.judging import Answer, JudgeRating, Verdict
from schemas.rating import (
    EloRating,
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
from schemas.reject import Quarantined, Reject
from schemas.review import Review
from schemas.row import Row
from schemas.signals import (
    Code,
    Embedding,
    Faces,
    ImageHash,
    ImageLayout,
    ImageText,
    Language,
    Markdown,
    MeasuredOn,
    ModelNames,
    Moderation,
    NamedEntities,
    Nsfw,
    Objects,
    Refusal,
    ServiceText,
    SignalEntry,
    SignalKey,
    TextPii,
    Tokens,
    UpstreamWords,
)
from schemas.tags import Categories, Criteria, Taxonomy
from schemas.takedown import Tombstone
from schemas.topic import FittedDocument, TopicChange, TopicMember, TopicMerge, TopicName
from schemas.written import Caption, Reference, WrittenItem


class Table(NamedTuple):
    """A table: row type, sort columns, compression."""

    row: type[BaseModel]
    sort: tuple[str, ...]
    compression: str = "zstd"
    """Parquet codec; lz4 for tables that are written once and read once."""


TABLES: dict[str, Table] = {
    "log_files": Table(LogFileRead, ("source",)),
    "sightings": Table(Sighting, ("source", "line", "side"), "lz4"),
    "conversations": Table(Conversation, ("tstamp", "conversation_id")),
    "battles": Table(Battle, ("tstamp", "battle_id")),
    "images": Table(Image, ("image_id",)),
    "image_files": Table(ImageFile, ("name",)),
    "presets": Table(Preset, ("path",)),
    "near_images": Table(NearImage, ("image_a", "image_b")),
    "searched_images": Table(SearchedImage, ("image_id",)),
    "semantic_images": Table(SemanticImage, ("image_a", "image_b")),
    "searched_vectors": Table(SearchedImage, ("image_id",)),
    "rejects": Table(Reject, ("source", "line", "reason")),
    "quarantine": Table(Quarantined, ("kind", "key", "cause")),
    "redacted_images": Table(RedactedImage, ("image_id", "source_image_id")),
    "redacted_conversations": Table(RedactedConversation, ("tstamp", "conversation_id")),
    "takedowns": Table(Tombstone, ("key",)),
    "reviews": Table(Review, ("conversation_id", "content_id", "reasons")),
    "decisions": Table(Decision, ("item_kind", "item_id")),
    "near_prompts": Table(NearPrompt, ("conversation_a",)),
    "rule_parity": Table(RuleParity, ("item_kind", "reason")),
    "topics": Table(TopicMember, ("document_id",)),
    "topic_model": Table(FittedDocument, ("model", "document_id")),
    "topic_names": Table(TopicName, ("evidence",)),
    "topic_tree": Table(TopicMerge, ("node",)),
    "topic_changes": Table(TopicChange, ("old_topic", "new_topic")),
    "bench": Table(BenchItem, ("document_id",)),
    "bench_funnel": Table(BenchFilter, ("step",)),
    "bench_measures": Table(BenchMeasure, ("measure",)),
    "bench_agreement": Table(BenchAgreement, ("reference", "metric", "sample")),
    "bench_items": Table(WrittenItem, ("bench", "item_id")),
    "captions": Table(Caption, ("item_id", "place", "written_at")),
    "references": Table(Reference, ("item_id", "written_at")),
    "hidden": Table(HiddenItem, ("document_id",)),
    "hidden_changes": Table(HiddenChange, ("document_id",)),
    "failures": Table(Failure, ("document_id",)),
    "failure_rates": Table(FailureRate, ("failure_type", "model")),
    "generated_benches": Table(GeneratedBench, ("bench",)),
    "generated_aspects": Table(GeneratedAspect, ("bench", "aspect")),
    "generated_descriptions": Table(GeneratedDescription, ("bench", "aspect", "level", "number")),
    "drawings": Table(Drawing, ("description_id", "attempt")),
    "generated_images": Table(GeneratedImage, ("description_id", "attempt")),
    "alignments": Table(Alignment, ("description_id", "attempt", "version")),
    "generated_questions": Table(GeneratedQuestion, ("description_id", "attempt")),
    "generated_fates": Table(GeneratedFate, ("bench", "description_id")),
    "generated_items": Table(GeneratedItem, ("bench", "number")),
    "audit_answers": Table(AuditAnswer, ("item_id", "model", "mode", "version")),
    "answers": Table(Answer, ("question_id", "model", "version")),
    "verdicts": Table(Verdict, ("question_id", "model_a", "model_b", "judge_version")),
    "judge_votes": Table(JudgeVote, ("battle_id", "judge_version", "shown")),
    "judge_ratings": Table(JudgeRating, ("slice", "rank", "model")),
    "judge_agreement": Table(JudgeAgreement, ("judge_version",)),
    "judge_cards": Table(JudgeCard, ("question_id", "model_a", "model_b")),
    "screened_texts": Table(ScreenedText, ("question_id", "item_id")),
    "ratings": Table(Rating, ("slice", "rank", "model")),
    "style_coefficients": Table(StyleCoefficient, ("slice", "covariate")),
    "rank_changes": Table(RankChange, ("slice", "rank_style", "model")),
    "pair_records": Table(PairRecord, ("slice", "model", "opponent")),
    "win_rates": Table(WinRate, ("model",)),
    "vote_shares": Table(VoteShare, ("slice",)),
    "vote_statistics": Table(VoteStatistics, ("slice",)),
    "length_differences": Table(LengthDifference, ("slice", "low")),
    "elo_ratings": Table(EloRating, ("order", "model")),
    "outlier_judges": Table(OutlierJudge, ("judge",)),
}

_IMAGES, _MESSAGES, _ANSWERS, _PROMPT, _DOCUMENTS, _FAILURES, _ITEM_IMAGES = MeasuredOn

SIGNAL_ENTRIES: dict[str, SignalEntry] = {
    "nsfw": SignalEntry(Nsfw, _IMAGES),
    "faces": SignalEntry(Faces, _IMAGES),
    "image_hash": SignalEntry(ImageHash, _IMAGES),
    "image_layout": SignalEntry(ImageLayout, _IMAGES),
    "image_text": SignalEntry(ImageText, _IMAGES),
    "image_embedding": SignalEntry(Embedding, _IMAGES),
    "image_moderation": SignalEntry(Moderation, _IMAGES),
    "text_pii": SignalEntry(TextPii, _MESSAGES),
    "moderation": SignalEntry(Moderation, _MESSAGES),
    "service_text": SignalEntry(ServiceText, _MESSAGES),
    "model_names": SignalEntry(ModelNames, _ANSWERS),
    "upstream_words": SignalEntry(UpstreamWords, _MESSAGES),
    "language": SignalEntry(Language, _PROMPT),
    "text_embedding": SignalEntry(Embedding, _PROMPT),
    "objects": SignalEntry(Objects, _ITEM_IMAGES, screens=False),
    "tokens": SignalEntry(Tokens, _MESSAGES, screens=False),
    "markdown": SignalEntry(Markdown, _ANSWERS, screens=False),
    "named_entities": SignalEntry(NamedEntities, _ANSWERS, screens=False),
    "code": SignalEntry(Code, _MESSAGES, screens=False),
    "refusal": SignalEntry(Refusal, _ANSWERS, screens=False),
    "categories": SignalEntry(Categories, _DOCUMENTS, screens=False),
    "criteria": SignalEntry(Criteria, _DOCUMENTS, screens=False),
    "taxonomy": SignalEntry(Taxonomy, _DOCUMENTS, screens=False),
    "failure_types": SignalEntry(FailureLabel, _FAILURES, screens=False),
}
"""Every signal: value type, what it is measured on and when. Signals of other installed packages are added below."""
SIGNAL_ENTRIES |= installed_signals(SIGNAL_ENTRIES)

SIGNALS: dict[str, type[Row]] = {name: entry.value for name, entry in SIGNAL_ENTRIES.items()}
"""Signal -> its value type."""


def _stored(name: str, value: type[BaseModel]) -> type[BaseModel]:
    """`SignalKey` and the columns of `value` as one row type.

    It is created without source code, so pydantic must not search for attribute docstrings.
    """
    own = {"__doc__": value.__doc__, "model_config": ConfigDict(use_attribute_docstrings=False)}
    return type(f"Stored{name.title().replace('_', '')}", (value, SignalKey), own)


TABLES |= {f"signals/{name}": Table(_stored(name, value), ("content_id", "version")) for name, value in SIGNALS.items()}
