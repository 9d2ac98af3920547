"""Runs the `RUN` lines of deploy/Dockerfile in a bare Debian root, without Docker: `python -m tests.image_root`.

In: the Dockerfile, and the files that .dockerignore lets through. Out: the packages that the image would hold, in a
folder that is removed again, and a line of `deploy/image-checked.txt` for the target and for each that it is made from,
which a test compares with what the lines are run on: whoever changes that runs this again.
It needs root, debootstrap and a network, and takes minutes.

The root is Debian's with this machine's Python in `/usr/local`, where the image's base has one of python.org: that of
Debian, 3.11.2, is older than the pins of `production` take. So the machine is a Debian of the same release, or an older
one. `COPY`, `USER`, `ENV` and `WORKDIR` are done as Docker does; no layer is made.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.docker_context import context_files

ROOT = Path(__file__).parents[1]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
CHECKED = ROOT / "deploy" / "image-checked.txt"
SUITE = "bookworm"
BASE_PACKAGES = "ca-certificates,python3,python3-dev,python3-pip,python3-venv"
"""What Debian needs to stand in for the image's base: its Python brings the libraries that another one uses."""
FROM_HOST = (
    "/etc/resolv.conf",
    "/etc/pip.conf",
    str(Path.home() / ".config" / "pip"),
    "/etc/uv",
    "/etc/ssl/certs/ca-certificates.crt",
)
"""How the machine reaches its package registries; nothing of it stays in an image."""


@dataclass
class Stage:
    """One `FROM … AS name` of a Dockerfile."""

    name: str
    parent: str
    instructions: list[tuple[str, str]] = field(default_factory=list)
    """Instruction and its text, in order."""


def stages_of(dockerfile: str) -> dict[str, Stage]:
    """Name -> stage. Lines that end in a backslash are one; comments are left out."""
    code = re.sub(r"^\s*#.*\n", "", dockerfile, flags=re.MULTILINE).replace("\\\n", " ")
    stages = dict[str, Stage]()
    for line in filter(str.strip, code.splitlines()):
        instruction, _, text = line.strip().partition(" ")
        if instruction == "FROM":
            parent, _, name = text.partition(" AS ")
            stages[name] = Stage(name, parent)
        elif instruction != "ARG":
            list(stages.values())[-1].instructions.append((instruction, text.strip()))
    return stages


def instructions_of(stages: dict[str, Stage], target: str) -> list[tuple[str, str]]:
    """The instructions of a stage after those of the stages that it is made from."""
    stage = stages[target]
    before = instructions_of(stages, stage.parent) if stage.parent in stages else []
    return [*before, *stage.instructions]


def fingerprint(target: str) -> str:
    """SHA-256 of what decides what a target's lines do: Dockerfile, context's list, Makefile, dependencies, pins.

    Of the dependencies those that its lines install: the package's own, and the extras that a line names.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    dependencies = [project["dependencies"], *(project["optional-dependencies"][extra] for extra in extras_of(target))]
    paths = [
        DOCKERFILE,
        *(ROOT / name for name in (".dockerignore", "constraints.txt", "Makefile", "deploy/worker.sh")),
    ]
    files = [path.read_bytes() for path in paths]
    return hashlib.sha256(b"\0".join([*files, json.dumps(dependencies).encode()])).hexdigest()


def extras_of(target: str) -> list[str]:
    """Extras of the package that the `RUN` lines of a target name."""
    commands = " ".join(text for name, text in instructions_of(stages_of(_dockerfile()), target) if name == "RUN")
    return [extra for names in re.findall(r"\.\[([\w,]+)\]", commands) for extra in names.split(",")]


def _dockerfile() -> str:
    return DOCKERFILE.read_text("utf-8")


def checked() -> dict[str, str]:
    """Target -> `fingerprint` when its lines were run last."""
    return dict(line.split() for line in CHECKED.read_text("utf-8").splitlines())


def make_bare_debian(root: Path) -> None:
    """A root of Debian that has this machine's Python and knows how this machine reaches its registries."""
    bootstrap = ["debootstrap", "--variant=minbase", f"--include={BASE_PACKAGES}", SUITE, str(root)]
    subprocess.run(bootstrap, check=True, stdout=subprocess.DEVNULL)
    installed = shutil.ignore_patterns("site-packages", "__pycache__", "test")
    shutil.copytree(sys.base_prefix, root / "usr" / "local", symlinks=True, ignore=installed, dirs_exist_ok=True)
    subprocess.run(["chroot", str(root), "ldconfig"], check=True)
    for name in FROM_HOST:
        there = root / name.strip("/")
        if Path(name).is_dir():
            shutil.copytree(name, there, dirs_exist_ok=True)
        elif Path(name).is_file():
            shutil.copyfile(name, there)


