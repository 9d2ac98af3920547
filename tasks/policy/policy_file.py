"""Policy files: loaded by name or path, completed from the policy that they extend, validated against the signals."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import isclass
from pathlib import Path
from typing import Any, get_args

import polars as pl
import yaml
from pydantic import ValidationError

from schemas.asked_model import ArenaModel
from schemas.errors import BadPolicy, known_values, problem_in_words, why_unreadable
from schemas.policy import COMPARISONS, Action, Extension, ModelFacts, Over, Policy, Rule, Scope
from schemas.row import Row
from schemas.tables import SIGNALS
from tasks.policy import SHIPPED_POLICIES
from tasks.policy.rules import DESCRIBED_ON, MEASURED_ON, stated_types
from tasks.runtime.untrusted import UniqueKeys, parse_yaml, read_models_list, why_no_yaml
from tasks.storage.tables import frame_schema

Keys = Mapping[str, Any]
_OWN = ("name", "about", "publishable")
"""Keys that a file does not take from the policy it extends: it must say itself that everybody may see the result."""
_NARROWER = ("signal", "over")
"""Keys that tell apart several rules with one reason."""
_PATH = re.compile(r"[/~.\\]|[A-Za-z]:[\\/]|\w+://")
"""Begins a place on a server, which some servers take as the name of a model; it goes into no release."""
_ON = MEASURED_ON | DESCRIBED_ON
"""Signal -> the parts it is measured on."""


def load_policy(name_or_file: str) -> Policy:
    """A shipped policy by name, or a YAML file. Raises BadPolicy with the first problem found."""
    return _load(name_or_file, ())


def _load(name_or_file: str, extending: tuple[Path, ...]) -> Policy:
    """Load a policy; `extending` are the files that extend it, the last one directly."""
    path = _find(name_or_file, extending)
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"), UniqueKeys)
        if isinstance(content, dict) and "extends" in content:
            content = _extended(content, lambda base: _load(base, (*extending, path)))
        if isinstance(content, dict) and isinstance(listed := content.get("open_models"), str):
            models = read_models_list(path.parent / listed, ArenaModel, "docs/models.md", {})
            content["open_models"] = [model.name for model in models if model.open]
        if isinstance(content, dict) and isinstance(listed := content.get("models"), str):
            content["models"] = _model_facts(path.parent / listed)
        policy = Policy.model_validate(content)
    except (OSError, UnicodeDecodeError) as error:
        raise BadPolicy(f"policy {name_or_file!r} cannot be read ({why_unreadable(error)})") from None
    except yaml.YAMLError as error:
        raise BadPolicy(f"policy {name_or_file!r} is not YAML: {why_no_yaml(error)}") from None
    except ValidationError as error:
        raise BadPolicy(f"policy {name_or_file!r}: {_first_problem(error, content)}") from None
    for number, rule in enumerate(policy.rules, 1):
        where = f"policy {policy.name!r}, rule {number} ({rule.reason})"
        _check_comparison(where, rule, _type_of_column(where, rule))
        _check_action(where, rule)
    return policy


def _extended(content: Keys, load: Callable[[str], Policy]) -> dict[str, Any]:
    """The whole policy of a file that extends another, which `load` reads. Raises BadPolicy for an unknown reason."""
    file_keys = {key: value for key, value in content.items() if key not in Extension.model_fields}
    extension = Extension.model_validate({key: content[key] for key in Extension.model_fields if key in content})
    base = load(extension.extends).model_dump(mode="json", exclude_unset=True, exclude=set(_OWN))
    base["rules"] = _without(base["rules"], extension)
    for key, value in file_keys.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        base[key] = base[key] | value if both else _rules(base["rules"], value) if key == "rules" else value
    return base


def _without(rules: Sequence[Keys], extension: Extension) -> list[Keys]:
    """The rules that are not removed. A file may remove a reason and give all its rules itself."""
    reasons = [str(rule["reason"]) for rule in rules]
    for reason in extension.remove:
        if reason not in reasons:
            raise BadPolicy(f"remove: no rule of {extension.extends!r} has the reason {known_values(reason, reasons)}")
    return [rule for rule in rules if rule["reason"] not in extension.remove]


def _rules(base: Sequence[Keys], changes: Any) -> Any:
    """The rules of `base`, changed by those of `changes` with the same reason, then the others of `changes`."""
    if not isinstance(changes, list) or not all(isinstance(rule, dict) for rule in changes):
        return changes  # validation says what is wrong
    rules = list(base)
    for rule in changes:
        place = _place(base, rule)
        if place is None:
            _require_whole(base, rule)
            rules.append(rule)
        else:
            rules[place] = _changed(rules[place], rule)
    return rules


def _require_whole(base: Sequence[Keys], rule: Keys) -> None:
    """Raises BadPolicy for a rule without signal: its reason is misspelt, since a new rule must have one."""
    if "reason" in rule and "signal" not in rule:
        reasons = {str(other["reason"]) for other in base}
        raise BadPolicy(
            f"rules: nothing to change, no rule has the reason {known_values(str(rule['reason']), reasons)} "
            "A new rule needs signal, over and a comparison."
        )


def _place(base: Sequence[Keys], rule: Keys) -> int | None:
    """Place of the rule of `base` that `rule` changes; None when it is a new one."""
    places = [place for place, base_rule in enumerate(base) if base_rule["reason"] == rule.get("reason")]
    for key in _NARROWER:
        if key in rule and (key == _NARROWER[0] or len(places) > 1):
            places = [place for place in places if base[place][key] == rule[key]]
    if len(places) > 1:
        raise BadPolicy(
            f"rules: {len(places)} rules have the reason {rule.get('reason')!r}; give signal and over of the one to "
            "change, or remove the reason and give all its rules"
        )
    return places[0] if places else None


def _changed(rule: Keys, by: Keys) -> dict[str, Any]:
    """The rule with the given keys; a given comparison takes the place of the rule's own."""
    compared = any(key in by for key in COMPARISONS)
    return {key: value for key, value in rule.items() if not (compared and key in COMPARISONS)} | dict(by)


