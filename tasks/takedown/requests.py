"""What visitors of an arena asked to forget: read from its log folder, and taken down before ingest reads lines."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from schemas.errors import BadInput, why_unreadable
from schemas.takedown import REQUESTS, NearCopy, Removed, TakenDownKind
from tasks.ingest.log_files import server_folders, source_name
from tasks.ingest.log_line import is_conv_id
from tasks.storage.tables import Store
from tasks.storage.tombstones import Tombstones
from tasks.storage.user_ids import store_key
from tasks.takedown.take_down import take_down


def requested(logs: Path) -> list[str]:
    """conv_ids in the request files of a log folder and the folders below it, each once, in order.

    Raises BadInput for a file or a line that cannot be read, because a request that is left out would be released.
    """
    files = [folder / REQUESTS for folder in server_folders(logs)]
    found = (_conv_ids(file, source_name(file, logs)) for file in files if file.is_symlink() or file.exists())
    return list(dict.fromkeys(conv_id for ids in found for conv_id in ids))


def _conv_ids(file: Path, source: str) -> Iterator[str]:
    if not file.is_file():
        raise BadInput(f"takedown requests {source!r} is no file; give one conversation id a line, or remove it")
    try:
        content = file.read_bytes()
    except OSError as error:
        raise BadInput(
            f"takedown requests {source!r} cannot be read ({why_unreadable(error)}); make it readable"
        ) from None
    for number, line in enumerate(content.decode("utf-8-sig", "replace").split("\n"), 1):
        conv_id = line.strip()
        if conv_id and not is_conv_id(conv_id):
            raise BadInput(
                f"takedown requests {source!r}, line {number}: no conversation id (8 to 64 letters, digits, - and _); "
                "mend the line, or remove it, and run again"
            )
        yield from [conv_id] if conv_id else []


def take_down_requested(
    store: Store,
    conv_ids: Sequence[str],
    now: datetime,
    hear: Callable[[Sequence[str], Sequence[str], Sequence[NearCopy]], None],
) -> tuple[int, Removed | None]:
    """(new requests, what they removed); nothing is written when all were taken down before. `hear` as in `take_down`.

    Conversations that the store does not have yet are kept out when their lines come.
    """
    known = Tombstones(store, store_key(store)).holds(TakenDownKind.CONVERSATION, conv_ids)
    new = [conv_id for conv_id in conv_ids if conv_id not in known]
    if not new:
        return 0, None
    return len(new), take_down(store, [], [], now, False, hear, reason=REQUESTS, conv_ids=new)
