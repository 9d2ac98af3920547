"""Makes a small store with a release, as this version writes it, for the tests of later versions.

    python -m tests.stores.make          # writes tests/stores/MINOR/store.tar.xz

Run it in a checkout of a release. Everything in it is drawn: logs, images, a verdict of a person, answers of models and
verdicts on them. One conversation was taken down before the release was made.
"""

import sys
import tarfile
import tempfile
import tomllib
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

from flows.commands.pipeline import curate_all
from schemas.items.review import Review
from schemas.settings import BenchSettings, EvaluateSettings, Settings, TopicSettings
from tasks.demo.answers import BASELINE
from tasks.demo.arena import generate_arena
from tasks.storage.lock import writing
from tasks.storage.reviews import keep
from tasks.storage.tables import Store
from tasks.takedown.take_down import take_down

ROOT = Path(__file__).parents[2]
LEFT_OUT = {".prefect", "canaries", "serve_images"}


def make(folder: Path) -> None:
    """Draw logs below `folder`, and curate them into its store."""
    generate_arena(folder, conversations=14, battles=6, images_max=6, problems=False)
    settings = Settings(
        logs=str(folder / "logs"),
        store=str(folder),
        topics=TopicSettings(members_min=2, needs_image=False, language=None),
        bench=BenchSettings(size=3, hidden_size=1, hidden_fraction=0.2, needs_image=False, language=None),
        evaluate=EvaluateSettings(models=str(folder / "answers"), judge="embedded", baseline=BASELINE),
        release="1.0.0",
    )
    _curate(settings, "flows.stages", "ingest")
    store = Store(str(folder))
    ids = sorted(store.read("conversations", ["conversation_id"])["conversation_id"])
    now = datetime.now(UTC)
    with writing(store.root):
        take_down(store, ids[:1], [], now, False)
    about = {"conversation_id": ids[1], "item_id": ids[1], "content_id": ids[1], "reasons": ["face"]}
    keep(store, Review(**about, verdict="drop", queue="held", reviewer="Ada", reviewed_at=now))
    _curate(settings, "flows.demo.demo_run", "demo")


def _curate(settings: Settings, *stages: str) -> None:
    """Run stages in a process of their own, as a command does."""
    process = get_context("spawn").Process(target=curate_all, args=(settings, stages))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"{' '.join(stages)} failed")


def main() -> None:
    """Make the store of this checkout's version and pack it."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    packed = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "tests" / "stores" / version.rpartition(".")[0]
    packed.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, tarfile.open(packed / "store.tar.xz", "w:xz", preset=9) as tar:
        make(Path(folder))
        for path in sorted(Path(folder).rglob("*")):
            inside = path.relative_to(folder)
            if path.is_file() and not LEFT_OUT & {*inside.parts[:1]}:
                tar.add(path, inside)


if __name__ == "__main__":
    main()
