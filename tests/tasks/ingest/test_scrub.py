"""`curate scrub` copies logs without addresses. In place of the originals nothing is read again; new stores agree."""

import gzip
import json
import random
import shutil
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
import zstandard

from schemas.settings import Settings
from tasks.ingest import steps
from tasks.storage.keyed_ids import KEY_VARIABLE, keyed_address
from tasks.storage.tables import Store
from tests.cut_off import room_for
from tests.tasks.ingest.logs import chat, conv_id, image_name, ingested, line, state, vote

KEY = "the key of these two stores"
READ = ("sightings", "rejects", "conversations", "battles", "quarantine")
ADDRESSES = ["203.0.113.7", "2001:db8::17", "198.51.100.250", " 192.0.2.200 "]
BROWSER = "0badc0de0badc0de0badc0de"
DUPLICATED = (
    b'{"ip": "192.0.2.99", "type": "chat", "model": "m", "tstamp": 1718884800.0, "ip": "203.0.113.7", "state": '
    b'{"conv_id": "kite0001", "messages": [["user", "Which bird?"], ["assistant", "A kite."]]}}'
)
SECRETS = [BROWSER, "192.0.2.99", "10.1.2.3", "Mozilla", *(address.strip() for address in ADDRESSES)]


@pytest.fixture(autouse=True)
def key(monkeypatch):
    """One key for every store."""
    monkeypatch.setenv(KEY_VARIABLE, KEY)


def _record(draw: random.Random, name: str) -> bytes:
    """A line of a log by a seed: a chat or a vote, with marks of the sender in several places, or no record at all."""
    address = draw.choice([*ADDRESSES, None, ""])
    marks = {
        "arena": {"browser": BROWSER, "mode": "battle", "request": {"Client-IP": "10.1.2.3", "User_Agent": "Mozilla"}},
        "headers": {"x-forwarded-for": "203.0.113.7, 10.1.2.3", "peer": "[2001:db8::17]:4711"},
        "cookies": {"sid": BROWSER},
    }
    chosen = {mark: marks[mark] for mark in draw.sample(sorted(marks), draw.randint(0, 3))}
    record = draw.choice(
        [
            chat(name, f"Say {name}", "yes ¿? \u2028 \U0001f600", ip=address, at=draw.random() * 900) | chosen,
            vote(state(f"{name}l", "Q", "A", model_name="x"), state(f"{name}r", "Q", "B", model_name="y"), ip=address)
            | chosen,
        ]
    )
    broken = [b"", b"  ", b"{broken from 203.0.113.7", b"[1, 2]", b'"198.51.100.250"', line(record)[:-9], DUPLICATED]
    return draw.choice([line(record)] * 4 + [draw.choice(broken)])


def _write(folder: Path, seed: int) -> None:
    """Six log files by a seed: plain, packed, half-written, with a byte order mark, of a server of its own, flagged."""
    draw = random.Random(seed)
    folder.mkdir()
    (folder / "server").mkdir()
    for number in range(5):
        content = b"\n".join(_record(draw, f"{seed}{number}{place}") for place in range(draw.randint(2, 30)))
        content += line(chat(f"{seed}{number}end", ip="203.0.113.7")) if not content.strip() else b""
        content += b"" if number == 2 else b"\n"
        name = f"2024-06-0{number + 1}-conv.json"
        match number:
            case 0:
                (folder / f"{name}.gz").write_bytes(gzip.compress(content))
            case 1:
                (folder / f"{name}.zst").write_bytes(zstandard.compress(content))
            case 3:
                (folder / name).write_bytes(b"\xef\xbb\xbf" + line(chat(f"{seed}bom")) + b"\n" + content)
            case 4:
                (folder / "server" / f"{name}.1").write_bytes(content)
            case _:
                (folder / name).write_bytes(content)
    flagged = [line(chat(f"{seed}bad", has_csam_image=True)), b'{"csam": true, broken ' + image_name("x").encode()]
    (folder / "2024-06-06-conv.json").write_bytes(b"\n".join([*flagged, line(chat(f"{seed}good"))]) + b"\n")


def _bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _unpacked(name: str, content: bytes) -> bytes:
    if name.endswith(".gz"):
        return gzip.decompress(content)
    return zstandard.ZstdDecompressor().decompressobj().decompress(content) if name.endswith(".zst") else content


def _tables(store: Store) -> dict[str, list[dict]]:
    return {table: store.read(table).to_dicts() for table in READ}


def _counts(logs: Path, store: Store) -> dict[str, int]:
    chosen = Settings(logs=str(logs), store=store.root, workers=1)
    counts = steps.read_log_lines.fn(chosen).counts
    steps.assemble.fn(chosen)
    return counts


