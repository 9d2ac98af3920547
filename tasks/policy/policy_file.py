"""Policy files: loaded by name or path and validated against the existing signals."""

import hashlib
from functools import cache
from inspect import isclass
from pathlib import Path
from typing import Any, get_args

import polars as pl
import yaml
from pydantic import ValidationError

from schemas.errors import BadPolicy, known_values, why_unreadable
from schemas.policy import Action, Over, Policy, Rule, Scope
from schemas.row import Row
from schemas.tables import SIGNALS
from tasks.policy import SHIPPED
from tasks.policy.extends import extended
from tasks.policy.rules import DESCRIBED_ON, MEASURED_ON, stated_types
from tasks.runtime.yaml_files import SafeLoader
from tasks.storage.tables import frame_schema

_ON = MEASURED_ON | DESCRIBED_ON
"""Signal -> the parts it is measured on."""


def load_policy(name_or_file: str) -> Policy:
    """A shipped policy by name, or a YAML file. Raises BadPolicy with the first problem found."""
    return _load(name_or_file, ())


def _load(name_or_file: str, extending: tuple[Path, ...]) -> Policy:
    """Load a policy; `extending` are the files that extend it, the last one directly."""
    path = _find(name_or_file, extending)
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _UniqueKeys)  # noqa: S506 - a SafeLoader
        if isinstance(content, dict) and "extends" in content:
            content = extended(content, lambda base: _load(base, (*extending, path)))
        policy = Policy.model_validate(content)
    except (OSError, UnicodeDecodeError) as error:
        raise BadPolicy(f"policy {name_or_file!r} cannot be read ({why_unreadable(error)})") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, {getattr(error, 'problem', '')}" if mark else "it holds control characters"
        raise BadPolicy(f"policy {name_or_file!r} is not YAML: {where}") from None
    except ValidationError as error:
        raise BadPolicy(f"policy {name_or_file!r}: {_first_problem(error)}") from None
    for number, rule in enumerate(policy.rules, 1):
        where = f"policy {policy.name!r}, rule {number} ({rule.reason})"
        _check_comparison(where, rule, _type_of_column(where, rule))
        _check_action(where, rule)
    return policy


def policy_hash(policy: Policy) -> str:
    """12 hex digits that change whenever the policy would decide differently."""
    left_out = {"about", "drift", "licence", "contact"} | ({"generated"} if policy.generated is None else set())
    values = policy.model_dump_json(exclude=left_out)
    return hashlib.sha256(values.encode()).hexdigest()[:12]


class _UniqueKeys(SafeLoader):
    """YAML in which duplicate keys are an error; PyYAML keeps the last one silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for place, key in enumerate(keys):
            if key.value in (earlier.value for earlier in keys[:place]):
                raise yaml.constructor.ConstructorError(
                    problem=f"{key.value!r} is given twice", problem_mark=key.start_mark
                )
        return super().construct_mapping(node, deep)


def _find(name_or_file: str, extending: tuple[Path, ...]) -> Path:
    if name_or_file.endswith((".yaml", ".yml")) or "/" in name_or_file:
        path = (extending[-1].parent if extending else Path()) / name_or_file
        if path.resolve() in [each.resolve() for each in extending]:
            raise BadPolicy(f"policy {name_or_file!r} extends itself; name another one")
        return path
    if name_or_file not in SHIPPED:
        raise BadPolicy(f"unknown policy {known_values(name_or_file, SHIPPED)} Or give a YAML file.")
    return SHIPPED[name_or_file]


def _first_problem(error: ValidationError) -> str:
    """Message of the first problem; an unknown key comes before the missing key it probably stands for."""
    problem = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
    place = ".".join(str(part + 1 if isinstance(part, int) else part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        section = _section(str(problem["loc"][0])) if len(problem["loc"]) > 1 else Policy
        return f"unknown key at {place}: {known_values(str(problem['loc'][-1]), section.model_fields)}"
    if problem["type"] == "model_type" and not place:
        return "it must have keys, `name:` and `rules:` at least"
    return f"{place or 'the whole file'}: {problem['msg']}"


def _section(name: str) -> type[Row]:
    annotation = Policy.model_fields[name].annotation
    named = (annotation, *get_args(annotation))
    return next((each for each in named if isclass(each) and issubclass(each, Row)), Policy)


def _type_of_column(where: str, rule: Rule) -> pl.DataType:
    """Type of the column that the rule reads. Raises BadPolicy if it does not exist for the rule's `over`."""
    table, _, column = rule.signal.partition(".")
    stated = stated_types()
    if table in stated:
        if column not in stated[table]:
            known = known_values(rule.signal, (f"{table}.{c}" for c in stated[table]))
            raise BadPolicy(f"{where}: unknown signal {known}")
        if rule.over != table:
            raise BadPolicy(
                f"{where}: {rule.signal} is known of the {table}, so over must be {table!r}, not {rule.over.value!r}"
            )
        return stated[table][column]
    if rule.signal not in _measured_types():
        raise BadPolicy(f"{where}: unknown signal {known_values(rule.signal, _measured_types())}")
    if rule.over not in _ON[table]:
        raise BadPolicy(
            f"{where}: {table} is measured on {', '.join(_ON[table])}, so over cannot be {rule.over.value!r}"
        )
    return _measured_types()[rule.signal]


_REDACTABLE = ("text_pii.types", "faces.confidence_max", "faces.area_fraction_max")
"""Signals that come with positions, so that their findings can be redacted."""


def _check_action(where: str, rule: Rule) -> None:
    """Raises BadPolicy if the rule cannot have its action."""
    if rule.action is Action.REDACT and rule.signal not in _REDACTABLE:
        raise BadPolicy(f"{where}: {rule.signal} cannot be redacted. Known: {', '.join(_REDACTABLE)}.")
    if rule.action is Action.REDACT and rule.scope is Scope.BATTLE:
        raise BadPolicy(f"{where}: what is redacted is a conversation, so scope must be 'conversation', not 'battle'")
    if rule.action is Action.HOLD and (rule.over is Over.BATTLE or rule.scope is Scope.BATTLE):
        raise BadPolicy(f"{where}: a battle is held with its sides; give the rule over the conversation's parts")


@cache
def _measured_types() -> dict[str, pl.DataType]:
    """`<signal>.<column>` -> its type, for all signals that policies can use."""
    return {f"{name}.{c}": dtype for name in _ON for c, dtype in frame_schema(SIGNALS[name]).items()}


def _check_comparison(where: str, rule: Rule, column: pl.DataType) -> None:
    """Raises BadPolicy if the comparison does not fit the column type."""
    fits = {
        "at_least": column.is_numeric(),
        "at_most": column.is_numeric(),
        "equals": column == (pl.Boolean if isinstance(rule.equals, bool) else pl.String),
        "contains_any": column == pl.List(pl.String) or (column == pl.List and rule.contains_any == []),
        "other_than": column == pl.String,
    }
    given = next(name for name in fits if getattr(rule, name) is not None)
    if not fits[given]:
        raise BadPolicy(f"{where}: {rule.signal} is {column}, which {given}: {getattr(rule, given)!r} cannot compare")
