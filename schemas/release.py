"""The columns of a release and its manifest. Field docstrings become the dataset card's tables."""

from typing import Any

from schemas.embedded_figures import StatedFigure
from schemas.items.conversation import ShownImage
from schemas.row import Float32, Int32, Row


class EncodedImage(Row):
    """An image in the format of `datasets.Image`."""

    bytes: bytes
    """PNG or JPEG without metadata."""
    path: str
    """Content id of the image and its extension; not a file path."""


class Message(Row):
    """One message."""

    role: str
    """user or assistant."""
    content: str
    """The text."""
    images: list[ShownImage] = []
    """The images that the message shows, in order, and where they stand in the text."""


class ReleasedCategories(Row):
    """Categories of a prompt; null when the tagger could not decide."""

    captioning: bool | None
    """Asks to describe the image as a whole."""
    creative_writing: bool | None
    """Asks for a story, poem, song or other invented text; a caption alone is none."""
    diagram: bool | None
    """The image is a chart, diagram or figure."""
    entity_recognition: bool | None
    """Asks which particular object, person, place or species is shown."""
    hard: bool | None = None
    """Meets six or more of BenchBuilder's seven criteria, as a model that was asked says; null before layout 9."""
    homework: bool | None
    """An image shows a written exercise or exam question, whatever the prompt is."""
    humor: bool | None
    """Asks for or about something funny."""
    instruction_following: bool | None = None
    """States requirements that can be checked in the answer, such as its format or length; null before layout 12."""
    is_code: bool | None
    """A message contains or asks for program code."""
    longer_query: bool | None = None
    """The user's messages have 500 tokens or more (cl100k_base); null before layout 9."""
    multi_image: bool | None = None
    """The conversation shows more than one image; null before layout 9."""
    ocr: bool | None
    """Answering needs reading text in the image."""
    refusal: bool | None
    """An answer declines to answer, on either side of a battle."""


class ReleasedTaxonomy(Row):
    """Place of a prompt in WildVision's taxonomy; null where the tagger could not decide or did not run."""

    question_category: str | None
    """Kind of question, such as Analytical."""
    question_subcategory: str | None
    """Kind within the category, such as Data Analysis."""
    image_domain: str | None
    """Domain of the image, such as Expert; null without an image."""
    image_subdomain: str | None
    """Subdomain within the domain, such as Business."""


class ReleasedConversation(Row):
    """One row of the `chat` configuration: a conversation with one model."""

    images: list[EncodedImage]
    """The images of the conversation, in order of first use; empty for text-only conversations."""
    conversation_id: str
    """Id of the conversation."""
    model: str
    """The model that answered."""
    num_turns: Int32
    """Number of user messages."""
    conversation: list[Message]
    """All messages, in order."""
    language: str
    """English name of the prompt's language, or unknown."""
    user_id: str | None
    """Keyed hash: the same for all conversations of a user in this arena; not reversible without the key."""
    tstamp: float | None
    """Time of the last message, seconds since 1970 (UTC); null when unknown."""
    is_preset: bool
    """Whether the first image is one of the arena's own example images."""
    preset_dataset: str | None
    """Dataset of the example image; null for uploads."""
    categories: ReleasedCategories
    """Categories of the prompt."""
    topic: str | None
    """Name of the prompt's topic; null when it has none."""
    topic_id: Int32 | None
    """Number of the topic in this release, 0 for the largest when fitted; -1 for outliers, null when it has none."""


class SideMetadata(Row):
    """Length, Markdown and named entities of one side's answers."""

    assistant_tokens: int | None
    """Tokens of all answers (cl100k_base)."""
    headers: int | None
    """Markdown headers."""
    list_items: int | None
    """Markdown list items."""
    bold: int | None
    """Bold passages."""
    entities: int | None
    """Named entities, distinct in an answer and summed over answers; null where the language has no model."""


class BattleMetadata(Row):
    """Length, Markdown and named entities of both sides."""

    context_tokens: int | None
    """Tokens of all user messages (cl100k_base)."""
    a: SideMetadata
    """The left side."""
    b: SideMetadata
    """The right side."""


class ReleasedBattle(Row):
    """One row of the `battle` configuration: two anonymous models and a vote."""

    question_id: str
    """Conversation id of the left side."""
    model_a: str
    """Model on the left."""
    model_b: str
    """Model on the right."""
    winner: str
    """model_a, model_b, tie or tie (bothbad)."""
    vote_reason: str | None = None
    """Why the voter chose so, in the voter's words; null when nothing was written or a rule withholds it."""
    refused_by: str | None = None
    """Whose answers decline: model_a, model_b, both or neither; null when it was not measured on both sides."""
    judge: str | None
    """Keyed hash of the voter, with the same key as user_id."""
    conversation_a: list[Message]
    """Messages of the left side."""
    conversation_b: list[Message]
    """Messages of the right side."""
    num_turns: Int32
    """User messages on the left; the battle ends at its vote. Language, categories and topic are of the whole talk."""
    anony: bool
    """Whether the model names were hidden until the vote."""
    language: str
    """English name of the prompt's language, or unknown."""
    tstamp: float | None
    """Time of the vote, seconds since 1970 (UTC); null when unknown."""
    images: list[EncodedImage]
    """The images of the conversation, in order of first use."""
    conv_metadata: BattleMetadata
    """Length, Markdown and named entities of both sides."""
    categories: ReleasedCategories
    """Categories of the prompt."""
    taxonomy: ReleasedTaxonomy
    """Kind of question and domain of the image."""
    is_preset: bool
    """Whether the first image is one of the arena's own example images."""
    in_bench: bool
    """Whether the prompt is in this release's benchmark."""


