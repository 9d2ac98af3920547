"""SafeSearch through the real client, over gRPC, against a server on this machine."""

import pytest

from tasks.providers.capabilities import Failed

pytest.importorskip("google.cloud.vision_v1", reason="production extra")
from google.cloud import vision_v1

from tasks.providers.production.google.vision import PROBABILITY, VisionClient, VisionSafeSearch


@pytest.fixture
def client(vision_server, quick):
    return VisionClient()


@pytest.mark.parametrize("said", [None, vision_v1.Likelihood.UNKNOWN])
def test_no_verdict_is_a_failure_and_never_a_guess(client, vision_server, drawn_image, said):
    vision_server.answer = lambda _: vision_v1.AnnotateImageResponse() if said is None else _says(said)
    assert VisionSafeSearch(client).nsfw_probabilities([drawn_image()]) == [Failed("no_verdict")]


def _says(adult: int) -> vision_v1.AnnotateImageResponse:
    return vision_v1.AnnotateImageResponse(safe_search_annotation=vision_v1.SafeSearchAnnotation(adult=adult))


def test_likely_and_more_reach_the_preset_threshold_and_possible_does_not(client, vision_server, drawn_image):
    found = {}
    for likelihood in PROBABILITY:
        vision_server.answer = lambda _, said=likelihood: _says(said)
        (found[likelihood.name],) = VisionSafeSearch(client).nsfw_probabilities([drawn_image(seed=int(likelihood))])
    assert list(found.values()) == sorted(found.values())
    assert [name for name, value in found.items() if value >= 0.8] == ["LIKELY", "VERY_LIKELY"]
