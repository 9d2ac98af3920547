"""The end of an error line, and settings: the wrong key, the given value, the known values, a suggestion."""

import ast
import json
import re
from datetime import date
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from flows.running.settings_file import keys_of
from schemas.errors import OPTIONS, BadInput, CurateError, known_values, on_command_line, spoken, why_refused
from schemas.policy import Rename
from schemas.rating import RatingMethod
from schemas.row import Row
from schemas.settings import EvaluateSettings, Settings


def test_a_near_miss_of_a_known_value_is_suggested():
    assert known_values("nsfw_imge", ["nsfw_image", "faces"]) == (
        "'nsfw_imge'. Known: faces, nsfw_image. Did you mean nsfw_image?"
    )


def test_nothing_is_suggested_for_a_value_unlike_all_known_ones():
    assert known_values("zzz", ["faces", "nsfw"]) == "'zzz'. Known: faces, nsfw."


@pytest.mark.parametrize("control", ["\n", "\x1b"])
def test_a_given_value_brings_no_control_character_into_its_error(control):
    assert control not in known_values("a\nb\x1b[31m", ["faces"])


ROOT = Path(__file__).parents[2]
WINDOW = {"since": "2024-06-30", "until": "2024-06-01"}
OF_COMMANDS_ALONE = {
    "board", "no-deps", "column", "user", "out", "orders", "against", "answer-version", "judge-version", "renames",
    "export", "with-explorer", "reviewer", "bench", "answers", "model", "votes", "battles", "language",
    "older", "category", "like", "like-width", "among", "resources", "repo-per-config",
}  # fmt: skip
"""Options in errors that only commands raise, pip's, and Dask's."""


@pytest.fixture
def window_error(monkeypatch) -> BadInput:
    """The error of a window that ends before it starts, outside any flow."""
    monkeypatch.delenv("PREFECT__FLOW_RUN_ID", raising=False)
    with pytest.raises(BadInput) as refused:
        Settings(store="s", **WINDOW)
    return refused.value


def test_an_error_names_arguments_in_python(window_error):
    assert str(window_error) == "until=2024-06-01 is before since=2024-06-30; give the earlier day as since"


def test_an_error_names_options_on_the_command_line(window_error):
    with on_command_line():
        assert str(window_error) == "--until 2024-06-01 is before --since 2024-06-30; give the earlier day as --since"


def test_an_error_names_fields_in_a_flow(window_error, monkeypatch):
    monkeypatch.setenv("PREFECT__FLOW_RUN_ID", "0")
    assert str(window_error).startswith('field "until" 2024-06-01 is before field "since" 2024-06-30; give')


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("give --provider categories=openai", 'give providers={"categories": "openai"}'),
        ("add --set task_runner=dask", "add task_runner=dask"),
        ("add --set topics.engine=umap, --set bench.size: 3", 'add topics={"engine": "umap"}, bench.size: 3'),
        ("run again with --accept-drift", "run again with accept_drift=True"),
        ("--budget: no price; give --prices FILE", "budget_usd: no price; give prices=FILE"),
    ],
)
def test_an_error_turns_options_into_arguments_in_python(monkeypatch, text, said):
    monkeypatch.delenv("PREFECT__FLOW_RUN_ID", raising=False)
    assert spoken(text) == said


@pytest.fixture
def of_worker(monkeypatch):
    """Errors are read in a run of a worker."""
    monkeypatch.setenv("PREFECT__FLOW_RUN_ID", "0")


def pasted(text: str) -> dict[str, Any]:
    """What somebody types into the form of a deployment who reads a text: field -> its value."""
    (place,) = re.finditer(r'field "(\w+)" ', text)
    return {place[1]: json.JSONDecoder().raw_decode(text[place.end() :])[0]}


OF_SECTIONS = [
    (section, key, default.default)
    for section, field in Settings.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Row)
    for key, default in field.annotation.model_fields.items()
    if isinstance(default.default, bool | int | float | str | None)
]
"""Keys of sections that have a single value, and their defaults."""


@pytest.mark.usefixtures("of_worker")
@pytest.mark.parametrize(("section", "key", "value"), OF_SECTIONS)
def test_a_key_of_a_section_is_pasted_into_the_field_of_its_section(section, key, value):
    typed = {"True": "yes", "False": "no", "None": "none", "": "''"}.get(str(value), value)
    assert pasted(spoken(f"give --set {section}.{key}={typed}, or wait")) == {section: {key: value}}


SWITCHES = [
    name
    for name, field in Settings.model_fields.items()
    if isinstance(field.default, bool) and not name.startswith("accept_")
]
"""Settings that are on or off; those that accept something have an option of their own."""


@pytest.mark.usefixtures("of_worker")
@pytest.mark.parametrize(("typed", "value"), [("yes", True), ("no", False), ("none", None)])
@pytest.mark.parametrize("key", SWITCHES)
def test_a_setting_that_is_switched_is_pasted_as_a_value_of_json(key, typed, value):
    assert pasted(spoken(f"left out (--set {key}={typed} takes them)")) == {key: value}


@pytest.mark.parametrize(("typed", "said"), [("yes", "True"), ("no", "False"), ("none", "None")])
def test_a_setting_that_is_switched_is_an_argument_of_python(monkeypatch, typed, said):
    monkeypatch.delenv("PREFECT__FLOW_RUN_ID", raising=False)
    assert spoken(f"left out (--set test_sets={typed} takes them)") == f"left out (test_sets={said} takes them)"