def _model_facts(path: Path) -> Any:
    """The mapping in a file: model -> its facts. An arena's models file, which has a list `models`, has them, too."""
    content = parse_yaml(path.read_text(encoding="utf-8"), UniqueKeys)
    if not (isinstance(content, dict) and isinstance(content.get("models"), list)):
        return content
    models = read_models_list(path, ArenaModel, "docs/models.md", {})
    facts = {*ModelFacts.model_fields}
    versions = {model.name: None if _PATH.match(model.asked_as) else model.asked_as for model in models}
    return {model.name: model.model_dump(include=facts) | {"version": versions[model.name]} for model in models}


def _find(name_or_file: str, extending: tuple[Path, ...]) -> Path:
    if name_or_file.endswith((".yaml", ".yml")) or "/" in name_or_file:
        path = (extending[-1].parent if extending else Path()) / name_or_file
        if path.resolve() in [extending_file.resolve() for extending_file in extending]:
            raise BadPolicy(f"policy {name_or_file!r} extends itself; name another one")
        return path
    if name_or_file not in SHIPPED_POLICIES:
        raise BadPolicy(f"unknown policy {known_values(name_or_file, SHIPPED_POLICIES)} Or give a YAML file.")
    return SHIPPED_POLICIES[name_or_file]


def _first_problem(error: ValidationError, content: Any) -> str:
    """Message of the first problem; an unknown key comes before the missing key it probably stands for."""
    problem = min(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
    parts = [str(part + 1 if isinstance(part, int) else part) for part in problem["loc"]]
    if parts[:1] == ["rules"] and len(parts) > 1:  # by its reason: a number counts the rules of the policy below, too
        rule = content["rules"][problem["loc"][1]]
        parts[:2] = [f"rule {rule['reason']!r}"] if isinstance(rule, dict) and "reason" in rule else parts[:2]
    place = ".".join(parts)
    if problem["type"] == "extra_forbidden":
        section = _section(str(problem["loc"][0])) if len(problem["loc"]) > 1 else Policy
        return f"unknown key at {place}: {known_values(str(problem['loc'][-1]), section.model_fields)}"
    if problem["type"] == "model_type" and not place:
        return "it must have keys, `name:` and `rules:` at least"
    return f"{place or 'the whole file'}: {problem_in_words(problem)}"


def _section(name: str) -> type[Row]:
    annotation = Policy.model_fields[name].annotation
    named = (annotation, *get_args(annotation))
    return next((kind for kind in named if isclass(kind) and issubclass(kind, Row)), Policy)


def _type_of_column(where: str, rule: Rule) -> pl.DataType:
    """Type of the column that the rule reads. Raises BadPolicy if it does not exist for the rule's `over`."""
    table, _, column = rule.signal.partition(".")
    stated = stated_types()
    if table in stated:
        if column not in stated[table]:
            known_names = known_values(rule.signal, (f"{table}.{c}" for c in stated[table]))
            raise BadPolicy(f"{where}: unknown signal {known_names}")
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
    if rule.models and (rule.over is Over.BATTLE or rule.action is Action.REDACT):
        raise BadPolicy(
            f"{where}: models tells conversations apart, of rules that drop, tag or hold them; leave it out"
        )
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
        "other_than": column in (pl.String, pl.List(pl.String)),
    }
    comparison = next(name for name in fits if getattr(rule, name) is not None)
    if not fits[comparison]:
        raise BadPolicy(
            f"{where}: {rule.signal} is {column}, which {comparison}: {getattr(rule, comparison)!r} cannot compare"
        )