class BenchPrompt(Row):
    """One row of the `bench` configuration: a single-turn prompt."""

    question_id: str
    """Id of the conversation the prompt comes from."""
    turns: list[Message]
    """The user message."""
    images: list[EncodedImage]
    """The images of the prompt."""
    topic: str | None
    """Name of the topic it was drawn from; null for an item that people wrote, if it is in none."""
    topic_id: Int32 | None
    """Number of that topic in this release, as in chat; null like the topic."""
    categories: ReleasedCategories
    """Categories of the prompt."""


class ReleasedFailure(Row):
    """One row of the `failures` configuration: a prompt that several people saw both models fail."""

    question_id: str
    """Conversation id of the left side of the first of these votes, as in battle."""
    turns: list[Message]
    """The user messages, without answers."""
    images: list[EncodedImage]
    """The images of the prompt."""
    failure_type: str | None
    """Why models fail it, such as visual_reasoning or hallucination; null when undecided."""
    reviewed: bool
    """Whether a person decided the type."""
    typed_by: str | None
    """Who decided it: reviewer, the name of a tagger, or rule (on the words and tags of the prompt)."""
    judges: Int32
    """People who voted that both answers are bad."""
    both_bad: Int32
    """Their votes."""
    models: list[str]
    """Models that failed."""
    categories: ReleasedCategories
    """Categories of the prompt."""


class MapPoint(Row):
    """One row of `topics/map.parquet`: the place of a released row on the topic map."""

    config: str
    """chat, battle, bench or failures."""
    id: str
    """conversation_id or question_id."""
    topic_id: Int32
    """Number of the prompt's topic in this release, as in chat; -1 for outliers."""
    x: Float32
    """Position on the two-dimensional map of prompts."""
    y: Float32
    """Position on the two-dimensional map of prompts."""


class ReleasedThinking(Row):
    """One row of `thinking/answers.parquet`: what a model thought aloud before an answer."""

    config: str
    """chat or battle."""
    id: str
    """conversation_id or question_id."""
    side: str | None
    """a or b; null in chat."""
    turn: Int32
    """Index of the answer among the messages, from 0."""
    thinking: str
    """What the model thought; no part of the answer."""


class ReleasedKnown(Row):
    """One row of `known_benchmarks/rows.parquet`: a released row that holds what is in a benchmark of others."""

    config: str
    """chat, battle or bench."""
    id: str
    """conversation_id or question_id."""
    benchmark: str
    """Name of the benchmark."""
    picture: bool
    """The row shows a picture of the benchmark; of a battle, either side."""
    question: bool
    """The row asks a question of the benchmark; of a battle, either side."""


class ReleasedItem(Row):
    """One row of `written/items.parquet`: a prompt of `bench` that people wrote, or that has captions."""

    question_id: str
    """The prompt, as in bench."""
    bench: str
    """The benchmark it belongs to; sampled for prompts that were drawn."""
    family: str
    """Its instruction family; empty for prompts that were drawn."""
    split: str
    """validation, or hidden: its captions and its reference are in no release."""
    licences: list[str]
    """Licence of each image, in order; empty where none is stated."""
    authors: list[str]
    """Author of each image, in order, as its licence asks to name; empty where none is stated."""
    origin: str
    """Where the item was taken from, as its writers say."""
    captions: list[str] | None
    """One for each image, in order, for a reader without them; null unless the item is of the validation split."""
    captions_by: str | None
    """people, or the models that wrote some of them, joined by commas; null without captions."""
    reference: str | None
    """The answer written from captions and instruction; null unless the item is of the validation split."""
    reference_by: str | None
    """people, or the model that wrote it; null without a reference."""
    objects: list[str]
    """Names of what an object detector found in its images, each once; empty if nothing, or without a detector."""


class ReleasedGenerated(Row):
    """One row of `generated/items.parquet`: a prompt of `bench` that was made on demand, with its key."""

    question_id: str
    """The prompt, as in bench."""
    bench: str
    """The benchmark it belongs to."""
    capability: str
    """The capability that it tests."""
    general: str
    """The general aspect."""
    aspect: str
    """The fine aspect."""
    level: str
    """Its difficulty."""
    kind: str
    """What it asks for, in one word, such as colour or relation."""
    question: str
    """The question, without its options."""
    options: list[str]
    """Its options in order; the first is A."""
    key: str
    """Letter of the right option."""
    description: str | None
    """What the image was to show; null when it holds personal data that the policy drops."""
    alignment: float
    """Share of the check questions that a viewer answered from the image as the description says."""
    failed_elements: list[str]
    """Elements of the description that the viewer did not find; no question is about them."""
    author: str
    """Provider that wrote descriptions and questions; embedded is a stand-in."""
    pictures: str
    """Provider that drew the images."""
    viewer: str
    """Provider that checked them."""


