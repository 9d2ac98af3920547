"""Known benchmarks: chats that show a picture or ask a question of a benchmark, whatever was done to the picture."""

import base64
import csv
import io
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageEnhance
import PIL.ImageOps
import polars as pl
import pytest

from schemas.benches.known import KnownBounds, KnownMatch, ShownAs
from schemas.errors import BadInput
from schemas.settings import Settings
from tasks.bench.contamination.check import text_rows
from tasks.bench.contamination.known_index import update_known_images
from tasks.bench.contamination.known_sources import known_benchmarks
from tasks.bench.steps import find_known, index_benchmarks
from tasks.images.decode import DecodedImage, open_image
from tasks.providers import Providers
from tasks.signals.registry import signal_of
from tasks.signals.steps import signal_versions
from tasks.storage.content_id import text_id
from tasks.storage.queries.bench import known_counts
from tasks.storage.queries.explain import explain_item
from tasks.storage.tables import Store
from tests.builders import conversation, facts_frame, image, store_with
from tests.hub_repo import Repo

Image = PIL.Image.Image
LONG = "A cyclist rides round the lake in forty minutes and rests ten minutes after each round; when is the third over"
SHORT = "Which kite has the longest string?"
SEED = 7


def chart(seed: int, bars: int = 7) -> Image:
    """A bar chart of one template: frame, axis and heading are equal, heights differ with the seed."""
    rng, picture = random.Random(seed), PIL.Image.new("RGB", (420, 300), "white")
    draw = PIL.ImageDraw.Draw(picture)
    draw.text((140, 10), "Sales of the year", "black")
    draw.line([(40, 30), (40, 260), (400, 260)], "black", 2)
    for place in range(bars):
        left, height = 55 + 48 * place, rng.randint(20, 210)
        draw.rectangle([left, 260 - height, left + 30, 259], "#4878a8")
    return picture


def drawing(seed: int) -> Image:
    """A drawing like that of an exercise: lines and circles on white."""
    rng, picture = random.Random(1000 + seed), PIL.Image.new("RGB", (360, 320), "white")
    draw = PIL.ImageDraw.Draw(picture)
    for _ in range(9):
        x, y, size = rng.randint(20, 280), rng.randint(20, 240), rng.randint(20, 70)
        draw.ellipse([x, y, x + size, y + size], outline="black", width=2)
        draw.line([x, y, rng.randint(10, 350), rng.randint(10, 310)], "black", 2)
    return picture


def photograph(seed: int) -> Image:
    """A picture without an even margin: smooth colours with noise."""
    rng = np.random.default_rng(seed)
    coarse = PIL.Image.fromarray(rng.integers(0, 256, (6, 8, 3), np.uint8)).resize((400, 300), PIL.Image.BICUBIC)
    noisy = np.asarray(coarse).astype(np.int16) + rng.integers(-12, 13, (300, 400, 1))
    return PIL.Image.fromarray(noisy.clip(0, 255).astype(np.uint8))


def _jpeg(picture: Image, quality: int) -> Image:
    sink = io.BytesIO()
    picture.save(sink, "JPEG", quality=quality)
    return PIL.Image.open(sink)


def _cut(picture: Image, rng: random.Random) -> Image:
    wide, high = picture.size
    left, top, right, bottom = (rng.uniform(0.01, 0.04) for _ in range(4))
    return picture.crop((int(wide * left), int(high * top), int(wide * (1 - right)), int(high * (1 - bottom))))


def _on_a_page(picture: Image, rng: random.Random) -> Image:
    margins = [rng.randint(30, 140) for _ in range(4)]
    size = (picture.width + margins[0] + margins[1], picture.height + margins[2] + margins[3])
    page = PIL.Image.new("RGB", size, rng.choice(["#202124", "#f0f0f0", "#ffffff"]))
    page.paste(picture, (margins[0], margins[2]))
    return _jpeg(page, 85)


