"""What goes to the Hugging Face Hub, and what went."""

from datetime import datetime

from schemas.row import Row


class RepoUpload(Row):
    """Files that one repository gets in one commit."""

    repo: str
    """ORG/NAME of a dataset repository."""
    files: dict[str, str]
    """Path in the repository -> path in the release."""
    sha256: dict[str, str]
    """Path in the release -> checksum of the file that was verified."""
    size_bytes: int
    """Size of all files."""


class UploadPlan(Row):
    """Everything that publishing a release does."""

    version: str
    """Version of the release."""
    uploads: list[RepoUpload]
    """One for every repository."""
    branch: str
    """main, or the preview's own branch."""
    tag: str | None
    """Tag that the commit gets; null for a preview."""
    public: bool
    """Whether everybody may read it."""
    manifest_sha256: str
    """Checksum of the manifest, which holds that of every other file: what an approval is about."""


class Publication(Row):
    """One version of a dataset on the Hub."""

    repo: str
    """ORG/NAME of the dataset repository."""
    version: str
    """Version of the release."""
    revision: str
    """Tag, or branch of a preview, that readers name."""
    commit: str
    """Commit on the Hub."""
    public: bool
    """Whether everybody may read it."""
    published_at: datetime
    """When (UTC)."""
