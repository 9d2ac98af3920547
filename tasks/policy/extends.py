"""A policy file with `extends`: the keys and rules of another policy, with what the file changes, adds and removes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from schemas.errors import BadPolicy, known_values
from schemas.policy import COMPARISONS, Extension, Policy

_OWN = ("name", "about", "publishable")
"""Keys that a file does not take from the policy it extends: it must say itself that everybody may see the result."""
_NARROWER = ("signal", "over")
"""Keys that tell apart several rules with one reason."""

Keys = Mapping[str, Any]


def extended(content: Keys, load: Callable[[str], Policy]) -> dict[str, Any]:
    """The whole policy of a file that extends another, which `load` reads. Raises BadPolicy for an unknown reason."""
    own = {key: value for key, value in content.items() if key not in Extension.model_fields}
    extension = Extension.model_validate({key: content[key] for key in Extension.model_fields if key in content})
    base = load(extension.extends).model_dump(mode="json", exclude_unset=True, exclude=set(_OWN))
    base["rules"] = _without(base["rules"], extension)
    for key, value in own.items():
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


def _rules(base: Sequence[Keys], own: Any) -> Any:
    """The rules of `base`, changed by those of `own` with the same reason, then the others of `own`."""
    if not isinstance(own, list) or not all(isinstance(rule, dict) for rule in own):
        return own  # validation says what is wrong
    rules = list(base)
    for rule in own:
        place = _place(base, rule)
        if place is None:
            rules.append(rule)
        else:
            rules[place] = _changed(rules[place], rule)
    return rules


def _place(base: Sequence[Keys], rule: Keys) -> int | None:
    """Place of the rule of `base` that `rule` changes; None when it is a new one."""
    places = [place for place, each in enumerate(base) if each["reason"] == rule.get("reason")]
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
