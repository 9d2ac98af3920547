"""How a judge's board agrees with another board, whose names of models may differ."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import BadInput
from tasks.runtime.untrusted import one_line

if TYPE_CHECKING:
    from schemas.rating import Agreement, Rating


def agreement_with(board: "Sequence[Rating]", against: Path, renames: Path | None) -> "Agreement":
    """The agreement with the board in `against`, after `renames`; models that only one has are named on stderr."""
    from tasks.leaderboard.agreement import agreement
    from tasks.leaderboard.battle_files import read_board

    names = read_renames(renames) if renames else {}
    renamed = [row.model_copy(update={"model": names.get(row.model, row.model)}) for row in board]
    reference = read_board(against, "overall")
    ours, theirs = {row.model for row in renamed}, {row.model for row in reference}
    if ours != theirs and len(ours & theirs) > 1:
        apart = f"only here: {_names(ours - theirs)}; only in {str(against)!r}: {_names(theirs - ours)}"
        print(f"curate: {apart}; --renames FILE says which are the same", file=sys.stderr)
    return agreement(renamed, reference)


def _names(models: set[str]) -> str:
    return one_line(", ".join(sorted(models))) or "none"


def read_renames(file: Path) -> dict[str, str]:
    """Our model -> its name in the other board."""
    import yaml

    from tasks.runtime.yaml_files import read_yaml

    try:
        names = read_yaml(file)
    except OSError:
        raise BadInput(f"--renames {str(file)!r} cannot be read; give a YAML file") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        names = None
    if not isinstance(names, dict) or not all(isinstance(name, str) for pair in names.items() for name in pair):
        raise BadInput(f"--renames {str(file)!r}: write one `our model: its name in the other board` a line")
    return names
