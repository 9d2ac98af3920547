"""An image on the operator's lists is quarantined with its lines and never looked at; earlier traces of it go."""

import hashlib
import io

import numpy as np
import PIL.Image
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.benches.judge_release import JudgeCard, ScreenedText
from schemas.errors import BadInput
from schemas.tables import TABLES
from tasks.drawing.canvas import photographs, view
from tasks.images.decode import open_image
from tasks.images.measures import image_hashes, pdq_digits
from tasks.ingest.image_files import logged_name
from tasks.ingest.known_images import file_digests, load_known_hashes
from tasks.storage.tables import Store, frame_of
from tests.builders import facts_frame, image_bytes
from tests.disk_steps import Killed, Step, ends_at, heard
from tests.tasks.ingest.logs import DAY, chat, conv_id, image_name, ingested, rejected, state, vote, write

BAD, GOOD = image_name("bad"), image_name("good")
BYTES = {BAD: image_bytes(1, (160, 120)), GOOD: image_bytes(2, (160, 120))}
OPENED = open_image(BYTES[BAD])
LINES = {kind: f"{kind} {value}" for kind, value in file_digests(BYTES[BAD])._asdict().items()} | {
    "pixels": f"pixels {OPENED.image_id}",
    "pdq": f"pdq {pdq_digits(OPENED.rgb)}",
    "logged name": f"md5 {BAD}",
}


@pytest.fixture
def logs(tmp_path):
    folder = tmp_path / "logs"
    for name, content in BYTES.items():
        path = folder / "serve_images" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    write(folder, DAY, chat("bad", images=[BAD]), chat("good", images=[GOOD]))
    return folder


@pytest.fixture
def listing(tmp_path):
    def put(*lines: str) -> dict:
        file = tmp_path / "list.txt"
        file.write_text("\n".join(lines))
        return {"known_hashes": [str(file)]}

    return put


def cells(store) -> str:
    return "".join(str(store.read(name).to_dicts()) for name in TABLES if name not in ("quarantine", "image_files"))


@pytest.mark.parametrize("kind", LINES)
def test_a_listed_image_is_quarantined_before_anybody_looks(logs, tmp_path, listing, kind):
    looked: list[str] = []
    store = ingested(logs, tmp_path / "store", looked, **listing(LINES[kind]))
    assert looked == [open_image(BYTES[GOOD]).image_id] == store.read("images")["image_id"].to_list()
    assert store.read("conversations")["conversation_id"].to_list() == [conv_id("good")]
    assert rejected(store) == {(DAY, 1): "known_hash"}
    held = store.read("quarantine").select("kind", "key", "cause").rows()
    assert held == [("conversation", conv_id("bad"), "known_hash"), ("image", BAD, "known_hash")]
    assert store.read("image_files")["name"].to_list() == [f"{GOOD}.png"]


@pytest.mark.parametrize("kind", ["md5", "sha1", "sha256"])
def test_a_file_that_is_listed_by_its_bytes_is_not_decoded(logs, tmp_path, listing, kind):
    garbage = b"this is no picture"
    (logs / "serve_images" / f"{BAD}.png").write_bytes(garbage)
    digest = hashlib.new(kind, garbage).hexdigest()
    assert rejected(ingested(logs, tmp_path / "store", **listing(f"{kind} {digest}"))) == {(DAY, 1): "known_hash"}


TURN = PIL.Image.Transpose
COPIES = {
    "smaller": lambda image: image.resize((300, 200)),
    "cropped by 1 %": lambda image: image.crop((6, 4, image.width - 6, image.height - 4)),
    **{turn.name: lambda image, turn=turn: image.transpose(turn) for turn in TURN},
}


def jpeg(image) -> bytes:
    sink = io.BytesIO()
    image.save(sink, "JPEG", quality=70)
    return sink.getvalue()


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_is_known_by_pdq_also_turned_and_mirrored(logs, tmp_path, listing, copy):
    photograph = view(photographs("scenes")[0]).image
    (logs / "serve_images" / f"{BAD}.png").write_bytes(jpeg(COPIES[copy](photograph)))
    line = f"pdq {pdq_digits(np.asarray(photograph))}"
    assert rejected(ingested(logs, tmp_path / "store", **listing(line))) == {(DAY, 1): "known_hash"}


def test_the_other_side_of_a_vote_goes_along(logs, tmp_path, listing):
    write(logs, DAY, vote(state("a", images=[BAD]), state("b", images=[BAD])), chat("b", images=[GOOD]))
    store = ingested(logs, tmp_path / "store", **listing(LINES["sha256"]))
    assert store.read("conversations").is_empty() and store.read("battles").is_empty()
    assert set(rejected(store).values()) == {"known_hash"}


