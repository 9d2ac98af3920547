"""`curate arena --tasks FILE`: the lists of tasks that annotators of an arena work on, and their keys."""

import hmac
import os
from collections.abc import Sequence
from pathlib import Path

import yaml

from flows.commands.options import existing
from flows.commands.review.kinds import REVIEW_KINDS, figures_of, queues_of
from flows.products import PRODUCTS, explorer_here
from schemas.errors import BadInput, MissingProvider, known_values
from schemas.items.review import Task
from tasks.arena.settings import ArenaTasks
from tasks.arena.tasks_tab import Tasks
from tasks.review.assigned import Assigned
from tasks.review.routes import reviewer_name
from tasks.review.session import ReviewSession, VerdictRefused
from tasks.review_queue import ReviewQueue
from tasks.runtime.untrusted import checked_entry, read_yaml
from tasks.shown import Gone

KEY_CHARACTERS_MIN = 16


def read_tasks(path: Path) -> ArenaTasks:
    """The tasks file. Raises BadInput for the first error, without values of the file."""
    where = f"tasks file {str(path)!r}"
    try:
        content = read_yaml(path)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        raise BadInput(f"{where} cannot be read as YAML; see docs/people.md") from None
    return checked_entry(content, ArenaTasks, where, {})


def annotator_keys(tasks: ArenaTasks) -> dict[str, str]:
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


def open_tasks(path: Path) -> Tasks:
    """Tasks that the page works on. Raises BadInput for an empty list."""
    tasks_file = read_tasks(path)
    keys = annotator_keys(tasks_file)
    if odd := next((name for name in keys if not name or reviewer_name(name) != name), None):
        raise BadInput(f"annotator {odd!r}: give a name on one line of at most 60 characters")
    store = existing(tasks_file.store)
    chosen = _chosen(tasks_file)
    session = ReviewSession(store, chosen, figures_of)
    session.take_in()
    if empty := next((queue.name for queue in chosen if not session.items(queue.name)), None):
        raise BadInput(f"store {tasks_file.store!r} has nothing for the list {empty!r}; leave it out of `lists`")
    assigned = Assigned(session, explorer_here().of_store(store, PRODUCTS, dict), tasks_file.overlap)

    def annotator(typed_key: str) -> str | None:
        names = [name for name, key in keys.items() if hmac.compare_digest(key.encode(), typed_key.strip().encode())]
        return names[0] if names else None

    def give(task: Task, verdicts: Sequence[str], who: str) -> str:
        try:
            assigned.give(task, verdicts, who)
        except VerdictRefused as refused:
            return str(refused)
        return ""

    def following(name: str, who: str, after: str) -> Task | None:
        try:
            return assigned.next(name, who, after)
        except Gone:  # a takedown is under way
            return None

    return Tasks([(queue.title, queue.name) for queue in chosen], annotator, following, give)


def _chosen(tasks_file: ArenaTasks) -> list[ReviewQueue]:
    """The queues that the file names, in its order."""
    kind_of = {queue: kind for kind in REVIEW_KINDS for queue in REVIEW_KINDS[kind].queues}
    queues: list[ReviewQueue] = []
    for name in dict.fromkeys(tasks_file.lists):
        if name not in (*REVIEW_KINDS, *kind_of):
            raise BadInput(f"tasks file: lists {known_values(name, [*REVIEW_KINDS, *kind_of])}")
        queues_of_kind = queues_of([kind_of.get(name, name)], tasks_file)
        queues += queues_of_kind if name in REVIEW_KINDS else [queue for queue in queues_of_kind if queue.name == name]
    return queues
