"""The capabilities that ship, or one of the user's own, and the levels of difficulty: YAML files."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import ValidationError

from schemas.errors import BadInput, known_values
from schemas.generated import Capability, Level
from schemas.row import Row
from tasks.runtime.yaml_files import read_yaml

_SHIPPED = Path(__file__).with_name("capabilities")
AnyRow = TypeVar("AnyRow", bound=Row)


def load_capability(name_or_file: str) -> Capability:
    """A shipped capability, or that of a YAML file. Raises BadInput."""
    shipped = {path.stem: path for path in sorted(_SHIPPED.glob("*.yaml"))}
    is_file = name_or_file.endswith((".yaml", ".yml")) or "/" in name_or_file
    if not is_file and name_or_file not in shipped:
        raise BadInput(f"unknown capability {known_values(name_or_file, shipped)} Or give a YAML file of your own")
    return _row(Path(name_or_file) if is_file else shipped[name_or_file], Capability, "capability")


def _row(path: Path, row: type[AnyRow], what: str) -> AnyRow:
    where = f"{what} {str(path)!r}"
    try:
        content = read_yaml(path)
    except OSError:
        raise BadInput(f"{where} cannot be read; give a YAML file with {', '.join(row.model_fields)}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise BadInput(f"{where} is not YAML; give {', '.join(row.model_fields)} as keys") from None
    try:
        return row.model_validate(content)
    except ValidationError as error:
        problem = error.errors(include_input=False)[0]
        key = ".".join(map(str, problem["loc"])) or "the file"
        raise BadInput(f"{where}: {key}: {problem['msg']}; its keys are {', '.join(row.model_fields)}") from None


@cache
def levels() -> dict[str, Level]:
    """Level -> what a description of it may hold, easiest first."""
    return {name: Level(**value) for name, value in read_yaml(Path(__file__).with_name("levels.yaml")).items()}


def known_levels(given: Sequence[str]) -> list[str]:
    """The given levels, in their own order. Raises BadInput for an unknown one."""
    for name in given:
        if name not in levels():
            raise BadInput(f"--set generate.levels: unknown level {known_values(name, levels())}")
    return [name for name in levels() if name in given]