@pytest.mark.usefixtures("of_worker")
@pytest.mark.parametrize("provider", ["openai", "openai-gpt-5-mini", "google-gemini-2.5-flash", "anthropic-claude-4.5"])
def test_a_limit_of_a_provider_is_pasted_into_the_field_of_all_limits(provider):
    line = spoken(f"above --set month_usd_max_by.{provider}=2.5. Raise it")
    assert Settings(store="s", **pasted(line)).month_usd_max_by == {provider: 2.5}


@pytest.mark.usefixtures("of_worker")
@pytest.mark.parametrize("option", ["accept-drift", "accept-shrunk"])
def test_what_is_accepted_is_pasted_as_true(option):
    assert pasted(spoken(f"run once with --{option}")) == {option.replace("-", "_"): True}


@pytest.mark.usefixtures("of_worker")
def test_an_option_of_models_that_are_compared_is_pasted_into_their_section():
    assert pasted(spoken("give --sample 20; then")) == {"evaluate": {"sample": 20}}


@pytest.mark.parametrize(
    "text", ["make one with `curate run --logs DIR`", "--since-forever and pip install --no-deps x"]
)
def test_an_error_leaves_commands_as_they_are_in_python(monkeypatch, text):
    monkeypatch.delenv("PREFECT__FLOW_RUN_ID", raising=False)
    assert spoken(text) == text


def test_every_option_is_a_setting_or_a_parameter():
    import arena_curation
    from flows.publish import publish
    from tasks.leaderboard.rating_tables import RatingTables

    known = {*Settings.model_fields, *signature(publish.fn).parameters, *signature(RatingTables).parameters}
    known |= {name for function in ("rate", "sql") for name in signature(getattr(arena_curation, function)).parameters}
    known |= {f"evaluate.{name}" for name in EvaluateSettings.model_fields}
    named = {spoken(f"--{option}").removesuffix("=True") for option in OPTIONS}
    assert named - known == set()


ERRORS = {error.__name__ for error in [CurateError, *CurateError.__subclasses__()]}


def _texts(path: Path) -> list[str]:
    """Texts in the errors that a module raises or makes."""
    errors = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    named = [call for call in errors if isinstance(call.func, ast.Name) and call.func.id in ERRORS]
    return ["".join(n.value for n in ast.walk(call) if isinstance(n, ast.Constant) and isinstance(n.value, str))
            for call in named]  # fmt: skip


@pytest.fixture(scope="module")
def error_texts() -> list[str]:
    """Texts in the errors of tasks, schemas, and flows, without the commands in them."""
    files = [*(ROOT / "tasks").rglob("*.py"), *(ROOT / "schemas").rglob("*.py"), *(ROOT / "flows").glob("*.py"),
             *(ROOT / "flows" / "running").rglob("*.py")]  # fmt: skip
    return [re.sub(r"`[^`]*`", "", text) for file in files for text in _texts(file)]


def test_every_setting_that_an_error_names_is_one(error_texts):
    named = {key for text in error_texts for key in re.findall(r"--set ([a-z_.]+\w)", text)}
    assert {"generate.general", "task_runner_address"} <= named <= set(keys_of())


def test_every_option_in_an_error_of_a_task_or_flow_has_words_for_all_interfaces(error_texts):
    texts = [text.replace("--set ", "") for text in error_texts]
    named = {option for text in texts for option in re.findall(r"--([a-z][a-z-]*[a-z])", text)}
    assert {"since", "images"} <= named
    assert named - set(OPTIONS) - OF_COMMANDS_ALONE == set()


def test_settings_that_are_not_given_have_values():
    settings = Settings(store="s")
    assert settings.policy == "public_release"
    assert settings.workers >= 1
    assert settings.providers == {}


def test_settings_without_a_store_are_refused():
    with pytest.raises(BadInput, match="store is not given"):
        Settings()


@pytest.mark.parametrize(
    ("row", "values", "said"),
    [
        (Rename, {"model": "a", "to": "b", "since": "yesterday"}, "since must be a day or a time, such as 2024-06-01"),
        (Rename, {"model": "a", "to": "b", "until": []}, "until must be a day or a time, such as 2024-06-01"),
        (Rename, {"model": "", "to": "b"}, "model must have at least 1 character(s)"),
        (Rename, {"to": "b"}, "model is missing"),
        (RatingMethod, {"elo_k": 0}, "elo_k must be more than 0.0"),
    ],
)
def test_what_a_model_refuses_is_said_in_words_of_ours(row, values, said):
    with pytest.raises(ValidationError) as refused:
        row(**values)
    assert why_refused(refused.value).startswith(said)


def test_of_an_error_of_several_lines_the_first_is_said():
    assert why_refused(BadInput("one line\nand another")) == "one line"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("since", "yesterday"), ("workers", 0), ("bench", {"size": -1}), ("bench", {"hidden_epoch": "2024-13"}),
        ("bench", {"hidden_fraction": 0.6}), ("providers", ["nsfw"]), ("topics", {"members_min": 1}),
        ("topics", {"image_weight": 1.5}), ("topics", {"clusters": 5}), ("no_such_key", 1),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused_by_the_name_of_its_key(key, value):
    with pytest.raises(ValidationError) as refused:
        Settings.model_validate({"store": "s", key: value})
    (problem,) = refused.value.errors()
    inner = list(value) if isinstance(value, dict) else []
    assert problem["loc"] == (key, *inner)


def test_a_window_that_ends_before_it_starts_is_one_clear_line():
    with pytest.raises(BadInput) as refused:
        Settings(store="s", since=date(2024, 9, 18), until=date(2024, 9, 17))
    text = str(refused.value)
    assert "2024-09-18" in text and "2024-09-17" in text and "\n" not in text
    assert isinstance(refused.value, CurateError)
