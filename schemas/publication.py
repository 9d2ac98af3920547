"""Uses of releases: uploads to the Hugging Face Hub, exports in other forms, differences of two."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from schemas.row import Row


class RepoUpload(Row):
    """The files of one commit to one repository."""

    repo: str
    """ORG/NAME of a dataset repository."""
    files: dict[str, str]
    """Path in the repository -> path in the release."""
    sha256: dict[str, str]
    """Path in the release -> SHA-256 of the verified file."""
    site: dict[str, str] = {}
    """Path in the repository of each file of the explorer -> its SHA-256; empty without `--with-explorer`."""
    size_bytes: int
    """Total size of the files."""


class UploadPlan(Row):
    """Everything that publishing a release will do."""

    version: str
    """Version of the release."""
    uploads: list[RepoUpload]
    """One upload per repository."""
    branch: str
    """main, or the preview's own branch."""
    tag: str | None
    """Tag that the commit gets; null for a preview."""
    public: bool
    """Whether everybody may read it."""
    accepted_embedded: list[str] = []
    """Embedded stand-ins of the release that the publisher accepted by name."""
    manifest_sha256: str
    """SHA-256 of the manifest, which has the checksum of every other file; an approval names it."""

    @property
    def revision(self) -> str:
        """Tag, or branch of a preview, to load it by."""
        return self.tag or self.branch


class Publication(Row):
    """One version of a dataset that is on the Hub, or was."""

    repo: str
    """ORG/NAME of the dataset repository."""
    version: str
    """Version of the release."""
    revision: str
    """Tag, or branch of a preview, to load it by."""
    commit: str
    """Commit hash on the Hub."""
    public: bool
    """Whether everybody may read it."""
    accepted_embedded: list[str] = []
    """Embedded stand-ins that the publisher accepted by name; empty without."""
    published_at: datetime
    """When it was published (UTC)."""
    yanked_at: datetime | None = None
    """When it was taken back (UTC); null while it is on the Hub, or may be."""


class SftStyle(StrEnum):
    """How a training example is written."""

    MESSAGES = "messages"
    """messages [{role, content [{type, text}]}] and images, as TRL and chat templates take them."""
    LLAVA = "llava"
    """image and conversations [{from, value}] with <image> marks, as LLaVA's trainers take them. image is one path, a
    list of paths for several images, and absent without images; in Parquet it is always a list."""
    SHAREGPT = "sharegpt"
    """images and conversations [{from, value}] with <image> marks, as ms-swift and LLaMA-Factory take them; with the
    dataset_info.json of LLaMA-Factory."""


class FileFormat(StrEnum):
    """File format of an export."""

    JSONL = "jsonl"
    JSON = "json"
    """One array, as LLaVA's own trainer reads it."""
    PARQUET = "parquet"


class Compat(StrEnum):
    """A published dataset whose columns an export has."""

    VISIONARENA = "visionarena"
    """VisionArena-Chat, -Battle and -Bench."""

    def folder(self, version: str) -> str:
        """Folder in the store for a release with these columns."""
        return f"exports/{version}-{self.value}"


class SftSelection(Row):
    """Choice of the conversations that are exported (VisionArena sec. 5: answers of the best models)."""

    models: int = Field(default=10, ge=1)
    """The best models of the overall leaderboard that have conversations, by rank, then by number of votes."""
    language: str | None = None
    """Only conversations in this language (ISO 639, or its English name); null for any."""
    category: str | None = None
    """Only conversations with this category, such as hard, ocr or instruction_following; null for any."""
    all_answers: bool = False
    """Also conversations in which an answer refuses, or whose vote says that both answers are bad."""
    conversations: int = Field(default=100_000, ge=1)
    """Conversations at most."""
    per_model: int | None = Field(default=None, ge=1)
    """Conversations of one model at most."""
    per_topic: int | None = Field(default=None, ge=1)
    """Conversations of one topic at most; those without a topic count as one."""
    test_sets: bool = False
    """Also conversations of published test sets, which are not for training."""
    seed: int = 0
    """Seed of the draw."""