def mount_in(root: Path, folders: Sequence[str]) -> None:
    """Show folders of this machine in the root. Only in a mount namespace of its own, where removing it is safe."""
    for name in folders:
        (root / name.strip("/")).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "--rbind", name, f"{root}{name}"], check=True)


class Image:
    """What the instructions before have made: folder, user and environment of the next one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = "/"
        self.user = "root"
        certificates = {
            "PIP_CERT": "/etc/ssl/certs/ca-certificates.crt",
            "SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt",
        }
        of_host = {name: os.environ[name] for name in ("PIP_FIND_LINKS", "PIP_INDEX_URL") if name in os.environ}
        self.environment = (
            {"PATH": "/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin", "HOME": "/root"} | certificates | of_host
        )

    def do(self, instruction: str, text: str) -> None:
        """Carry out one instruction. Raises CalledProcessError when a `RUN` line fails."""
        if instruction == "RUN":
            self.run(text)
        elif instruction == "WORKDIR":
            self.folder = text
            (self.root / text.strip("/")).mkdir(parents=True, exist_ok=True)
        elif instruction == "USER":
            self.user = text
            self.environment["HOME"] = f"/home/{text}"
        elif instruction == "ENV":
            for name, value in re.findall(r"(\w+)=(\S+)", text):
                self.environment[name] = value.replace("$PATH", self.environment["PATH"])
        elif instruction == "COPY":
            self._copy(text)
        elif instruction not in ("VOLUME", "ENTRYPOINT", "CMD"):
            raise SystemExit(f"deploy/Dockerfile: {instruction} is not known here; add it to tests/image_root.py")

    def run(self, command: str) -> None:
        """Run a command of a shell as Docker does."""
        inside = ["chroot", f"--userspec={self.user}:{self.user}", str(self.root)]
        shell = ["sh", "-c", f"cd {self.folder} && {command}"]
        subprocess.run([*inside, *shell], check=True, env=self.environment, stdin=subprocess.DEVNULL)

    def _copy(self, text: str) -> None:
        owner = re.search(r"--chown=(\w+)", text)
        target = self.root / self.folder.strip("/")
        for name in sorted(context_files(ROOT, tracked_files())):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
        if owner:
            self_owned = ["chroot", str(self.root), "chown", "-R", f"{owner[1]}:{owner[1]}", self.folder]
            subprocess.run(self_owned, check=True)


def tracked_files() -> list[str]:
    """The files of the clone that git knows."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return [name for name in listed.split("\0") if name]


def build_in(root: Path, target: str, packages: Sequence[str]) -> None:
    """Run every line of the targets that a target is made from, and its own; after each target's the command.

    What ran is noted in `deploy/image-checked.txt` as its target ends.
    """
    mount_in(root, ["/proc", "/dev", *packages])
    image, stages = Image(root), stages_of(_dockerfile())
    names = [target]
    while stages[names[0]].parent in stages:
        names.insert(0, stages[names[0]].parent)
    fingerprints = {name: fingerprint(name) for name in names}
    for name in names:
        for instruction, text in stages[name].instructions:
            sys.stdout.write(f"{instruction} {text}\n")
            sys.stdout.flush()
            image.do(instruction, text)
        image.run("curate --help >/dev/null && curate doctor; test $? -le 1 && id -u && du -sm .venv")
        lines = checked() | {name: fingerprints[name]}
        CHECKED.write_text("".join(f"{each} {line}\n" for each, line in lines.items()), "utf-8")


def main() -> None:
    """Make the root, and build in it in a mount namespace of its own, which ends before the root is removed."""
    parser = argparse.ArgumentParser(prog="python -m tests.image_root", description=__doc__.partition("\n")[0])
    parser.add_argument("--target", default="production", help="Stage of the Dockerfile: core, production or gpu.")
    parser.add_argument(
        "--packages", action="append", default=[], metavar="DIR", help="Folder of packages of this machine."
    )
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        build_in(given.inside, given.target, given.packages)
        return
    if os.geteuid() or not shutil.which("debootstrap"):
        sys.exit("the lines of the Dockerfile are run in a bare Debian root: that needs root and debootstrap")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="image-") as folder:
        make_bare_debian(Path(folder) / "root")
        again = [sys.executable, "-m", "tests.image_root", "--inside", f"{folder}/root", "--target", given.target]
        of_machine = [word for name in given.packages for word in ("--packages", name)]
        built = subprocess.run(["unshare", "--mount", *again, *of_machine], cwd=ROOT, check=False)
    if built.returncode:
        sys.exit(f"a line of deploy/Dockerfile failed (exit {built.returncode}); see above")
    sys.stdout.write(f"every line of {given.target} ran; {time.monotonic() - started:.0f} s\n")


if __name__ == "__main__":
    main()