def test_new_lines_about_a_held_image_are_held_without_the_list(logs, tmp_path, listing):
    ingested(logs, tmp_path / "store", **listing(LINES["pdq"]))
    write(logs, "vision-tmp-2024-06-21-conv.json", chat("later", images=[BAD]), chat("bad", "More?", "No."))
    looked: list[str] = []
    store = ingested(logs, tmp_path / "store", looked)
    assert looked == []
    assert store.read("conversations")["conversation_id"].to_list() == [conv_id("good")]
    assert list(rejected(store).values()) == ["known_hash"] * 3


@pytest.mark.parametrize("kind", LINES)
def test_a_new_list_removes_what_was_taken_in_before(logs, tmp_path, listing, kind):
    store = ingested(logs, tmp_path / "store")
    pdq = {OPENED.image_id: {"pdq": pdq_digits(OPENED.rgb)}}
    store.append("signals/image_hash", facts_frame("image_hash", pdq))
    store.append("signals/nsfw", facts_frame("nsfw", {OPENED.image_id: {}}))
    document = store.read("conversations").filter(conversation_id=conv_id("bad"))["document_id"][0]
    store.append("signals/categories", facts_frame("categories", {document: {}}))
    sides = {"model_a": "a", "model_b": "b", "answer_a": "1", "answer_b": "2"}
    card = JudgeCard(question_id=conv_id("bad"), verdict_id="3", label="A=B", **sides)
    store.replace("judge_cards", frame_of(JudgeCard, [card]))
    said = ScreenedText(item_id="1", question_id=conv_id("bad"), reasons=[], text="A red square.", policy_hash="4")
    store.replace("screened_texts", frame_of(ScreenedText, [said]))
    looked: list[str] = []
    ingested(logs, tmp_path / "store", looked, **listing(LINES[kind]))
    assert looked == []
    assert rejected(store) == {(DAY, 1): "known_hash"}
    for gone in (OPENED.image_id, document, conv_id("bad"), BAD):
        assert gone not in cells(store)
    assert store.read("image_files")["name"].to_list() == [f"{GOOD}.png"]
    assert [part for part in (tmp_path / "store").rglob("*.parquet") if BYTES[BAD][40:200] in part.read_bytes()] == []


def test_an_image_that_a_server_flags_after_it_was_taken_in_is_removed_under_every_name(logs, tmp_path):
    again = image_name("again")
    (logs / "serve_images" / f"{again}.png").write_bytes(BYTES[BAD])
    write(logs, DAY, chat("bad", images=[BAD]), chat("good", images=[GOOD]), chat("again", images=[again]))
    store = ingested(logs, tmp_path / "store")
    store.append("signals/nsfw", facts_frame("nsfw", {OPENED.image_id: {}}))
    write(logs, "vision-csam-2024-06-21-conv.json", chat("later", images=[BAD]))
    looked: list[str] = []
    for _ in range(2):
        ingested(logs, tmp_path / "store", looked)
        assert store.read("conversations")["conversation_id"].to_list() == [conv_id("good")]
        assert sorted(rejected(store).values()) == ["csam_flagged"] * 3
        assert store.read("image_files")["name"].to_list() == [f"{GOOD}.png"]
        assert OPENED.image_id not in cells(store)
    assert looked == []
    assert [part for part in (tmp_path / "store").rglob("*.parquet") if BYTES[BAD][40:200] in part.read_bytes()] == []


def test_a_late_flag_removes_copies_that_are_mirrored_or_turned_and_nothing_else(logs, tmp_path):
    scene, other = (view(each).image for each in photographs("scenes")[:2])
    shown = {BAD: scene, image_name("copy"): COPIES["TRANSPOSE"](scene), GOOD: other}
    for name, image in shown.items():
        (logs / "serve_images" / f"{name}.png").write_bytes(jpeg(image))
    write(logs, DAY, *(chat(str(number), images=[name]) for number, name in enumerate(shown)))
    store = ingested(logs, tmp_path / "store")
    opened = [open_image(jpeg(image)) for image in shown.values()]
    hashes = {each.image_id: image_hashes(each).model_dump() for each in opened}
    store.append("signals/image_hash", facts_frame("image_hash", hashes))
    write(logs, "vision-csam-2024-06-21-conv.json", chat("later", images=[BAD]))
    ingested(logs, tmp_path / "store")
    assert store.read("images")["image_id"].to_list() == [opened[2].image_id]
    assert store.read("conversations")["conversation_id"].to_list() == [conv_id("2")]


def test_images_that_came_while_no_list_was_given_are_checked_when_it_is_given_again(logs, tmp_path, listing):
    chosen = listing(LINES["sha1"])
    (logs / "serve_images" / f"{BAD}.png").rename(tmp_path / "kept.png")
    ingested(logs, tmp_path / "store", **chosen)
    (tmp_path / "kept.png").rename(logs / "serve_images" / f"{BAD}.png")
    assert ingested(logs, tmp_path / "store").read("images").height == 2
    assert ingested(logs, tmp_path / "store", **chosen).read("images").height == 1


