"""Every capability has a provider that runs on one's own machines, as the last column of docs/models.md says."""

import re
from pathlib import Path

import pytest

from tasks.providers import PROVIDERS, Providers

PAGE = (Path(__file__).parents[3] / "docs" / "models.md").read_text("utf-8")
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines() if line.startswith("| ")]
OWN = {row[0]: row[3] for row in ROWS if row[0] in PROVIDERS}
CHOSEN = {capability: re.findall("`([^`]*)`", said)[0] for capability, said in OWN.items()}
SERVED = sorted(capability for capability, said in OWN.items() if "your server" in said)
WITH_WEIGHTS = {
    "nsfw": "test_opennsfw2.py",
    "faces": "test_yunet.py",
    "image_text": "test_rapidocr_weights.py",
    "image_embedding": "test_openclip.py",
    "text_embedding": "test_openclip.py",
    "pictures": "test_diffusers_pictures.py",
}
"""Capability -> the test that runs its self-hosted provider with weights from a file."""


def test_chosen_together_they_leave_no_stand_in_and_none_is_googles():
    assert CHOSEN.keys() == PROVIDERS.keys()
    assert Providers(CHOSEN).stand_ins == []
    assert [name for c, name in CHOSEN.items() if "google" in PROVIDERS[c][name]] == []


def test_each_takes_weights_from_a_file_or_asks_a_server_or_ships_with_the_package():
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
