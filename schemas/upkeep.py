"""Rows of a store's upkeep: its audit log, the list of a backup, where it stands, and what an operator changes."""

from datetime import date, datetime
from enum import StrEnum

from pydantic import Field

from schemas.asked_model import ArenaModel
from schemas.row import Row
from schemas.run import TokenRate

APPEAL_CHARACTERS_MAX = 500
"""Most characters of an appeal."""


class Audited(StrEnum):
    """Action of somebody on a store."""

    LOOKED = "looked"
    """Looked at content that is masked or blurred until it is asked for."""
    EXPORTED = "exported"
    HANDED_OUT = "handed_out"
    """Wrote out what the store holds of a person."""
    TOOK_DOWN = "took_down"
    PUBLISHED = "published"
    YANKED = "yanked"
    ACCEPTED = "accepted"
    """Accepted embedded stand-ins for a publication, a drift of a filter for a release, or the loss of log lines."""
    BACKED_UP = "backed_up"
    RESTORED = "restored"
    REMOVED = "removed"
    """Removed what the retention of the settings no longer keeps."""
    STEERED = "steered"
    """Changed an arena while it runs; the log stands in the folder of its logs."""


class AuditEntry(Row):
    """One entry; it has no id, text or name of a person."""

    number: int = Field(ge=1)
    """Place in the log, from 1."""
    at: datetime
    """When (UTC)."""
    who: str = Field(pattern=r"^(?:[0-9a-f]{12})?$")
    """Keyed hash of the user of the machine or of the reviewer's name; empty where the machine tells none."""
    what: Audited
    """What was done."""
    counts: dict[str, int] = {}
    """How much of what."""
    about: str = Field(default="", max_length=300)
    """Version of the release, repository on the Hub, or what was accepted."""
    before: str = Field(pattern=r"^(?:[0-9a-f]{64})?$")
    """SHA-256 of the entry before it; empty for the first."""


class BackedUpFile(Row):
    """One file of the store in the folder of the backup."""

    place: str = Field(pattern=r"^(?:files/[0-9a-f]{2}|secret)/[0-9a-f]{64}$")
    """Place in that folder."""
    sha256: str
    """SHA-256 of its bytes."""
    size_bytes: int
    """Size."""


class Backup(Row):
    """One moment of a store."""

    version: int = Field(default=1, ge=1, le=1)
    """Version of this list."""
    store_id: str
    """Id of the store, which its copies keep."""
    made_at: datetime
    """When it was begun (UTC): takedowns after it are not in it."""
    files: dict[str, BackedUpFile]
    """Path in the store -> the file."""


class Holdings(Row):
    """Counts of a store."""

    conversations: int
    """Conversations, kept or not."""
    battles: int
    """Votes."""
    images: int
    """Distinct images."""
    releases: int
    """Releases with data."""
    newest: str
    """Version of the newest release; empty without one."""
    last_completed: datetime | None
    """End of the last run that was completed (UTC); null when there was none."""


class ReleaseDay(Row):
    """A day with releases."""

    day: date
    """Last day of the data that names them, or the day on which they were made."""
    release: str
    """Version of the release of the day: the last of its attempts."""
    attempts: int
    """Releases of the day that have data."""
    kept: list[str]
    """Each of them, the last first, and why it is kept; `goes` for one that retention removes next."""


class PastRun(Row):
    """One run, by its record."""

    started_at: datetime
    """Start (UTC)."""
    state: str
    """running, completed, held, failed or killed."""
    minutes: float | None
    """Duration; null while it runs, and for a killed one."""
    new_lines: int
    """Log lines that it read."""
    new_images: int
    """Images that it took in."""
    failed: int
    """Items that it could not measure."""
    usd: float
    """Cost at paid services, with what is unconfirmed, in US dollars."""
    result: str
    """Release that it made or found unchanged, or the line with which it ended."""


class Due(Row):
    """Something that waits for people or for the next run."""

    what: str
    """What waits, such as held conversations."""
    count: int
    """How many."""
    next: str
    """Command that goes on with it."""


class MonthCost(Row):
    """Cost of this month's runs at one paid service."""

    service: str
    """Name in the price file."""
    requests: int
    """Requests that were sent."""
    requests_unpriced: int
    """Of these, requests whose price the price file does not have; they count as nothing in US dollars."""
    usd: float
    """Price of the counted use, in US dollars."""
    usd_unconfirmed: float
    """Upper bound of calls whose use is not known, in US dollars."""


class MonthLimit(Row):
    """A limit of a month's cost, and how much of it the month's runs have spent."""

    provider: str
    """Services that it is about: a name of the price file, or the beginning of several; empty for all."""
    usd: float
    """Cost of this month's runs at these services, with what is unconfirmed, in US dollars."""
    usd_max: float
    """The limit in US dollars."""

    @property
    def usd_left(self) -> float:
        """US dollars that the month's runs may still spend."""
        return max(0.0, self.usd_max - self.usd)

    @property
    def setting(self) -> str:
        """The key of the settings that gives it."""
        return f"month_usd_max_by.{self.provider}" if self.provider else "month_usd_max"


class Appeal(Row):
    """Words of a visitor who was refused; nothing says who it was."""

    number: int = Field(ge=1)
    """Number in its arena."""
    at: datetime
    """When (UTC)."""
    reason: str
    """Key of the refusal in the words of the page; empty when it is not known."""
    words: str = Field(min_length=1, max_length=APPEAL_CHARACTERS_MAX)
    """What the visitor wrote."""


class TermsVersion(Row):
    """Terms of an arena that its operator published while it ran."""

    name: str = Field(min_length=1, max_length=40, pattern=r"^[A-Za-z0-9][A-Za-z0-9._ -]*$")
    """Version as the operator calls it, such as 2026-12."""
    at: datetime
    """When they were published (UTC)."""
    texts: dict[str, str]
    """Language -> Markdown; the English text stands for languages without one."""


class ArenaSteering(Row):
    """The file `admin.json` beside the logs of an arena."""

    paused: list[str] = []
    """Models that are in no new conversation."""
    weights: dict[str, float] = {}
    """Weights in place of those of the models file."""
    models: list[ArenaModel] = []
    """Models beside those of the models file, and in place of those of the same name."""
    prices: dict[str, TokenRate] = {}
    """Prices in place of those of the models file and of those that ship."""
    reasons: str | None = None
    """YAML of the reasons in place of those of the start; null for these."""
    starters: str | None = None
    """YAML of the starter prompts in place of those of the start; null for these."""
    languages: list[str] = []
    """Languages that the page speaks; empty for all."""
    terms: list[TermsVersion] = []
    """Terms in place of those of the start: all versions, of which the last is in force."""
    usd_a_day_max: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Cost of a UTC day at which the arena takes no more messages; null for no limit."""
    appeals: list[Appeal] = []
    """Appeals that nobody has closed, oldest first."""
    appeals_so_far: int = Field(default=0, ge=0)
    """Number of the last appeal."""
