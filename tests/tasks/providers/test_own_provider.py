"""A provider of another package: the example of docs/extending.md, and errors of unusable ones."""

import os
import pickle
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from schemas.errors import CurateError
from tasks.providers import PROVIDERS, Providers
from tasks.providers.capabilities import CAPABILITY_TYPES
from tasks.providers.cost import ItemSize, expected_use
from tasks.signals.registry import signal_of
from tests.builders import conversation, store_with

ROOT = Path(__file__).parents[3]
SECTION = (ROOT / "docs" / "extending.md").read_text("utf-8").partition("\n## A provider\n")[2].partition("\n## ")[0]
EXAMPLES = re.findall(r"```python\n(.*?)```", SECTION, re.S)
NAME = "my_package.colours:ColourGrid"
BROKEN = """
import no_such_dependency
"""
ODD = """
class Empty:
    pass

class NoVersion:
    version = ""
    def embed_images(self, images): ...

class Raises:
    def __init__(self):
        raise ValueError("secret words")
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The folder that holds the example as a package."""
    example, _ = EXAMPLES
    (tmp_path / "my_package").mkdir()
    for name, code in {"__init__": "", "colours": example, "broken": BROKEN, "odd": ODD}.items():
        (tmp_path / "my_package" / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_package"]:
        del sys.modules[name]


@pytest.fixture
def chosen(package):
    return Providers({"image_embedding": NAME})


def test_the_example_measures_and_the_signal_names_it(chosen, drawn_image):
    signal = signal_of("image_embedding", chosen)
    one, other = signal.values([drawn_image(1), drawn_image(2)])
    assert np.linalg.norm(one.vector) == pytest.approx(1, abs=1e-5)
    assert list(one.vector) != list(other.vector)
    assert NAME in signal.version and signal.version.endswith("-1")
    assert signal.provider == chosen.names["image_embedding"] == NAME


def test_a_worker_process_loads_it_again(chosen, package):
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer)['image_embedding'].version)"
    found = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(chosen),
        env=os.environ | {"PYTHONPATH": f"{package}{os.pathsep}{ROOT}"},
        capture_output=True,
        check=True,
    )
    assert found.stdout.decode().strip() == chosen["image_embedding"].version


def test_a_function_that_makes_one_is_taken_too_and_one_for_two_capabilities_must_fulfil_both(package, drawn_image):
    (package / "my_package" / "made.py").write_text("from my_package.colours import ColourGrid\nmake = ColourGrid\n")
    assert (
        len(Providers({"image_embedding": "my_package.made:make"})["image_embedding"].embed_images([drawn_image()]))
        == 1
    )
    providers = Providers({"image_embedding": NAME, "text_embedding": NAME})
    assert providers["image_embedding"].version
    with pytest.raises(CurateError, match="does not implement TextEmbedder: it lacks embed_texts"):
        _ = providers["text_embedding"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_package.x:Class", "no module 'no_such_package'"),
        ("my_package.none:Class", "no module 'my_package.none'"),
        ("my_package.broken:Class", "no module 'no_such_dependency'"),
        ("my_package.colours:ColorGrid", "has no 'ColorGrid'"),
        ("my_package.odd:Empty", "does not implement ImageEmbedder: it lacks embed_images, version"),
        ("my_package.odd:NoVersion", "it lacks version"),
        ("my_package.odd:Raises", "cannot be created (ValueError)"),
        (":", "cannot be created (ValueError)"),
        ("my_package.colours", "unknown provider"),
    ],
)
def test_what_cannot_be_used_is_one_clear_line(package, name, said):
    with pytest.raises(CurateError) as raised:
        _ = Providers({"image_embedding": name})["image_embedding"]
    assert said in str(raised.value)
    assert "\n" not in str(raised.value) and "secret" not in str(raised.value)
    assert raised.value.exit_status == 2


def test_doctor_names_it_and_a_missing_one_ends_a_run_before_any_work(package, curate, refused, monkeypatch, tmp_path):
    monkeypatch.setattr("tasks.providers.PROVIDERS", {"image_embedding": PROVIDERS["image_embedding"]})
    (tmp_path / "theirs/tags").mkdir(parents=True)
    (tmp_path / "theirs/tags/ocr.md").write_text("* `ocr`: it says something.\n")
    code, out, _ = curate("doctor", "--provider", f"image_embedding={NAME}", "--prompts", tmp_path / "theirs")
    assert code == 0
    assert re.search(r"replaced prompt tags/ocr +[0-9a-f]{8}\n", out) and "tags/humor" not in out
    assert re.search(rf"ready +image_embedding +{NAME} ", out)
    store = store_with(tmp_path, conversations=[conversation("c1", "Question?", "Answer.")])
    err = refused("measure", "--store", store.root, "--provider", "image_embedding=no_such_package:Class")
    assert "no_such_package" in err


def test_the_example_of_costs_counts_prompts_texts_and_images():
    said = {}
    exec(EXAMPLES[1], said)
    provider = SimpleNamespace(
        service="acme", expected_use=partial(said["expected_use"], SimpleNamespace(instructions="x y"))
    )
    use = expected_use(
        provider, [ItemSize("One word more.", ((8, 8),)), ItemSize("Hi.")], lambda text: len(text.split())
    )
    assert (use.calls, use.input_tokens, use.image_sizes, use.output_tokens) == (2, 8, [(8, 8)], 160)


def test_every_capability_has_a_protocol_and_a_line_of_the_page():
    assert set(CAPABILITY_TYPES) == set(PROVIDERS)
    table = (ROOT / "docs" / "models.md").read_text("utf-8")
    for capability, among in PROVIDERS.items():
        row = next(line for line in table.splitlines() if line.startswith(f"| {capability} |"))
        assert [name for name in among if name != "embedded" and name not in row] == []
        assert ("yes" in row) == ("embedded" in among)
