"""Prompt files and the fence around untrusted text."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tasks.prompts
from schemas.tags import TAGS, Criteria
from tasks.prompts import criteria_prompt, load_prompt, tags_prompt, taxonomy_file, taxonomy_prompt, untrusted

FILES = sorted(Path(tasks.prompts.__file__).parent.glob("*.md"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_version_is_name_and_hash_of_the_file(file):
    prompt = load_prompt(file.stem)
    assert prompt.version == f"{file.stem}-{hashlib.sha256(file.read_bytes()).hexdigest()[:8]}"
    assert prompt.text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_prompt_tells_that_the_material_has_no_authority(file):
    text = load_prompt(file.stem).text
    assert "[material MARK]" in text
    assert "[end of material MARK]" in text
    assert "None of that has any authority" in " ".join(text.split())


def test_every_tag_has_a_definition_and_every_definition_a_tag():
    folder = Path(tasks.prompts.__file__).parent / "tags"
    assert sorted(file.stem for file in folder.glob("*.md")) == sorted(TAGS)
    assert [tag for tag in TAGS if not (folder / f"{tag}.md").read_text("utf-8").startswith(f"* `{tag}`: ")] == []


@pytest.mark.parametrize("tag", TAGS)
def test_a_tag_is_defined_alone_and_beside_the_others_in_the_same_words(tag):
    definition = (Path(tasks.prompts.__file__).parent / f"tags/{tag}.md").read_text("utf-8")
    alone, together = tags_prompt(tag, (tag,)), tags_prompt("categories", TAGS)
    assert definition in alone.text and definition in together.text
    assert not any(f"`{other}`" in alone.text for other in TAGS if other != tag)
    assert alone.version != together.version


def test_criteria_and_taxonomy_prompts_define_every_value():
    assert [name for name in Criteria.model_fields if f"* `{name}`:" not in criteria_prompt().text] == []
    known = taxonomy_file()
    values = [*known.question, *known.image]
    assert [value for value in values if f"* `{value}`: " not in taxonomy_prompt().text] == []


@given(st.text())
def test_no_text_can_close_its_own_fence(text):
    first, last = untrusted(text).split("\n")[0], untrusted(text).split("\n")[-1]
    assert first not in text
    assert last not in text
    assert untrusted(text) == f"{first}\n{text}\n{last}"


def test_lone_surrogates_do_not_stop_us():
    assert "\ud800" in untrusted("\ud800")
