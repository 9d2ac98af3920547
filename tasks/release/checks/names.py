"""Names in rows that are about to be released, searched as `curate verify` searches those of a release."""

from typing import NamedTuple

import polars as pl

from schemas.errors import UnsafeName
from schemas.policy import Policy
from schemas.release import ROW_KEYS
from tasks.release.contents import forbidden_data, masked, wrong_names
from tasks.runtime.untrusted import one_line
from tasks.storage.tables import Store

_RENAME = "give the model another name by `renames` of the policy, or list it in `excluded_models`"
_CORRECT = "correct the id in the logs, or take it out with `curate takedown`"
_REMEDIES = {
    **dict.fromkeys(("model", "model_a", "model_b", "models"), _RENAME),
    **dict.fromkeys(("conversation_id", "question_id"), _CORRECT),
    "preset_dataset": "give the `dataset` another name in presets.json",
    "topic": "name topics by another provider of `topic_names`",
}
"""Column -> what to do about a name in it."""
_SHOWN_MAX = 3


class _Place(NamedTuple):
    """Where an unsafe name was found first."""

    kinds: list[str]
    config: str
    key: str


class NamesFound:
    """Names of models, datasets, topics and conversations that would identify somebody."""

    def __init__(self, policy: Policy) -> None:
        self._forbidden = forbidden_data(policy)
        self._places: dict[tuple[str, str], _Place] = {}

    def add(self, config: str, rows: pl.DataFrame) -> None:
        """Search gathered rows of a configuration."""
        for column, names in wrong_names(rows, self._forbidden).items():
            for name, kinds in names.items():
                has_name = pl.col(column).list.contains(name) if column == "models" else pl.col(column) == name
                key = rows.filter(has_name)[ROW_KEYS[config]][0]
                self._places.setdefault((column, name), _Place(sorted(kinds), config, key))

    def require_none(self, store: Store) -> None:
        """Raises UnsafeName if there are any; what identifies is masked, and the first log line of each is named."""
        if not self._places:
            return
        descriptions = [
            f"{column} {masked(name)!r} ({', '.join(place.kinds)}; {_first_line(store, place)})"
            for (column, name), place in list(self._places.items())[:_SHOWN_MAX]
        ]
        more = f" and {len(self._places) - _SHOWN_MAX:,} more" if len(self._places) > _SHOWN_MAX else ""
        remedies = dict.fromkeys(_REMEDIES.get(column, "correct it in the logs") for column, _ in self._places)
        raise UnsafeName(
            f"names would identify somebody in the release, and nothing was released: {', '.join(descriptions)}{more}; "
            f"{'; '.join(remedies)}; then run again"
        )


_LINE_OF_BATTLE = """
    -- a row is one battle with this id, and its log line
    SELECT source, line FROM battles WHERE battle_id = $key
"""
_LINE_OF_CONVERSATION = """
    -- a row is one conversation with this id, and its log line
    SELECT source, line FROM conversations WHERE conversation_id = $key
"""


def _first_line(store: Store, place: _Place) -> str:
    """LOGFILE:LINE of a row."""
    lines = store.ask(_LINE_OF_BATTLE if place.config == "battle" else _LINE_OF_CONVERSATION, key=place.key)
    if lines.is_empty():
        return "line unknown"
    return f"{one_line(lines['source'][0], 80)}:{lines['line'][0]}"
