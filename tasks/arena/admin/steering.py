"""Changes of the operator: read from `admin.json` beside the logs by every process, written whole, and audited.

A change has three steps: its values are on the disk as `admin.next-N`, the audit log gets its entry N, and the file
takes the place of `admin.json`. After a kill in between, the next start, change or look at the audit log finishes a
change that has its entry, and drops one that has none.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock
from pydantic import ValidationError

from schemas.asked_model import ArenaModel
from schemas.errors import BadInput, StoreUnwell, why_unreadable
from schemas.run import TokenRate
from schemas.upkeep import APPEAL_CHARACTERS_MAX, Appeal, ArenaSteering, Audited, AuditEntry, TermsVersion
from tasks.arena.logs import replace_whole, write_whole
from tasks.storage.keyed_ids import pseudonym
from tasks.storage.records import add_audit_entry, audit_entries, last_entry
from tasks.storage.tables import Store

APPEALS_MAX = 500
"""Appeals that are kept; a new one pushes out the oldest."""
_LOCK_SECONDS = 10.0
Value = TypeVar("Value")
_NEXT = ".next-"
"""Suffix of the values of a change that is being made, before the number that its audit entry gets."""


class Steering:
    """The operator's changes of one log folder, which several processes may serve."""

    def __init__(self, folder: Path) -> None:
        """Raises BadInput for a file that cannot be read: a model that was paused must not come back unseen.

        Also for a change that was killed and cannot be finished.
        """
        self._file, self._store = folder / "admin.json", Store(str(folder))
        self._lock = FileLock(folder / ".admin.lock", timeout=_LOCK_SECONDS)
        self._read_of: tuple[int, int] | None = None
        self._state = ArenaSteering()
        try:
            self._settle()
            self._refresh()
        except (OSError, ValidationError) as error:
            raise BadInput(
                f"{str(self._file)!r} cannot be read ({why_unreadable(error)}); mend it, or delete it to start without "
                "paused models, weights and budget"
            ) from None

    def now(self) -> ArenaSteering:
        """The present state; the last one that could be read."""
        with suppress(OSError, ValidationError):
            self._refresh()
        return self._state

    def _refresh(self) -> None:
        try:
            status = self._file.stat()
        except FileNotFoundError:
            self._read_of, self._state = None, ArenaSteering()
            return
        if self._read_of != (status.st_mtime_ns, status.st_ino):
            self._state = ArenaSteering.model_validate_json(self._file.read_bytes())
            self._read_of = (status.st_mtime_ns, status.st_ino)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Until the block ends nobody else makes a change: what was checked holds when it is written.

        Raises StoreUnwell where others take too long.
        """
        try:
            self._lock.acquire()
        except OSError as error:
            raise StoreUnwell(f"{str(self._file)!r} cannot be written ({why_unreadable(error)})") from None
        try:
            yield
        finally:
            self._lock.release()

    def change(self, about: str, changed: Callable[[ArenaSteering], dict[str, Any]], by: str = "") -> None:
        """Put in new values. They are on the disk, and in the audit log unless `about` is empty, when this returns.

        `by`: the operator's name, else the user of this machine. Raises StoreUnwell; then nothing changed, and nothing
        says that it did.
        """
        try:
            with self._lock:
                self._settle()
                self._refresh()
                state = self._state.model_copy(update=changed(self._state))
                content = state.model_dump_json(indent=1).encode()
                if about:
                    self._write_audited(content, about, by)
                else:
                    replace_whole(self._file, content)
                self._refresh()
        except (OSError, ValidationError) as error:
            raise StoreUnwell(f"{str(self._file)!r} cannot be written ({why_unreadable(error)})") from None

    def _write_audited(self, content: bytes, about: str, by: str) -> None:
        number = last_entry(self._store)[0] + 1
        try:
            write_whole(self._file.with_suffix(f"{_NEXT}{number:08}"), content)
            add_audit_entry(self._store, Audited.STEERED, {}, about[:300], by)
        finally:
            self._settle()

    def _settle(self) -> None:
        """Finish changes of which the audit log has the entry, and drop others that were begun and are no more made.

        The audit log of this folder has no other entries than those of changes, which are made one at a time.
        """
        if not any(self._begun()):
            return
        with self._lock:
            entries = last_entry(self._store)[0]
            for file in self._begun():
                is_audited = file.suffix.startswith(_NEXT) and int(file.suffix.removeprefix(_NEXT)) <= entries
                if is_audited:
                    file.replace(self._file)
                else:
                    file.unlink(missing_ok=True)

    def _begun(self) -> Iterator[Path]:
        """Files of changes that are being made, or were when their process was killed."""
        return chain(self._file.parent.glob(f"admin{_NEXT}*"), self._file.parent.glob("admin.part-*"))

    def audited(self) -> list[AuditEntry]:
        """All changes so far, oldest first. Raises StoreUnwell where the audit log was changed."""
        try:
            self._settle()
        except OSError as error:
            raise StoreUnwell(f"{str(self._file)!r} cannot be written ({why_unreadable(error)})") from None
        return list(audit_entries(self._store))

    def who(self, name: str) -> str:
        """Keyed hash of an operator's name, as the audit log has it."""
        return pseudonym(self._store, name)

    def pause(self, model: str, paused: bool, by: str = "") -> None:
        """Take a model out of new conversations, or let it in again."""
        added = [model] if paused else []
        self.change(
            f"{'paused' if paused else 'resumed'} {model}",
            # a name is a paused model: this one is taken out first, so that pausing twice names it once
            lambda state: {"paused": [*(name for name in state.paused if name != model), *added]},
            by,
        )

    def weigh(self, model: str, weight: float | None, by: str = "") -> None:
        """Draw a model by another weight; None for that of the models file."""
        added = {} if weight is None else {model: weight}
        self.change(
            f"weight {'of the models file' if weight is None else f'{weight:g}'} for {model}",
            lambda state: {"weights": _without(state.weights, model) | added},
            by,
        )

    def serve(self, model: ArenaModel, by: str = "") -> None:
        """Serve one more model, or one in place of another of its name."""
        self.change(
            f"model {model.name} at {model.base_url}",
            # the new one comes last, in place of the one of its name
            lambda state: {"models": [*_others(state.models, model.name), model]},
            by,
        )

    def drop(self, model: str, by: str = "") -> None:
        """Serve a model of `serve` no more, or as the models file has it."""
        self.change(
            f"model {model} as the models file has it, or not",
            lambda state: {"models": _others(state.models, model)},
            by,
        )

    def price(self, model: str, rate: TokenRate | None, by: str = "") -> None:
        """Count the tokens of a model at another price; None for that of the models file or of those that ship."""
        dollars = rate and f"${rate.input_usd_per_million:g} in, ${rate.output_usd_per_million:g} out a million tokens"
        added = {model: rate} if rate else {}
        self.change(
            f"price of {model}: {dollars or 'that of the models file'}",
            lambda state: {"prices": _without(state.prices, model) | added},
            by,
        )

    def speak(self, languages: Sequence[str], by: str = "") -> None:
        """Speak these languages alone; none for all."""
        self.change(f"languages: {', '.join(languages) or 'all'}", lambda state: {"languages": list(languages)}, by)

    def take_text(self, what: str, text: str | None, by: str = "") -> None:
        """Take a YAML text for `what`, which is reasons or starters; None for those of the start."""
        digest = text and hashlib.sha256(text.encode()).hexdigest()[:16]
        self.change(f"{what}: {digest or 'those of the start'}", lambda state: {what: text}, by)

    def publish_terms(self, terms: TermsVersion, by: str = "") -> None:
        """Put terms in force; whoever accepted others is asked again."""
        about = f"terms of version {terms.name}: {', '.join(sorted(terms.texts))}"
        self.change(about, lambda state: {"terms": [*state.terms, terms]}, by)

    def limit(self, usd_a_day_max: float | None, by: str = "") -> None:
        """Set the cost of a UTC day at which the arena pauses; None for no limit."""
        about = "no budget" if usd_a_day_max is None else f"budget of ${usd_a_day_max:.2f} a day"
        self.change(about, lambda state: {"usd_a_day_max": usd_a_day_max}, by)

    def appeal(self, reason: str, words: str) -> None:
        """Keep the words of a refused visitor."""

        def added(state: ArenaSteering) -> dict[str, Any]:
            number, now = state.appeals_so_far + 1, datetime.now(UTC)
            new = Appeal(number=number, at=now, reason=reason, words=words[:APPEAL_CHARACTERS_MAX])
            # appeals are in order of their numbers, so the oldest fall off the front
            return {"appeals": [*state.appeals, new][-APPEALS_MAX:], "appeals_so_far": number}

        self.change("", added)

    def close_appeal(self, number: int, by: str = "") -> None:
        """Remove an appeal."""
        self.change(
            f"closed appeal {number}",
            lambda state: {"appeals": [appeal for appeal in state.appeals if appeal.number != number]},
            by,
        )


def _without(values: dict[str, Value], model: str) -> dict[str, Value]:
    """The values of the other models."""
    return {name: value for name, value in values.items() if name != model}


def _others(models: Sequence[ArenaModel], name: str) -> list[ArenaModel]:
    """The models of other names."""
    return [model for model in models if model.name != name]