SIBLINGS: dict[str, Callable[[Image, random.Random], Image]] = {
    "equal": lambda picture, _: picture,
    "resized": lambda picture, rng: picture.resize([int(side * rng.uniform(0.5, 0.8)) for side in picture.size]),
    "re-encoded": lambda picture, rng: _jpeg(picture, rng.randint(30, 60)),
    "cut": _cut,
    "bordered": lambda picture, rng: PIL.ImageOps.expand(picture, rng.randint(8, 30), rng.choice(["black", "#406080"])),
    "paler": lambda picture, rng: PIL.ImageEnhance.Color(picture).enhance(rng.uniform(0.2, 0.6)),
    "tinted": lambda picture, rng: PIL.Image.blend(
        picture, PIL.Image.new("RGB", picture.size, rng.choice(["#ff8800", "#2266ff"])), rng.uniform(0.1, 0.3)
    ),
    "on a page": _on_a_page,
}
ORIGINALS = {"chart": chart, "drawing": drawing, "photograph": photograph}


def decoded(picture: Image) -> DecodedImage:
    sink = io.BytesIO()
    picture.convert("RGB").save(sink, "PNG")
    return open_image(sink.getvalue())


@pytest.fixture(scope="module")
def providers() -> Providers:
    return Providers()


class Arena:
    """A store whose chats show pictures, with the signals that they are found by."""

    def __init__(self, folder: Path, providers: Providers, chats: dict[str, tuple[str, Image | None]]) -> None:
        """`chats`: id -> what was asked, and the picture."""
        shown = {name: decoded(picture) for name, (_, picture) in chats.items() if picture is not None}
        rows = [
            conversation(name, text, "Hm.", image_ids=[shown[name].image_id] if name in shown else [])
            for name, (text, _) in chats.items()
        ]
        pictures = {picture.image_id: picture for picture in shown.values()}
        stored = [image(picture) for picture in pictures.values()]
        self.store = store_with(folder, conversations=rows, images=stored)
        self.providers, self.versions = providers, signal_versions(providers)
        for name in ("image_hash", "image_inside", "image_embedding"):
            measured = signal_of(name, providers).values([*pictures.values()])
            values = {picture: value.model_dump() for picture, value in zip(pictures, measured, strict=True)}
            self.store.replace(f"signals/{name}", facts_frame(name, values, self.versions[name]))

    def compare(self, *benchmarks: object) -> pl.DataFrame:
        """Index the benchmarks and look for them: the rows of `known_matches`."""
        settings = Settings(store=self.store.root, known_benchmarks=[*map(str, benchmarks)], workers=2)
        self.indexed = index_benchmarks.fn(settings, self.providers, self.versions)
        self.found = find_known.fn(settings, self.versions)
        return self.store.read("known_matches")


@pytest.fixture
def benchmark_folder(tmp_path) -> Path:
    """A benchmark with three charts of one template, three drawings and three photographs, and two questions."""
    folder = tmp_path / "ours"
    folder.mkdir()
    for kind, draw in ORIGINALS.items():
        for seed in range(3):
            draw(seed).save(folder / f"{kind}{seed}.png")
    questions = [{"id": 1, "question": f"{LONG}? <image1>"}, {"id": 2, "question": f"{SHORT}\n<image1>"}]
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, questions)))
    return folder


def changed(change: str, kind: str) -> Image:
    return SIBLINGS[change](ORIGINALS[kind](1), random.Random(f"{SEED} {change} {kind}")).convert("RGB")