CONFIGS: dict[str, type[Row]] = {
    "chat": ReleasedConversation,
    "battle": ReleasedBattle,
    "bench": BenchPrompt,
    "failures": ReleasedFailure,
}
"""Configuration of the dataset -> its row."""
ROW_KEYS = {"chat": "conversation_id", "battle": "question_id", "bench": "question_id", "failures": "question_id"}
"""Configuration -> the column that names its rows."""


class ReleasedFile(Row):
    """One file of a release."""

    bytes: int
    """Size in bytes."""
    sha256: str
    """SHA-256 of the file."""


class SiteFiles(Row):
    """`explorer/files.json`: the pages that were published beside a release."""

    manifest_sha256: str
    """SHA-256 of the manifest of the release that they were made from."""
    files: dict[str, ReleasedFile]
    """Every other file of the explorer, by its path in the release's folder."""


class ReleasedColumn(Row):
    """One column of a released table."""

    name: str
    """Column name."""
    type: str
    """Arrow type."""


class Unmeasured(Row):
    """Items without a value of a signal, because its provider failed or the budget was used up."""

    provider: str
    """Provider that was chosen."""
    items: int
    """Kept prompts or documents."""
    unmeasured: int
    """Those without a value; the columns are null."""


class Manifest(Row):
    """Contents of a release and how it was made: enough to reproduce and to verify it."""

    version: str
    """Version of the release."""
    software: str
    """Version of the software that made it."""
    layout: int
    """Version of the Parquet layout: equal rows with the same layout give identical Parquet files."""
    embedded_providers: list[str]
    """Capabilities measured by an embedded stand-in for a production provider; published only if each is accepted."""
    embedded_recall: dict[str, str] = {}
    """Each of them -> what it was measured to find, in one line, as releases before `embedded_figures` say it."""
    embedded_figures: dict[str, list[StatedFigure]] = {}
    """Each of them -> what it was measured to find when the release was made, by kind of material."""
    limited_tags: dict[str, str] = {}
    """Embedded tag that does not say all that its rule finds -> what it says, and why."""
    providers: dict[str, str]
    """Capability -> provider."""
    signal_versions: dict[str, str]
    """Signal -> version."""
    prompts: dict[str, str] = {}
    """Prompt that took the place of ours -> first 8 hex digits of the SHA-256 of its text."""
    unmeasured: dict[str, Unmeasured] = {}
    """Signal of a chosen provider -> what could not be measured; signals with all values are left out."""
    policy: dict[str, Any]
    """The policy without its list of banned users."""
    banned_users: int = 0
    """Number of users that the policy bans; their keyed hashes stay in the store."""
    policy_hash: str
    """Hash of the policy without its list of banned users, so that nobody can try whether a user is on it."""
    settings: dict[str, Any]
    """Settings that affect the release: seed, sizes, topics."""
    topics_fit: str | None = None
    """Hash of the topic fit's input and settings, the same for equal topics; null where the store lacks the fit."""
    topics_fit_day: str | None = None
    """UTC day up to which documents were fitted; later ones were assigned. Null like topics_fit."""
    topics_fit_policy: str | None = None
    """Hash, as policy_hash, of the policy under which topics were fitted; another one since has not moved them."""
    bench_policy: str | None = None
    """Hash, as policy_hash, of the policy under which the benchmark was drawn; another one since has only replaced the
    prompts that it drops. Null for an empty benchmark."""
    first_day: str
    """UTC day of the first released or dropped conversation."""
    last_day: str
    """UTC day of the last one."""
    counts: dict[str, int]
    """Rows of every configuration, and conversations withheld from chat because their prompt is in the benchmark."""
    funnel: dict[str, Any]
    """Input lines kept, dropped and rejected, with reasons."""
    files: dict[str, ReleasedFile]
    """Every other file of the release."""
    shards: dict[str, str] = {}
    """Path of a shard -> digest of the rows it was written from, by which the next release knows it again."""
    columns: dict[str, list[ReleasedColumn]]
    """Columns of every configuration, of `leaderboard`, of tables in `leaderboard/judge`, and of `topics`, the map."""
    images: dict[str, str]
    """Configuration -> SHA-256 of the image ids of all rows."""
    languages: dict[str, int] = {}
    """English name of a language -> rows of `chat` and `battle` in it; rows of an unknown language are left out."""
    judge: dict[str, str] = {}
    """Whose verdicts the judge's board is of: judge, judge_version, protocol, baseline, draw; empty without a board."""
    seal: str | None = None
    """SHA-256 of the rest of the manifest; written last."""
