"""The commands of docs/upgrading.md, "Going back": to a new version, and to the earlier one again."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.layout import LAYOUT
from tasks.storage.layout import stated_layout
from tasks.storage.tables import Store
from tests.older_store import EARLIER, make_older
from tests.places import ROOT, contents
from tests.small_store import small_store

_GUIDE = (ROOT / "docs" / "upgrading.md").read_text("utf-8").partition("\n## Going back\n")[2].partition("\n## ")[0]
_BLOCKS = re.findall(r"^ *```bash\n(.*?)^ *```", _GUIDE, re.DOTALL | re.MULTILINE)
_FOLDER = "/srv/curation"


def _block(words: str) -> str:
    """The one block of commands that has these words."""
    (block,) = (block for block in _BLOCKS if words in block)
    return block


def _typed(block: str, folder: Path) -> None:
    """Run the lines of a block, with the folder of the guide at another place, until one fails."""
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "PYTHONPATH": str(ROOT),  # the environment's own folder of code may be another one
        "HOME": str(folder),
    }
    lines = block.replace(_FOLDER, str(folder))
    done = subprocess.run(["bash", "-e"], input=lines, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_new_version_gets_a_copy_under_the_stores_name_until_the_earlier_store_has_it_again(tmp_path):
    store = make_older(small_store(tmp_path))
    (tmp_path / "curate.yaml").write_text("store: store\n")
    before = contents(Path(store.root))
    _typed(_block("curate migrate store-before"), tmp_path)
    assert stated_layout(Store(store.root)).layout == LAYOUT, "services read the migrated store where they read before"
    assert contents(tmp_path / "store-before") == before
    _typed(_block("mv store-before store"), tmp_path)
    assert stated_layout(Store(store.root)) == EARLIER
    assert contents(Path(store.root)) == before
    assert (tmp_path / "curate.yaml").read_text() == "store: store\n"


def test_containers_migrate_the_folder_that_services_do():
    of_services = next(line for line in _block("curate migrate store-before").splitlines() if "curate migrate" in line)
    of_containers = next(line for line in _block("worker migrate").splitlines() if "worker migrate" in line)
    options = of_containers.partition(" run ")[2].partition(" worker ")
    assert '--entrypoint "curate"' in options[0] and "--no-deps" in options[0]
    assert shlex.split(options[2].replace("/data/", "")) == shlex.split(of_services)[1:]


@pytest.mark.skipif(not shutil.which("docker-compose"), reason="docker-compose is not installed")
def test_the_image_that_was_kept_is_the_one_that_starts_again(tmp_path):
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    example = (tmp_path / "deploy" / "curate.env.example").read_text("utf-8")
    filled = re.sub(r"=( +#.*)?$", "=something", example, flags=re.MULTILINE)
    (tmp_path / "deploy" / "curate.env").write_text(re.sub(r" +#.*$", "", filled, flags=re.MULTILINE), "utf-8")
    tag, started = shlex.split(_block("docker tag")), _block("CURATE_TARGET=").strip()
    assert started.endswith(" up -d --no-build"), "the files of the clone are those of the new version"

    def images(command: str) -> set[str]:
        """The images of ours that `up` would start."""
        shown = command.replace("docker compose", "docker-compose").replace("up -d --no-build", "config")
        done = subprocess.run(
            ["bash", "-c", shown], cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return set(re.findall(r"image: (arena-curation:.+)", done.stdout))

    assert images(started.partition(" ")[2]) == {tag[2]}
    assert images(started) == {tag[3]}