def test_a_picture_is_known_whatever_was_done_to_it(tmp_path, providers, benchmark_folder):
    names = {f"{change}, {kind}": changed(change, kind) for change in SIBLINGS for kind in ORIGINALS}
    arena = Arena(tmp_path, providers, {name: ("Look", picture) for name, picture in names.items()})
    matches = arena.compare(benchmark_folder)
    assert sorted(matches["conversation_id"]) == sorted(names)
    originals = {kind: decoded(draw(1)).image_id for kind, draw in ORIGINALS.items()}
    wrong = [
        name for name, picture in matches.select("conversation_id", "picture").iter_rows()
        if picture != originals[name.split(", ")[1]]
    ]  # fmt: skip
    assert wrong == []
    shown_as = dict(matches.select("conversation_id", "shown_as").iter_rows())
    assert shown_as["equal, chart"] == "same"
    assert shown_as["cut, photograph"] == "embedding"


def lookalikes() -> Iterator[tuple[str, Image]]:
    for seed in range(10, 22):
        for kind, draw in ORIGINALS.items():
            yield f"{kind} {seed}", draw(seed)
            yield f"{kind} {seed} on a page", _on_a_page(draw(seed), random.Random(seed))


def test_other_pictures_of_the_same_template_are_not_known(tmp_path, providers, benchmark_folder):
    arena = Arena(tmp_path, providers, {name: ("Look", picture) for name, picture in lookalikes()})
    assert arena.compare(benchmark_folder)["conversation_id"].to_list() == []
    assert arena.found.counts["searched_known"] == 72


def test_a_short_question_counts_beside_a_picture_of_its_benchmark_alone(tmp_path, providers, benchmark_folder):
    asked = {
        "long": (f"Please: {LONG}. A) 1 B) 2", None),
        "short": (f"{SHORT} A) left B) right", None),
        "short and picture": (f"{SHORT} A) left B) right", chart(0)),
        "picture": ("And what is this?", chart(0)),
        "neither": ("Why is the sky blue?", photograph(99)),
    }
    matches = Arena(tmp_path, providers, asked).compare(benchmark_folder)
    held = {
        name: (picture is not None, question)
        for name, picture, question in matches.select("conversation_id", "picture", "question").iter_rows()
    }
    assert held == {
        "long": (False, f"{LONG}?"), "short and picture": (True, SHORT), "picture": (True, None)
    }  # fmt: skip


def test_a_benchmark_without_pictures_is_known_by_its_questions(tmp_path, providers):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "questions.jsonl").write_text(json.dumps({"question": LONG}))
    arena = Arena(tmp_path, providers, {"asked": (LONG, chart(0)), "other": ("Why?", chart(1))})
    assert arena.compare(folder).select("conversation_id", "picture").rows() == [("asked", None)]


def test_suffixes_of_tables_may_be_in_capitals(tmp_path, providers):
    folder = tmp_path / "capitals"
    folder.mkdir()
    sink = io.BytesIO()
    chart(4).save(sink, "PNG")
    (folder / "ASKED.CSV").write_text(f"question\n{LONG}\n")
    pl.DataFrame([{"image": {"bytes": sink.getvalue(), "path": None}}]).write_parquet(folder / "SHOWN.PARQUET")
    arena = Arena(
        tmp_path, providers, {"asked": (LONG, chart(0)), "shown": ("Look", chart(4)), "other": ("Why?", None)}
    )
    assert arena.compare(folder)["conversation_id"].to_list() == ["asked", "shown"]


def _array(rows: list[dict]) -> str:
    return json.dumps(rows)


def _lines(rows: list[dict]) -> str:
    return "\n".join(map(json.dumps, rows))


def _delimited(sign: str) -> Callable[[list[dict]], str]:
    def text(rows: list[dict]) -> str:
        sink = io.StringIO()
        writer = csv.DictWriter(sink, [*dict.fromkeys(name for row in rows for name in row)], delimiter=sign)
        writer.writeheader()
        writer.writerows(rows)
        return sink.getvalue()

    return text


