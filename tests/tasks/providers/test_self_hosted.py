"""What docs/models.md and docs/privacy.md say of self-hosted providers and of stand-ins."""

import re
from pathlib import Path

import pytest

from benchmarks.tags_by_hand import FILE, TAGS
from tasks.judging.released_texts import ITEM_JUDGE, JUDGE
from tasks.providers import MAKERS, PROVIDERS, Providers
from tasks.providers.embedded_figures import FIGURES, stated
from tasks.signals.loose_files import read_tag_labels

PAGE = (Path(__file__).parents[3] / "docs" / "models.md").read_text("utf-8")
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines() if line.startswith("| ")]
OWN = {row[0]: row[3] for row in ROWS if row[0] in PROVIDERS}
CHOSEN = {capability: re.findall("`([^`]*)`", said)[0] for capability, said in OWN.items()}
SERVED = sorted(capability for capability, said in OWN.items() if "your server" in said)
WITH_WEIGHTS = {
    "nsfw": "test_opennsfw2.py",
    "faces": "test_weights.py",
    "image_text": "test_weights.py",
    "image_embedding": "test_openclip.py",
    "text_embedding": "test_openclip.py",
    "pictures": "test_diffusers_pictures.py",
}
"""Capability -> the test that runs its self-hosted provider with weights from a file."""


def test_each_capability_has_one_of_ones_own_by_file_server_or_package_and_none_is_googles():
    assert CHOSEN.keys() == PROVIDERS.keys()
    assert Providers(CHOSEN).stand_ins == []
    assert [name for c, name in CHOSEN.items() if "google" in PROVIDERS[c][name]] == []
    shipped = {capability for capability, name in CHOSEN.items() if name == "embedded"}
    assert {*SERVED, *WITH_WEIGHTS, *shipped} == PROVIDERS.keys()
    assert all(Path(__file__).with_name(file).exists() for file in WITH_WEIGHTS.values())


@pytest.mark.parametrize("capability", SERVED)
def test_a_server_of_ones_own_needs_an_address_and_any_word_for_a_key(capability, monkeypatch, http_server):
    openai = pytest.importorskip("openai")
    made = []

    class Client(openai.OpenAI):
        def __init__(self, **given):
            super().__init__(**given)
            made.append(self)

    monkeypatch.setattr(openai, "OpenAI", Client)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{http_server.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    provider = Providers({capability: CHOSEN[capability]})[capability]
    assert provider.version
    assert {str(client.base_url) for client in made} == {f"{http_server.url}/v1/"}


ROOT = Path(__file__).parents[3]


def test_every_stand_in_has_its_lines_and_every_figure_is_on_the_page():
    for name in (*Providers().stand_ins, JUDGE, ITEM_JUDGE, *MAKERS):
        assert stated(name), name
    told = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    lines = [(f"`{each.of}`", *line.model_dump().values()) for each in FIGURES.figures for line in stated(each.of)]
    assert [line for line in lines if f"| {' | '.join(line)} |" not in told] == []


def test_the_labels_by_hand_are_of_the_definitions_beside_them():
    halves = [said["half"] for said in read_tag_labels(FILE, ["half"], texts=True).values()]
    tags = read_tag_labels(FILE, TAGS, texts=False).values()
    assert (halves.count("work"), halves.count("unseen")) == (157, 163)
    assert {tag: sum(said[tag] is True for said in tags) for tag in ("homework", "ocr")} == {"homework": 7, "ocr": 168}
