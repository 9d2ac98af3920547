"""Uploads to the Hugging Face Hub: the plan, and what was published."""

from datetime import datetime

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
    """One version of a dataset on the Hub."""

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