TABLES: dict[str, tuple[str, Callable[[list[dict]], str]]] = {
    "array": (".json", _array),
    "array over lines": (".json", lambda rows: json.dumps(rows, indent=2)),
    "lines in a .json": (".json", _lines),
    "array in a .jsonl": (".jsonl", _array),
    "rows by id": (".json", lambda rows: json.dumps({str(number): row for number, row in enumerate(rows)})),
    "rows by name": (".json", lambda rows: json.dumps({f"v1_{number}": row for number, row in enumerate(rows)})),
    "rows of an object": (".json", lambda rows: json.dumps({"info": {"year": 2017}, "questions": rows})),
    "rows of an object over lines": (".json", lambda rows: json.dumps({"version": 1, "data": rows}, indent=1)),
    "lines after a mark of bytes": (".json", lambda rows: "\ufeff" + _lines(rows)),
    "ndjson": (".ndjson", _lines),
    "a first row without a question": (".jsonl", lambda rows: _lines([{"version": 2}, *rows])),
    "csv": (".csv", _delimited(",")),
    "tsv": (".tsv", _delimited("\t")),
}
"""Spelling of a table -> its suffix, and its text."""


@pytest.mark.parametrize("spelling", TABLES)
def test_questions_are_read_from_every_spelling_of_a_table(tmp_path, spelling):
    suffix, text = TABLES[spelling]
    rng = random.Random(f"{SEED} {spelling}")
    rows = [{"id": number, "question": f"{LONG} of {number + rng.randint(0, 9) * 100}?"} for number in range(20)]
    suffix = rng.choice([suffix, suffix.upper()])
    folder = tmp_path / "ours" / rng.choice(["", "deep", "deep/er"])
    folder.mkdir(parents=True)
    (folder / f"{rng.choice(['test', 'QA', 'a.b'])}{suffix}").write_text(text(rows))
    (benchmark,) = known_benchmarks([str(tmp_path / "ours")])
    assert benchmark.questions() == [row["question"] for row in rows]
    assert (benchmark.unread, benchmark.unused_tables()) == ([], [])


@pytest.mark.parametrize("spelling", TABLES)
def test_pictures_in_base64_are_read_from_every_spelling_of_a_table(tmp_path, spelling):
    suffix, text = TABLES[spelling]
    sink = io.BytesIO()
    chart(5).save(sink, "PNG")
    encoded = base64.b64encode(sink.getvalue()).decode()
    head = random.Random(f"{SEED} {spelling}").choice(["", "data:image/png;base64,"])
    (tmp_path / f"ours{suffix}").write_text(text([{"id": 1, "image": head + encoded, "question": SHORT}]))
    (benchmark,) = known_benchmarks([str(tmp_path / f"ours{suffix}")])
    assert [picture.content for picture in benchmark.pictures()] == [sink.getvalue()]


@pytest.mark.parametrize("kind", ["bytes", "base64", "list of bytes"])
def test_pictures_of_a_parquet_column_without_structs_are_read(tmp_path, kind):
    sink = io.BytesIO()
    chart(5).save(sink, "PNG")
    content = sink.getvalue()
    value = {"bytes": content, "base64": base64.b64encode(content).decode(), "list of bytes": [content]}[kind]
    pl.DataFrame({"id": ["no picture"], "image": [value]}).write_parquet(tmp_path / "ours.parquet")
    (benchmark,) = known_benchmarks([str(tmp_path / "ours.parquet")])
    assert [picture.content for picture in benchmark.pictures()] == [content]


UNREAD = (
    "images.zip",
    "IMAGES.ZIP",
    "data.arrow",
    "part.tar.gz",
    "old.jsonl.gz",
    "sheet.xlsx",
    "deep/film.mp4",
    "noend",
)


def test_every_file_that_is_not_read_is_named_or_counted_each_time(tmp_path, providers, benchmark_folder):
    for name in UNREAD:
        (benchmark_folder / name).parent.mkdir(exist_ok=True)
        (benchmark_folder / name).write_bytes(b"no table")
    for name in ("README.md", "LICENSE", ".gitattributes", "dataset_infos.json"):
        (benchmark_folder / name).write_text("{}")
    arena = Arena(tmp_path, providers, {"one": ("Look", None)})
    for _ in range(2):
        arena.compare(benchmark_folder)
        names = [note.rpartition("benchmarks: ")[2] for note in arena.indexed.notes]
        assert names[:5] == [f"ours: {name} (no picture, no table)" for name in sorted(UNREAD)[:5]]
        assert names[5:] == [str(len(UNREAD) - 5)]


