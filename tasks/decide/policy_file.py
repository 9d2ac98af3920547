"""Policy files: found by name or path, checked against the signals that exist before anything is decided."""

import hashlib
from pathlib import Path

import yaml
from pydantic import ValidationError

from schemas.errors import BadPolicy, known_values
from schemas.policy import Over, Policy, Rule
from schemas.row import arrow_schema
from schemas.tables import SIGNALS
from tasks.decide.facts import BATTLE_FACTS, CONVERSATION_FACTS

_SHIPPED = Path(__file__).parent / "policies"
_TABLES = {"conversation": CONVERSATION_FACTS, "battle": BATTLE_FACTS}


def load_policy(name_or_file: str) -> Policy:
    """A shipped policy by name, or a YAML file. Raises BadPolicy with the first thing that is wrong."""
    path = _find(name_or_file)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        policy = Policy.model_validate(content)
    except (OSError, UnicodeDecodeError) as error:
        raise BadPolicy(f"policy {name_or_file!r} cannot be read ({type(error).__name__})") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}" if mark else "somewhere"
        raise BadPolicy(f"policy {name_or_file!r} is not YAML: {where}") from None
    except ValidationError as error:
        raise BadPolicy(f"policy {name_or_file!r}: {_first_problem(error)}") from None
    for number, rule in enumerate(policy.rules, 1):
        _check_signal(policy.name, number, rule)
    return policy


def policy_hash(policy: Policy) -> str:
    """12 hex digits that change whenever the policy would decide differently."""
    return hashlib.sha256(policy.model_dump_json(exclude={"about"}).encode()).hexdigest()[:12]


def _find(name_or_file: str) -> Path:
    if name_or_file.endswith((".yaml", ".yml")) or "/" in name_or_file:
        return Path(name_or_file)
    shipped = {path.stem: path for path in _SHIPPED.glob("*.yaml")}
    if name_or_file not in shipped:
        raise BadPolicy(f"unknown policy {known_values(name_or_file, shipped)} Or give a YAML file.")
    return shipped[name_or_file]


def _first_problem(error: ValidationError) -> str:
    problem = error.errors()[0]
    place = ".".join(str(part + 1 if isinstance(part, int) else part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        model = Rule if problem["loc"][0] == "rules" else Policy
        return f"unknown key at {place}: {known_values(str(problem['loc'][-1]), model.model_fields)}"
    return f"{place}: {problem['msg']}"


def _check_signal(policy: str, number: int, rule: Rule) -> None:
    where = f"policy {policy!r}, rule {number} ({rule.reason})"
    table, _, column = rule.signal.partition(".")
    if table in _TABLES:
        if column not in _TABLES[table]:
            raise BadPolicy(
                f"{where}: unknown fact {known_values(rule.signal, (f'{table}.{c}' for c in _TABLES[table]))}"
            )
        if rule.over != table:
            raise BadPolicy(
                f"{where}: {rule.signal} is a fact of the {table}, so over must be {table!r}, not {rule.over!r}"
            )
        return
    known = [f"{name}.{c}" for name, value in SIGNALS.items() for c in arrow_schema(value).names]
    if rule.signal not in known:
        raise BadPolicy(f"{where}: unknown signal {known_values(rule.signal, known)}")
    if rule.over in (Over.CONVERSATION, Over.BATTLE):
        raise BadPolicy(
            f"{where}: {rule.signal} is measured on parts of a conversation, so over cannot be {rule.over!r}"
        )
