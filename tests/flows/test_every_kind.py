"""A night with one file of every kind of public reports: what is good is kept, the rest says why it is gone."""

import json
from pathlib import Path

import polars as pl

from tasks.storage.tables import Store
from tests.builders import image_bytes
from tests.flows.conftest import take_over_probes
from tests.tasks.ingest.logs import chat, vote, write

SECRETS = {
    "a password": "my server login: root password: Tr0ub4dor&3xyz",
    "a key": "export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzQXAMPLEKEY",
}
ZONE = "P<UTOERIKSSON<<ANNA<MARIA<<<<<<<<<<<<<<<<<<<\nL898902C36UTO74O8I22F12O4I59ZE184226B<<<<<10"
PRINTED = ("ChatCompletion(id='c', choices=[Choice(finish_reason='stop', index=0)])", 'data: {"choices": []}', "None")
GONE = {"printed": ["service_error"] * 3, "zone": ["pii_text"], "secrets": ["pii_text"] * 2}
"""Kind -> the reason that drops each of its chats; chats of the other kinds are kept."""
KINDS = ("plain", "broken", "nan", "times", "names", "printed", "zone", "secrets", "votes")


def _file_of(kind: str) -> str:
    """The log file of a kind, which has a day of its own."""
    return f"vision-tmp-2024-06-{1 + [*KINDS, 'array'].index(kind):02}-conv.json"


def _logs(folder: Path) -> Path:
    """An arena's log with a file a kind; each conversation is called by its kind and a number."""
    plain = [chat(f"plain {n}", f"Name {n} fruits.", "Apples.", at=n) for n in range(1, 4)]
    broken = [b'{"tstamp": 1718884800, "type": "chat"', chat("broken 1", "Why is the sky blue?", "Light.")]
    odd = [chat("nan 1", "What is NaN?", "A number.") | {"score": float("nan"), "more": [float("inf")]}]
    late = [chat("times 1", "When is noon?", "At twelve.") | {"tstamp": 1_718_884_800_500}]
    blank = [chat("names 1", "Who are you?", "A model.", model="model-x ", model_name="model-x ")]
    printed = [chat(f"printed {n}", f"Say {n} words.", answer) for n, answer in enumerate(PRINTED)]
    zone = [chat("zone 1", f"Read this:\n{ZONE}", "It is a passport.")]
    secrets = [chat(f"secrets {n}", text, "Keep it safe.") for n, text in enumerate(SECRETS.values())]
    files = [plain, broken, odd, late, blank, printed, zone, secrets, [vote("left", "right", at=5)]]
    for kind, records in zip(KINDS, files, strict=True):
        write(folder, _file_of(kind), *records)
    array = json.dumps([chat("array 1", "Is this an array?", "Yes.")])
    (folder / _file_of("array")).write_text(array, encoding="utf-8")
    return folder


def _messages(folder: Path) -> Path:
    """Rows as clients log them: a picture below the folder, one that is missing, and a part that is not read."""
    (folder / "pics").mkdir(parents=True)
    (folder / "pics" / "Ä.png").write_bytes(image_bytes(3))
    parts = {
        "picture": {"type": "image", "image": "pics/A\u0308.png"},
        "missing": {"type": "image_url", "image_url": {"url": "pics/none.png"}},
        "parts": {"type": "video_url", "video_url": {"url": "clip.mp4"}},
    }
    asked = {"type": "text", "text": "What does it show?"}
    answer = {"role": "assistant", "content": "A pattern of many colours."}
    rows = [
        {"conversation_id": name, "model": "model-x", "messages": [{"role": "user", "content": [part, asked]}, answer]}
        for name, part in parts.items()
    ]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return folder


def test_a_night_with_one_file_of_every_kind_keeps_what_is_good_and_says_why_the_rest_is_gone(
    curated, curate, tmp_path
):
    store = tmp_path / "store"
    take_over_probes(curated.settings, str(store))
    code, out, err = curate("ingest", "--logs", _messages(tmp_path / "rows"), "--store", store)
    assert code == 0, err
    assert "video_url" in out
    code, out, err = curate("run", "--logs", _logs(tmp_path / "logs"), "--store", store)
    assert code == 0, err
    for line in ("3  pii_text", "3  service_error", "1  part_not_read", "1  image_unusable", "1  not_json"):
        assert line in out
    assert "in 19 = kept 10 + dropped 8 + rejected 1\n" in out
    tables = Store(str(store))
    # File -> why each of its conversations is dropped.
    decided = tables.read("decisions").filter(item_kind="conversation").select("item_id", "reasons")
    logged = tables.read("conversations").select("conversation_id", "source")
    joined = logged.join(decided, left_on="conversation_id", right_on="item_id")
    dropped = joined.explode("reasons").drop_nulls().group_by("source").agg(pl.col("reasons").sort())
    assert dict(dropped.iter_rows()) == {
        **{_file_of(kind): reasons for kind, reasons in GONE.items()},
        "rows.jsonl": ["image_unusable", "part_not_read"],
    }
    (release,) = (store / "releases").iterdir()
    assert curate("verify", release)[0] == 0
    released = pl.read_parquet(release / "chat" / "data" / "*.parquet")
    assert released.height == 10  # with both sides of the vote, and one is withheld for a benchmark to come
    assert set(released["model"]) <= {"model-x", "x", "y"}
    words = released.select("conversation").write_json()
    assert not [secret for secret in (*SECRETS.values(), *ZONE.splitlines(), *PRINTED[:2]) if secret in words]