def test_a_table_of_which_nothing_is_used_is_named(tmp_path, providers, benchmark_folder):
    (benchmark_folder / "config.json").write_text(json.dumps({"split": "test", "files": ["a.png"]}))
    (benchmark_folder / "list.csv").write_text("file,answer\na.png,Yes\n")
    pl.DataFrame({"answer": [1]}).write_parquet(benchmark_folder / "deep.parquet")
    arena = Arena(tmp_path, providers, {"one": ("Look", None)})
    arena.compare(benchmark_folder)
    names = [note.rpartition("benchmarks: ")[2] for note in arena.indexed.notes]
    why = "no picture, and no column of questions"
    assert names == [f"ours: {name} ({why})" for name in ("config.json", "deep.parquet", "list.csv")]


def test_counts_are_by_benchmark(tmp_path, providers, benchmark_folder):
    other = tmp_path / "theirs"
    other.mkdir()
    photograph(50).save(other / "a.png")
    asked = {"one": (LONG, chart(0)), "two": ("Hm", drawing(2)), "three": ("Hm", photograph(50)), "four": (LONG, None)}
    arena = Arena(tmp_path, providers, asked)
    arena.compare(benchmark_folder, other)
    assert known_counts(arena.store).rows() == [("ours", 2, 2, 1, 3), ("theirs", 1, 0, 0, 1)]
    (account,) = explain_item(arena.store, "one", ())["known_benchmarks"]
    assert (account["benchmark"], account["shown_as"], account["question"]) == ("ours", "same", f"{LONG}?")


def test_a_benchmark_is_indexed_once_for_its_content(tmp_path, providers, benchmark_folder):
    arena = Arena(tmp_path, providers, {"one": ("Look", chart(0)), "two": ("Look", drawing(60))})
    assert arena.compare(benchmark_folder)["conversation_id"].to_list() == ["one"]
    assert (arena.indexed.counts["indexed"], arena.found.counts["searched_known"]) == (1, 2)
    parts = arena.store.parts("known_pictures")
    arena.compare(benchmark_folder)
    assert (arena.indexed.counts["indexed"], arena.found.counts["searched_known"]) == (0, 0)
    assert arena.store.parts("known_pictures") == parts
    drawing(60).save(benchmark_folder / "more.png")
    assert arena.compare(benchmark_folder)["conversation_id"].to_list() == ["one", "two"]
    assert arena.indexed.counts["pictures"] == 10
    assert arena.compare().is_empty()
    assert arena.store.height("known_pictures") == arena.store.height("known_images") == 0


def test_the_index_names_its_model(tmp_path, providers, benchmark_folder):
    arena = Arena(tmp_path, providers, {"one": ("Look", None)})
    arena.compare(benchmark_folder)
    (source,) = arena.store.read("known_sources").to_dicts()
    assert source["image_embedding"] == arena.versions["image_embedding"]
    assert (source["pictures"], source["questions"]) == (9, 2)


def test_pictures_of_a_parquet_file_are_known(tmp_path, providers):
    sink = io.BytesIO()
    chart(3).save(sink, "PNG")
    one, broken = {"bytes": sink.getvalue(), "path": "x.png"}, {"bytes": b"no picture", "path": None}
    rows = [
        {"question": f"{LONG}?", "image_1": one, "image_2": None},
        {"question": "", "image_1": broken, "image_2": one},
    ]
    pl.DataFrame(rows).write_parquet(tmp_path / "published.parquet")
    arena = Arena(tmp_path, providers, {"one": ("Look", chart(3)), "two": (LONG, None)})
    matches = arena.compare(tmp_path / "published.parquet")
    assert matches["conversation_id"].to_list() == ["one", "two"]
    assert set(matches["benchmark"]) == {"published"}
    assert (arena.indexed.counts["pictures"], arena.indexed.counts["unreadable"]) == (1, 1)
    (note,) = arena.indexed.notes
    assert note.endswith(": published: published.parquet row 2, image_1 (not_an_image)")


