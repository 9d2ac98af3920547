"""The old place of names that moved."""

from tasks.storage.queries.findings import *  # noqa: F403