@pytest.fixture
def scrub(curate):
    """Run `curate scrub` with files of any past day: (exit status, stdout, stderr)."""
    return lambda logs, store, out, days=30: curate(
        "scrub", str(logs), "--store", store.root, "--older", str(days), "--out", str(out)
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("keeps_times", [True, False])
def test_copies_tell_no_sender_and_are_known_as_the_files(scrub, tmp_path, seed, keeps_times):
    logs, out = tmp_path / "logs", tmp_path / "out"
    _write(logs, seed)
    store = ingested(logs, tmp_path / "store")
    before, originals = _tables(store), _bytes_of(logs)
    code, said, _ = scrub(logs, store, out)
    assert code == 0 and f"{out}: 6 files" in said and _bytes_of(logs) == originals
    copies = _bytes_of(out)
    assert set(copies) == set(originals)
    for name, content in copies.items():
        words = _unpacked(name, content).decode()
        assert not [secret for secret in SECRETS if secret in words], name
        assert words.count("\n") >= _unpacked(name, originals[name]).count(b"\n")
    shutil.copytree(out, logs, dirs_exist_ok=True, copy_function=shutil.copy2 if keeps_times else shutil.copyfile)
    counts = _counts(logs, store)
    assert (counts["files_read"], counts["lines"]) == (0, 0) and "files_shrunk" not in counts
    assert _tables(store) == before
    assert _counts(logs, store)["files_read"] == 0


@pytest.mark.parametrize("seed", range(4))
def test_a_new_store_of_the_copies_has_the_same_people_and_texts(scrub, tmp_path, seed):
    logs, out = tmp_path / "logs", tmp_path / "out"
    _write(logs, seed)
    store = ingested(logs, tmp_path / "store")
    assert scrub(logs, store, out)[0] == 0
    new = _tables(ingested(out, tmp_path / "new"))
    old = _tables(store)
    for table in ("sightings", "conversations", "battles", "quarantine"):
        assert new[table] == old[table], table
    places = [[(row["source"], row["line"]) for row in tables["rejects"]] for tables in (old, new)]
    assert places[0] == places[1]


def test_lines_that_are_added_to_a_copy_are_the_only_ones_that_are_read(scrub, tmp_path):
    logs, out = tmp_path / "logs", tmp_path / "out"
    logs.mkdir()
    log = logs / "2024-06-01-conv.json"
    log.write_bytes(line(chat("a")) + b"\n" + line(chat("b")) + b"\n")
    store = ingested(logs, tmp_path / "store")
    assert scrub(logs, store, out)[0] == 0
    shutil.copyfile(out / log.name, log)
    with log.open("ab") as file:
        file.write(line(chat("c")) + b"\n")
    counts = _counts(logs, store)
    assert (counts["files_read"], counts["lines"]) == (1, 1)
    assert {row["conv_id"] for row in _tables(store)["sightings"]} == {conv_id(name) for name in "abc"}


def test_an_address_becomes_the_form_that_an_arena_of_the_same_key_logs(scrub, tmp_path):
    logs, out = tmp_path / "logs", tmp_path / "out"
    logs.mkdir()
    (logs / "2024-06-01-conv.json").write_bytes(line(chat("a", ip="203.0.113.7") | {"tokens": 3.5}) + b"\n")
    store = ingested(logs, tmp_path / "store")
    assert scrub(logs, store, out)[0] == 0
    record = json.loads((out / "2024-06-01-conv.json").read_bytes())
    expected = chat("a", ip=keyed_address(KEY.encode(), "203.0.113.7")) | {"tokens": 3.5}
    assert record == expected
    again = tmp_path / "again"
    shutil.copytree(out, logs, dirs_exist_ok=True)
    _counts(logs, store)
    assert scrub(logs, store, again)[0] == 0
    assert json.loads((again / "2024-06-01-conv.json").read_bytes()) == expected


def test_young_files_and_files_that_were_not_read_as_they_are_stay_out(scrub, tmp_path):
    logs, out = tmp_path / "logs", tmp_path / "out"
    logs.mkdir()
    today = datetime.now(UTC).date()
    for name in ("2024-06-01", "2024-06-02", str(today)):
        (logs / f"{name}-conv.json").write_bytes(line(chat(f"of{name}")) + b"\n")
    store = ingested(logs, tmp_path / "store")
    with (logs / "2024-06-02-conv.json").open("ab") as file:
        file.write(line(chat("more")) + b"\n")
    code, said, _ = scrub(logs, store, out)
    assert (code, sorted(_bytes_of(out))) == (0, ["2024-06-01-conv.json"])
    assert "left out, not read as it is now: 2024-06-02-conv.json" in said


def test_bad_input_is_one_line_and_writes_nothing(curate, scrub, tmp_path):
    logs, out = tmp_path / "logs", tmp_path / "out"
    logs.mkdir()
    (logs / "2024-06-01-conv.json").write_bytes(line(chat("a")) + b"\n")
    store = ingested(logs, tmp_path / "store")
    before = _bytes_of(Path(store.root))
    run = partial(curate, "scrub", "--older", "30")
    (tmp_path / "there").mkdir()
    tries = [
        run(str(logs), "--store", str(tmp_path / "no store"), "--out", str(out)),
        run(str(tmp_path / "no logs"), "--store", store.root, "--out", str(out)),
        run(str(logs), "--store", store.root, "--out", str(tmp_path / "there")),
        scrub(logs, store, out, days=20_000),
        scrub(logs, store, out, days=10**8),
        scrub(logs, store, logs / "2024-06-01-conv.json" / "out"),
    ]
    for code, said, err in tries:
        assert (code, said) == (2, "") and err.count("curate: ") == 1
    assert not out.exists() and not (tmp_path / "no store").exists()
    assert _bytes_of(Path(store.root)) == before


def test_a_disk_that_fills_while_copies_are_written_leaves_none_of_them(scrub, tmp_path):
    logs, out = tmp_path / "logs", tmp_path / "out"
    logs.mkdir()
    for day, texts in ((1, 1), (2, 400)):
        content = b"".join(line(chat(f"{day}{number}")) + b"\n" for number in range(texts))
        (logs / f"2024-06-0{day}-conv.json").write_bytes(content)
    store = ingested(logs, tmp_path / "store")
    before = _bytes_of(Path(store.root))
    with room_for(20_000):
        code, said, err = scrub(logs, store, out)
    assert (code, said, err.count("curate: ")) == (2, "", 1)
    assert "nothing was copied" in err and not out.exists()
    assert _bytes_of(Path(store.root)) == before
    assert scrub(logs, store, out)[0] == 0