def test_a_picture_that_cannot_be_read_is_named_once_beside_the_others(tmp_path, providers, benchmark_folder):
    content = (benchmark_folder / "photograph0.png").read_bytes()
    (benchmark_folder / "half.png").write_bytes(content[: len(content) // 2])
    (benchmark_folder / "deep").mkdir()
    (benchmark_folder / "deep" / "empty.jpg").touch()
    for number in range(4):
        (benchmark_folder / f"no-picture-{number}.png").write_bytes(b"no picture")
    arena = Arena(tmp_path, providers, {"one": ("Look", chart(0))})
    assert arena.compare(benchmark_folder)["conversation_id"].to_list() == ["one"]
    names = [note.rpartition("benchmarks: ")[2] for note in arena.indexed.notes]
    assert names[:2] == ["ours: deep/empty.jpg (image_empty)", "ours: half.png (image_truncated)"]
    assert (len(names), names[-1]) == (6, "1")
    arena.compare(benchmark_folder)
    assert [note.rpartition("benchmarks: ")[2] for note in arena.indexed.notes] == ["6"]


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".json", ".csv"])
def test_a_broken_table_ends_in_one_line_that_names_it(tmp_path, providers, benchmark_folder, suffix):
    (benchmark_folder / f"broken{suffix}").write_bytes(b"PAR1\xff\x00no table PAR1")
    arena = Arena(tmp_path, providers, {"one": ("Look", chart(0))})
    with pytest.raises(BadInput, match=rf"broken\{suffix}' ") as raised:
        arena.compare(benchmark_folder)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@pytest.mark.parametrize("open_in", ["header", "first", "last"])
def test_a_quote_that_is_never_closed_ends_in_one_line(tmp_path, suffix, open_in):
    sign = {".csv": ",", ".tsv": "\t"}[suffix]
    texts = {"header": "question", "first": "What is it?", "last": "And why?"}
    lines = [f"{number}{sign}" + '"' * (name == open_in) + text for number, (name, text) in enumerate(texts.items())]
    table = tmp_path / f"table{suffix}"
    table.write_text("\n".join(lines))
    with pytest.raises(BadInput, match="a quote that is never closed"):
        list(text_rows(table))
    table.write_text("\n".join(line + '"' * ('"' in line) for line in lines))
    assert [row["question"] for row in text_rows(table)] == [texts["first"], texts["last"]]


@pytest.mark.parametrize("lacking", ["image_inside", "image_embedding"])
def test_an_image_is_searched_again_once_a_signal_that_it_lacked_is_there(
    tmp_path, providers, benchmark_folder, lacking
):
    change = {"image_inside": "on a page", "image_embedding": "cut"}[lacking]
    asked = {"changed": ("Look", changed(change, "photograph")), "other": ("Look", drawing(70))}
    arena = Arena(tmp_path, providers, asked)
    table = f"signals/{lacking}"
    complete = arena.store.read(table)
    (image_id,) = arena.store.read("conversations").filter(conversation_id="changed")["image_ids"].item()
    arena.store.replace(table, complete.filter(pl.col("content_id") != image_id))
    assert arena.compare(benchmark_folder).is_empty()
    arena.store.replace(table, complete)
    assert arena.compare(benchmark_folder)["conversation_id"].to_list() == ["changed"]
    assert arena.found.counts["searched_known"] == 1