class PreferenceStyle(StrEnum):
    """How a preference is written."""

    TRL = "trl"
    """prompt, chosen and rejected as messages of typed parts, and images: TRL's DPO and reward trainers."""
    TRL_KTO = "trl-kto"
    """prompt, completion and label, and images, a row an answer: TRL's KTO trainer."""
    LLAMA_FACTORY = "llama-factory"
    """conversations, chosen, rejected and images with <image> marks, and dataset_info.json: LLaMA-Factory."""
    OPENAI = "openai"
    """input, preferred_output and non_preferred_output, of texts alone: OpenAI's direct preference optimization."""


class PreferenceSelection(Row):
    """Choice of the votes that are exported as preferences, and which of them are held out."""

    held_out: float = Field(default=0.1, ge=0, lt=1)
    """Share of the votes that is held out, 0 to 1: all votes of some voters. No voter or prompt is on both sides."""
    text_only: bool = False
    """Only votes on conversations without images, for models that take none."""
    category: str | None = None
    """Only votes on prompts with this category, such as hard, ocr or instruction_following; null for any."""
    test_sets: bool = False
    """Also votes of published test sets, which are not for training."""
    seed: int = 0
    """Seed of the draw of voters."""


class ExportKind(StrEnum):
    """Kind of an export."""

    PAGES = "static pages"
    SFT = "training data"
    DATASET = "columns of a published dataset"
    ANSWER = "answer to a question"
    """Rows of tables of a release, or of the store itself, which have no version."""
    FIGURES = "figures"
    """Of what the store would release, with prompts and pictures, and with no version."""
    BACKUP = "backup"
    """Of the whole store, with no version."""


class Exported(Row):
    """One export of a release of a store, outside of the store."""

    place: str
    """Folder on that machine, or an address such as s3://bucket/exports/sft."""
    machine: str
    """Machine that wrote it; empty for an address."""
    kind: ExportKind
    """What it is."""
    version: str
    """Version of the release; empty for what is of the store itself."""
    part: bool
    """Whether it has only some of the release's items, so that it may lack one that the release has."""
    exported_at: datetime
    """When it was begun (UTC)."""


class Bump(StrEnum):
    """Part of the semantic version that should be raised."""

    MAJOR = "major"
    """A column was removed or changed its type, so code that reads it breaks; or the benchmark has other prompts, so
    results on it are no longer comparable."""
    MINOR = "minor"
    """Rows were added or removed, a column was added, or topics were fitted anew: results computed on the release
    change."""
    PATCH = "patch"
    """The same rows with changed values."""
    NONE = "none"
    """Nothing changed."""


class RowChange(Row):
    """One row that differs between the releases."""

    config: str
    """chat, battle or bench."""
    id: str
    """conversation_id or question_id."""
    change: str
    """added, removed or changed."""
    columns: list[str]
    """Columns that differ; empty for added and removed rows."""
    why: list[str]
    """For a removed row the reasons that drop it now, by the store; for a changed row the manifests' differences."""


class ReleaseDiff(Row):
    """The comparison of two releases, without single rows."""

    rules: list[str]
    """Policy rules, signal versions, providers and settings that differ, one sentence each."""
    schema_changes: list[str]
    """Columns that were added, removed or changed their type, one sentence each."""
    rows: dict[str, int]
    """`config added`, `config removed`, `config changed`, `config same` -> number of rows."""
    columns: dict[str, dict[str, int]]
    """Configuration -> column -> number of rows whose value changed, largest first."""
    why: dict[str, dict[str, int]]
    """Configuration -> reason -> number of rows removed or changed for it, largest first."""
    bump: Bump
    """Part of the semantic version to raise."""
    bump_why: list[str]
    """What asks for it, one phrase each; empty when nothing changed."""
    next_version: str | None
    """A version after the earlier one: 1.2.0 with that part raised, for a day the later release's last day, for other
    names the next number; null when nothing changed."""

    @property
    def bump_in_words(self) -> str:
        """The part of the version to raise, a version with it raised, and what asks for it."""
        following = f", {self.next_version}" if self.next_version else ""
        why = f" ({'; '.join(self.bump_why)})" if self.bump_why else ""
        return f"suggested version bump: {self.bump}{following}{why}"
