"""Starter prompts by category and language, with pictures: the file, the page, the log, and what ingest makes of it."""

import asyncio
import json
from contextvars import copy_context
from random import Random

import pytest

from schemas.errors import BadInput
from tasks.arena import words
from tasks.arena.app import make_app
from tasks.arena.settings import ArenaSettings
from tasks.arena.starters import Starters, StartersFile, read_starters
from tasks.arena.uploads import UPLOADS_A_MINUTE_MAX, Examples, Uploads
from tests.arena_pages import Page, stranger
from tests.built_arena import image_file
from tests.tasks.ingest.logs import ingested

FILE = """
categories:
  - title: {en: Look <closely>, de: Hinsehen}
    prompts:
      en: [Count to three., {text: "What is <this>?", picture: mine.png}]
      de: [{text: Was ist das?, picture: mine.png}]
"""


def written(tmp_path, text: str = FILE):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "mine.png").write_bytes(image_file(seed=5))
    file = tmp_path / "own" / "starters.yaml"
    file.write_text(text)
    return file


def spoken(starters, language: str, with_pictures: bool = True):
    """What the page shows in a language."""

    def asked():
        words.speak(language)
        return starters.shown(with_pictures)

    return copy_context().run(asked)


def test_a_category_shows_the_prompts_of_the_language_and_else_the_english_ones(tmp_path):
    starters = read_starters(written(tmp_path))
    assert spoken(starters, "de") == [("Hinsehen", [("Was ist das?", "mine.png")])]
    assert spoken(starters, "ja") == [("Look <closely>", [("Count to three.", ""), ("What is <this>?", "mine.png")])]


def test_an_arena_without_images_shows_the_prompts_of_texts_alone(tmp_path):
    starters = read_starters(written(tmp_path))
    assert spoken(starters, "en", with_pictures=False) == [("Look <closely>", [("Count to three.", "")])]
    assert spoken(starters, "de", with_pictures=False) == []


def test_every_language_has_shipped_prompts_of_each_category():
    for category in read_starters(None).file.categories:
        assert {*category.title} == {*category.prompts} == {*words.LANGUAGES}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("categories: [", "is not YAML"),
        ("categorys: []", "categories: is missing"),
        ("categories: [{title: {de: A}, prompts: {en: [B]}}]", "'title' has no English text"),
        ("categories: [{title: {en: A}, prompts: {de: [B]}}]", "no English prompt"),
        ("categories: [{title: {en: A}, prompts: {en: []}}]", "no English prompt"),
        ("categories: [{title: {en: A}, prompts: {en: [B], xx: [C]}}]", "the language 'xx'; the arena speaks ar, de"),
        ("categories: [{title: {en: A}, prompts: {en: [\"a\\nb\"]}}]", "text of one line"),
        (f"categories: [{{title: {{en: A}}, prompts: {{en: [{'x' * 501}]}}}}]", "at most 500"),
        ("categories: [{title: {en: A}, prompts: {en: [{text: B, picture: ../b.png}]}}]", "no name of a file"),
        ("categories: [{title: {en: A}, prompts: {en: [{text: B, picture: gone.png}]}}]", "no picture 'gone.png'"),
    ],
)  # fmt: skip
def test_a_starters_file_that_cannot_be_used_is_one_clear_line(tmp_path, text, error):
    file = written(tmp_path, text)
    with pytest.raises(BadInput, match=error) as refused:
        read_starters(file)
    assert "\n" not in str(refused.value) and str(file) in str(refused.value)


def test_other_prompts_take_only_pictures_that_are_there(tmp_path):
    starters = read_starters(written(tmp_path))
    prompts = {"en": [{"text": "And?", "picture": "other.png"}]}
    other = StartersFile.model_validate({"categories": [{"title": {"en": "A"}, "prompts": prompts}]})
    with pytest.raises(BadInput, match=r"no picture 'other.png'; those of this arena: mine.png"):
        starters.replaced(other)


def application(build, admission, tmp_path):
    """An arena with its own starters: the arena, and the application."""
    starters = read_starters(written(tmp_path))
    built = build(vision=("good-model", "second-model"), starters=starters)
    starters.keep_pictures(built.folder)
    pictures = Examples(admission, starters.listed(), Random(1))
    return built, make_app(built.arena, Uploads(admission), ArenaSettings(), "127.0.0.1", starters=pictures)


def test_the_picture_of_a_starter_is_an_example_image_to_the_log_and_to_ingest(build, admission, tmp_path):
    built, app = application(build, admission, tmp_path)

    async def visits():
        visitor = Page(app)
        await visitor.begin()
        thumb = await visitor.client.get("/starters/mine.png")
        assert (thumb.status_code, thumb.headers["content-type"]) == (200, "image/webp")
        name = (await visitor.client.post("/starters/mine.png")).json()["name"]
        await visitor.say("What is this?", [name])
        await visitor.act("vote", kind="leftvote")

    asyncio.run(visits())
    lines = [record for record, _ in built.seen()]
    assert {tuple(line["arena"]["presets"]) for line in lines if line["type"] == "chat"} == {("starter-mine.png",)}
    store = ingested(built.folder, tmp_path / "store")
    (preset,) = store.read("presets").to_dicts()
    (image,) = store.read("conversations")["image_ids"].explode().unique().to_list()
    assert (preset["path"], preset["dataset"], preset["image_id"]) == ("starter-mine.png", "starters", image)


def test_pictures_of_starters_have_the_limit_of_uploads(build, admission, tmp_path):
    _, app = application(build, admission, tmp_path)

    async def visits():
        visitor = Page(app)
        await visitor.begin()
        drawn = [await visitor.client.post("/starters/mine.png") for _ in range(UPLOADS_A_MINUTE_MAX + 1)]
        return [response.status_code for response in drawn]

    assert asyncio.run(visits()) == [200] * UPLOADS_A_MINUTE_MAX + [429]


def test_the_page_offers_starters_as_text(build, admission, tmp_path):
    _, app = application(build, admission, tmp_path)
    page = asyncio.run(stranger(app, "/")).text
    assert "Look &lt;closely&gt;" in page and 'data-picture="mine.png"' in page and "What is &lt;this&gt;?" in page


@pytest.mark.parametrize("name", ["gone.png", "..%2fstarters.yaml", "starters.yaml"])
def test_a_picture_that_is_none_of_the_starters_is_not_served(build, admission, tmp_path, name):
    _, app = application(build, admission, tmp_path)

    async def asked():
        visitor = Page(app)
        await visitor.begin()
        assert (await visitor.client.get(f"/starters/{name}")).status_code == 404
        assert (await visitor.client.post(f"/starters/{name}")).status_code in (404, 409)

    asyncio.run(asked())


def test_a_collection_without_pictures_leaves_no_older_ones_behind(build, admission, tmp_path):
    built, _ = application(build, admission, tmp_path)
    Starters(StartersFile(categories=[]), {}).keep_pictures(built.folder)
    assert json.loads((built.folder / "starters" / "presets.json").read_text()) == []