def test_a_killed_hold_is_finished_by_the_next_run(logs, tmp_path, listing):
    def kill_after_the_hold(step: Step) -> None:
        is_list = step.kind == "write" and "sightings/parts.json" in step.path
        if is_list and Store(str(tmp_path / "store")).read("quarantine").height:
            raise Killed

    with heard(kill_after_the_hold), pytest.raises(Killed):
        ingested(logs, tmp_path / "store", **listing(LINES["pdq"]))
    store = ingested(logs, tmp_path / "store")
    assert rejected(store) == {(DAY, 1): "known_hash"} and store.read("rejects").height == 1
    assert store.read("conversations")["conversation_id"].to_list() == [conv_id("good")]


def test_a_killed_purge_is_finished_by_the_next_run(logs, tmp_path, listing):
    store = ingested(logs, tmp_path / "store")
    document = store.read("conversations").filter(conversation_id=conv_id("bad"))["document_id"][0]
    store.append("signals/categories", facts_frame("categories", {document: {}}))
    with ends_at("write", "signals/categories/"), pytest.raises(Killed):
        ingested(logs, tmp_path / "store", **listing(LINES["sha256"]))
    ingested(logs, tmp_path / "store", **listing(LINES["sha256"]))
    assert document not in cells(store) and OPENED.image_id not in cells(store)


def test_a_listed_preset_is_held_and_not_opened_again(logs, tmp_path, listing):
    presets = tmp_path / "presets"
    presets.mkdir()
    (presets / "one.png").write_bytes(BYTES[BAD])
    (presets / "presets.json").write_text('[{"dataset": "Memes", "path": "one.png"}]')
    write(logs, DAY, chat("a", images=[logged_name(presets / "one.png")]))
    ingested(logs, tmp_path / "store", **listing(LINES["sha256"]))
    (presets / "one.png").unlink()  # opening it now would be an error
    store = ingested(logs, tmp_path / "store", **listing(LINES["sha256"]))
    assert store.read("quarantine").filter(pl.col("key") == "preset:one.png").height == 1
    assert store.read("presets").is_empty()


PDQ = "0123456789abcdef" * 4


@pytest.fixture
def listed(tmp_path):
    def load(text: str):
        file = tmp_path / "list.txt"
        file.write_text(text)
        return load_known_hashes([str(file)])

    return load


def flipped(digits: str, bits: int) -> str:
    return f"{int(digits, 16) ^ ((1 << bits) - 1):064x}"


@pytest.mark.parametrize("kind", ["md5", "sha1", "sha256"])
def test_a_file_is_known_by_each_digest_of_its_bytes(listed, kind):
    known = listed(f"# a comment\n\n{kind.upper()}, {hashlib.new(kind, b'file').hexdigest().upper()}  # another\n")
    assert known.holds_file(file_digests(b"file"))
    assert not known.holds_file(file_digests(b"other"))


@given(bits=st.integers(0, 256), distance=st.none() | st.integers(0, 128))
def test_an_image_is_known_within_the_distance_of_its_line(tmp_path_factory, bits, distance):
    file = tmp_path_factory.getbasetemp() / "pdq.txt"
    file.write_text(f"pdq {PDQ} {'' if distance is None else distance}")
    known = load_known_hashes([str(file)])
    expected = bits <= (31 if distance is None else distance)
    assert known.near([flipped(PDQ, bits), flipped(PDQ, 200)]).tolist()[0] is expected


def test_every_image_is_compared_with_every_line(listed):
    words = np.random.default_rng(0).integers(0, 2**63, (20, 4))
    lines = ["".join(f"{word:016x}" for word in row) for row in words]
    known = listed("\n".join(f"pdq {line} {place}" for place, line in enumerate(lines)))
    assert known.near([*lines, PDQ]).tolist() == [True] * 20 + [False]
    shifted = [flipped(line, place + 1) for place, line in enumerate(lines)]
    assert known.near(shifted).tolist() == [False] * 20


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("deadbeef" * 4, "must be one of md5"), ("md5 deadbeef", "32 hexadecimal digits"),
        (f"pdq {'g' * 64}", "64 hexadecimal digits"), (f"pdq {PDQ} 129", "0 to 128"), (f"pdq {PDQ} near", "0 to 128"),
        (f"md5 {'a' * 32} 3", "only pdq"), ("sha1", "40 hexadecimal digits"),
    ],
)  # fmt: skip
def test_a_line_that_cannot_be_used_is_one_clear_line_without_what_it_says(listed, line, said):
    with pytest.raises(BadInput, match=f"line 2: .*{said}") as refused:
        listed(f"md5 {'c' * 32}\n{line}")
    assert line.split()[-1] not in str(refused.value).partition("line 2")[2] or line == "sha1"


def test_a_list_that_is_not_there_is_one_clear_line(tmp_path):
    with pytest.raises(BadInput, match="cannot be read"):
        load_known_hashes([str(tmp_path / "nowhere.txt")])