def test_other_bounds_search_all_images_again(tmp_path, providers, benchmark_folder):
    arena = Arena(tmp_path, providers, {"cut": ("Look", changed("cut", "photograph")), "other": ("Look", chart(50))})
    arena.compare(benchmark_folder)
    assert update_known_images(arena.store, arena.versions) == {"searched_known": 0, "known_images": 1}
    strict = KnownBounds(overlap_correlation_min=1.0)
    assert update_known_images(arena.store, arena.versions, strict) == {"searched_known": 2, "known_images": 0}


def test_a_data_set_of_the_hub_is_fetched(tmp_path, providers, hub, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    sink = io.BytesIO()
    chart(4).save(sink, "PNG")
    hub.repos["org/charts"] = Repo(private=False)
    hub.repos["org/charts"].commit({"images/A.PNG": sink.getvalue(), "README.md": b"# Charts", "more.zip": b"PK"})
    arena = Arena(tmp_path, providers, {"one": ("Look", chart(4))})
    assert arena.compare("org/charts")["benchmark"].to_list() == ["charts"]
    assert [note.rpartition("benchmarks: ")[2] for note in arena.indexed.notes] == [
        "charts: more.zip (no picture, no table)"
    ]


def test_what_is_no_benchmark_ends_in_one_line(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("no table")
    for folder in ("a", "b"):
        (tmp_path / folder / "same").mkdir(parents=True)
        chart(0).save(tmp_path / folder / "same" / "x.png")
    cases = {
        str(tmp_path / "nowhere"): "does not exist; give a folder of pictures, a table, or a data set of the Hub",
        str(tmp_path / "empty"): "holds no picture and no table; give a folder",
        str(tmp_path / "text.txt"): "is no table; give .jsonl, .ndjson, .json, .csv, .tsv, .parquet or a folder",
        "no-one/here": "is no folder here, and HF_HUB_OFFLINE forbids to ask the Hub",
    }
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for given, said in cases.items():
        with pytest.raises(BadInput, match=said) as raised:
            known_benchmarks([given])
        assert "\n" not in str(raised.value)
    with pytest.raises(BadInput, match="two are called 'same'; rename the folder"):
        known_benchmarks([str(tmp_path / "a" / "same"), str(tmp_path / "b" / "same")])


def test_the_policy_tags_what_is_known_or_drops_it(deciding):
    shown = {"shown_as": ShownAs.SAME, "picture": text_id("p"), "question": None, "overlap": None}
    asked = {"shown_as": None, "picture": None, "question": LONG, "overlap": 1.0}
    held = {"shows": shown, "asks": asked, "both": shown | {"question": LONG, "overlap": 1.0}}
    matches = [KnownMatch(conversation_id=name, benchmark="ours", **values) for name, values in held.items()]
    deciding.given([conversation(name) for name in (*held, "neither")], known_matches=matches)
    decisions = deciding.decide()
    assert {name: ("known_benchmark" in row["tags"], row["keep"]) for name, row in decisions.items()} == {
        "shows": (True, True), "asks": (True, True), "both": (True, True), "neither": (False, True)
    }  # fmt: skip
    policy = "extends: public_release\nname: mine\nknown_benchmarks: {{action: drop, holds: {}}}"
    dropped = {"either": {"shows", "asks", "both"}, "picture": {"shows", "both"}, "question": {"asks", "both"}}
    for holds, names in (dropped | {"both": {"both"}}).items():
        decisions = deciding.under(policy.format(holds)).decide()
        assert {name for name, row in decisions.items() if not row["keep"]} == names
    off = deciding.under("extends: public_release\nname: mine\nknown_benchmarks: null").decide()
    assert not any("known_benchmark" in row["tags"] for row in off.values())


def test_a_store_that_was_compared_with_nothing_says_so(tmp_path, refused):
    Store.open(str(tmp_path / "store"))
    said = refused("bench", "check", "--store", tmp_path / "store")
    assert "knows no benchmarks of others; give" in said
