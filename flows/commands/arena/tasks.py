"""`curate arena --tasks FILE`: the lists of tasks that annotators of an arena work on, and their keys."""

import hmac
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from schemas.asked_model import ArenaTasks
from schemas.errors import BadInput, MissingProvider, known_values
from tasks.runtime.yaml_files import checked_entry, read_yaml

if TYPE_CHECKING:
    from tasks.arena.tabs.tasks import Tasks
    from tasks.explore.review.queues import ReviewQueue
    from tasks.storage.tables import Store

KEY_CHARACTERS_MIN = 16


def read_tasks(path: Path) -> ArenaTasks:
    """The tasks file. Raises BadInput for the first error, without values of the file."""
    where = f"tasks file {str(path)!r}"
    try:
        content = read_yaml(path)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        raise BadInput(f"{where} cannot be read as YAML; see docs/arena.md") from None
    return checked_entry(content, ArenaTasks, where, {})


def keys_of(tasks: ArenaTasks) -> dict[str, str]:
    """Annotator -> key. Raises MissingProvider for one that is not set, and BadInput for a short or shared one."""
    keys = {}
    for name, variable in tasks.annotators.items():
        key = os.environ.get(variable, "")
        if not key:
            raise MissingProvider(f"annotator {name!r}: the variable that holds the key is not set; export it")
        if len(key) < KEY_CHARACTERS_MIN:
            raise BadInput(f"annotator {name!r}: the key has fewer than {KEY_CHARACTERS_MIN} characters")
        keys[name] = key
    if len(set(keys.values())) < len(keys):
        raise BadInput("two annotators have one key; give each a key of its own")
    return keys


def open_tasks(path: Path, show: Callable[[bytes], str]) -> "Tasks":
    """What the tab works on. `show` gives an image an address on the page. Raises BadInput for an empty list."""
    from flows.commands.review import figures_of
    from tasks.arena.tabs.tasks import Tasks
    from tasks.explore.of_store import OfStore
    from tasks.explore.review.assigned import Assigned, Task
    from tasks.explore.review.routes import reviewer_name
    from tasks.explore.review.session import Refused, ReviewSession
    from tasks.explore.source import Gone
    from tasks.policy.explained import explained
    from tasks.storage.tables import Store

    wanted = read_tasks(path)
    keys = keys_of(wanted)
    if odd := next((name for name in keys if not name or reviewer_name(name) != name), None):
        raise BadInput(f"annotator {odd!r}: give a name on one line of at most 60 characters")
    store = Store.existing(wanted.store)
    chosen = _chosen(store, wanted)
    session = ReviewSession(store, chosen, figures_of)
    session.take_in()
    if empty := next((queue.name for queue in chosen if not session.items(queue.name)), None):
        raise BadInput(f"store {wanted.store!r} has nothing for the list {empty!r}; leave it out of `lists`")
    assigned = Assigned(session, OfStore(store, explained), wanted.overlap)

    def annotator(given: str) -> str | None:
        found = [name for name, key in keys.items() if hmac.compare_digest(key.encode(), given.strip().encode())]
        return found[0] if found else None

    def give(task: Task, verdicts: Sequence[str], who: str) -> str:
        try:
            assigned.give(task, verdicts, who)
        except Refused as refused:
            return str(refused)
        return ""

    def following(name: str, who: str, after: str) -> Task | None:
        try:
            return assigned.next(name, who, after)
        except Gone:  # a takedown is under way
            return None

    return Tasks([(queue.title, queue.name) for queue in chosen], annotator, following, give, show)


def _chosen(store: "Store", wanted: ArenaTasks) -> "list[ReviewQueue]":
    """The queues that the file names, in its order."""
    from flows.commands.review import battles_for_experts, pairs_of_answers, queues

    known: dict[str, Callable[[], ReviewQueue]] = {
        queue.name: lambda queue=queue: queue  # type: ignore[misc]
        for queue in queues(wanted.sample, wanted.seed)
    }
    known["sheet"] = lambda: battles_for_experts(wanted.store, wanted.per_pair)
    known["preferences"] = lambda: pairs_of_answers(store, wanted.bench or "", wanted.tuples, wanted.seed)
    for name in wanted.lists:
        if name not in known:
            raise BadInput(f"tasks file: lists {known_values(name, known)}")
    if "preferences" in wanted.lists and not wanted.bench:
        raise BadInput("tasks file: the list preferences needs `bench`, the written benchmark whose answers it shows")
    return [known[name]() for name in dict.fromkeys(wanted.lists)]
