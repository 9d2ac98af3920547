"""A dataset repository of the loopback Hub."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Repo:
    """One dataset repository; a commit is a mapping of path to content."""

    private: bool
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    titles: dict[str, str] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)
    parents: dict[str, str | None] = field(default_factory=dict)

    def commit(self, files: dict[str, bytes], branch: str = "main", message: str = "", first: bool = False) -> str:
        """Commit `files` as the content of a branch, without a parent if `first`; returns the commit."""
        seed = json.dumps([len(self.messages), sorted(files), message]).encode()
        oid = hashlib.sha1(seed).hexdigest()
        self.titles[oid], self.parents[oid] = message, None if first else self.branches.get(branch)
        self.commits[oid], self.branches[branch] = files, oid
        self.messages.append(message)
        return oid

    def past(self, commit: str | None) -> Iterator[str]:
        """A commit and those before it, newest first."""
        while commit:
            yield commit
            commit = self.parents[commit]

    def at(self, revision: str) -> str | None:
        """The commit of a branch, tag or commit."""
        known = self.branches.get(revision) or self.tags.get(revision)
        return known or (revision if revision in self.commits else None)
