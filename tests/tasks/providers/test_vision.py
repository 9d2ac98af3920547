"""Google Cloud Vision and its SafeSearch through the real client, over gRPC, against a server on this machine."""

import pytest

from schemas.errors import BadInput, MissingProvider
from schemas.signals import Face, ImageText, TextBox
from tasks.images.decode import open_image
from tasks.providers.capabilities import Failed

pytest.importorskip("google.cloud.vision_v1", reason="production extra")

import grpc
from google.cloud import vision_v1
from google.rpc.status_pb2 import Status

from tasks.providers import Providers
from tasks.providers.production.google.vision import (
    PROBABILITY,
    VisionClient,
    VisionFaces,
    VisionObjects,
    VisionSafeSearch,
    VisionText,
)

FACE, TEXT = vision_v1.Feature.Type.FACE_DETECTION, vision_v1.Feature.Type.TEXT_DETECTION


def poly(left, top, right, bottom):
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    return vision_v1.BoundingPoly(vertices=[vision_v1.Vertex(x=x, y=y) for x, y in corners])


def face(box, confidence):
    return vision_v1.FaceAnnotation(bounding_poly=poly(*box), detection_confidence=confidence)


def words(whole, **boxes):
    found = [vision_v1.EntityAnnotation(description=whole, bounding_poly=poly(0, 0, 96, 64))]
    return found + [vision_v1.EntityAnnotation(description=w, bounding_poly=poly(*box)) for w, box in boxes.items()]


@pytest.fixture
def client(vision_server, short_waits):
    return VisionClient()


@pytest.fixture
def faces(client):
    return VisionFaces(client)


def test_faces_come_strongest_first_cut_at_the_edge_as_left_top_width_height(faces, vision_server, drawn_image):
    vision_server.answer = lambda _: vision_v1.AnnotateImageResponse(
        face_annotations=[face((1, 2, 11, 22), 0.5), face((40, 10, 60, 40), 0.875)]
    )
    assert faces.find_faces([drawn_image()]) == [
        [Face(box=[40, 10, 20, 30], confidence=0.875), Face(box=[1, 2, 10, 20], confidence=0.5)]
    ]
    vision_server.answer = lambda _: vision_v1.AnnotateImageResponse(face_annotations=[face((-9, -9, 200, 20), 0.5)])
    assert faces.find_faces([drawn_image(1, width=96, height=64)]) == [[Face(box=[0, 0, 96, 20], confidence=0.5)]]


def test_large_image_is_sent_small_and_boxes_come_back_in_its_own_pixels(faces, vision_server, drawn_image):
    vision_server.answer = lambda _: vision_v1.AnnotateImageResponse(face_annotations=[face((0, 0, 800, 400), 0.5)])
    large = drawn_image(width=3200, height=1600)
    assert faces.find_faces([large]) == [[Face(box=[0, 0, 1600, 800], confidence=0.5)]]
    sent = open_image(vision_server.images[0].image.content)
    assert (sent.width, sent.height, sent.format) == (1600, 800, "jpeg")


def test_objects_come_once_each_and_only_those_that_are_certain_enough(client, vision_server, drawn_image):
    def seen(name, score):
        return vision_v1.LocalizedObjectAnnotation(name=name, score=score)

    vision_server.answer = lambda _: vision_v1.AnnotateImageResponse(
        localized_object_annotations=[seen("Cup", 0.6), seen("Table", 0.9), seen("Cup", 0.8), seen("Dog", 0.4)]
    )
    assert VisionObjects(client).find_objects([drawn_image()]) == [["Table", "Cup"]]
    assert [feature.type_.name for feature in vision_server.images[0].features] == ["OBJECT_LOCALIZATION"]


def test_faces_are_asked_for_alone_and_up_to_a_hundred(faces, vision_server, drawn_image, client):
    faces.find_faces([drawn_image()])
    assert [feature.max_results for feature in vision_server.images[0].features] == [100]
    faces.find_faces([drawn_image()])
    assert [feature.type_ for feature in vision_server.images[0].features] == [FACE]
    faces.find_faces([drawn_image()])
    vision_server.answer = lambda _: vision_v1.AnnotateImageResponse(text_annotations=words("HI"))
    assert VisionText(client).read([drawn_image()])[0].text == "HI"


def test_text_has_its_lines_and_the_area_of_its_words(client, vision_server, drawn_image):
    vision_server.answer = lambda _: vision_v1.AnnotateImageResponse(
        text_annotations=words("EXIT\nHOURS\n", EXIT=(0, 0, 48, 32), HOURS=(48, 32, 96, 64))
    )
    boxes = [TextBox(box=[0, 0, 48, 32], start=0, end=4), TextBox(box=[48, 32, 48, 32], start=5, end=10)]
    assert VisionText(client).read([drawn_image(width=96, height=64)]) == [
        ImageText(text="EXIT\nHOURS", line_count=2, area_fraction=0.5, boxes=boxes)
    ]


def test_a_word_that_is_not_in_the_text_stands_for_all_of_it(client, vision_server, drawn_image):
    vision_server.answer = lambda _: vision_v1.AnnotateImageResponse(text_annotations=words("EXIT", EX1T=(0, 0, 9, 9)))
    assert VisionText(client).read([drawn_image()])[0].boxes == [TextBox(box=[0, 0, 9, 9], start=0, end=4)]


def test_both_capabilities_of_a_run_share_one_client(vision_server, drawn_image):
    providers = Providers({"faces": "google_vision", "image_text": "google_vision"})
    faces, text = providers["faces"], providers["image_text"]
    faces.find_faces([drawn_image()])
    text.read([drawn_image()])
    assert len(vision_server.requests) == 1


def test_more_than_sixteen_images_are_split_stay_in_order_and_none_is_sent_twice(faces, vision_server, drawn_image):
    images = [drawn_image(seed, width=80 + 8 * seed) for seed in range(40)]
    vision_server.answer = lambda image: vision_v1.AnnotateImageResponse(
        face_annotations=[face((0, 0, open_image(image.image.content).width, 8), 0.5)]
    )
    assert [found[0].box[2] for found in faces.find_faces(images)] == [p.width for p in images]
    assert sorted(len(request.requests) for request in vision_server.requests) == [8, 16, 16]
    vision_server.requests.clear()
    assert len(faces.find_faces([drawn_image(50), drawn_image(50)])) == 2
    assert len(vision_server.images) == 1


def test_requests_stay_below_the_byte_limit(faces, vision_server, noise):
    faces.find_faces([noise(seed) for seed in range(10)])
    sizes = [sum(len(image.image.content) for image in request.requests) for request in vision_server.requests]
    assert len(sizes) > 1
    assert max(sizes) <= 7_000_000


def test_failed_image_does_not_fail_its_neighbours(faces, vision_server, drawn_image):
    good, bad = drawn_image(1), drawn_image(2)

    def answer(image):
        broken = image.image.content == bad.encoded
        return vision_v1.AnnotateImageResponse(error=Status(code=3, message="quotes the item") if broken else None)

    vision_server.answer = answer
    assert faces.find_faces([good, bad, good]) == [[], Failed("invalid_argument"), []]


def test_failure_is_not_remembered_as_an_answer(faces, vision_server, drawn_image):
    vision_server.answer = lambda _: vision_v1.AnnotateImageResponse(error=Status(code=13))
    assert faces.find_faces([drawn_image()]) == [Failed("internal")]
    vision_server.answer = lambda _: vision_v1.AnnotateImageResponse(face_annotations=[face((0, 0, 8, 8), 0.5)])
    assert faces.find_faces([drawn_image()]) == [[Face(box=[0, 0, 8, 8], confidence=0.5)]]


@pytest.mark.parametrize("status", ["RESOURCE_EXHAUSTED", "UNAVAILABLE", "DEADLINE_EXCEEDED"])
def test_passing_failure_is_survived(faces, vision_server, drawn_image, status):
    vision_server.failures.extend([grpc.StatusCode[status]] * 2)
    assert faces.find_faces([drawn_image()]) == [[]]
    assert len(vision_server.requests) == 3


def test_exhausted_quota_is_a_failure_after_five_calls(faces, vision_server, drawn_image):
    vision_server.failures.extend([grpc.StatusCode.RESOURCE_EXHAUSTED] * 9)
    assert faces.find_faces([drawn_image(1), drawn_image(2)]) == [Failed("resource_exhausted")] * 2
    assert len(vision_server.requests) == 5


@pytest.mark.parametrize("status", ["PERMISSION_DENIED", "UNAUTHENTICATED", "INVALID_ARGUMENT"])
def test_lasting_failure_is_a_failure_and_not_repeated(faces, vision_server, drawn_image, status):
    vision_server.failures.append(grpc.StatusCode[status])
    assert faces.find_faces([drawn_image()]) == [Failed(status.lower())]
    assert len(vision_server.requests) == 1


@pytest.mark.parametrize(
    "endpoint", ["vision.example.org:443", "10.0.0.7:80", "127.0.0.1", "localhost:http", "[::]:80"]
)
def test_unencrypted_channel_leads_nowhere_but_this_machine(monkeypatch, endpoint):
    monkeypatch.setenv("CURATE_VISION_ENDPOINT", endpoint)
    with pytest.raises(BadInput, match="on this machine"):
        VisionClient()


def test_missing_credentials_are_told_before_the_first_image(monkeypatch, tmp_path):
    monkeypatch.delenv("CURATE_VISION_ENDPOINT", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "no-such-key.json"))
    with pytest.raises(MissingProvider, match="GOOGLE_APPLICATION_CREDENTIALS") as caught:
        VisionFaces(VisionClient())
    assert "no-such-key" not in str(caught.value)


def test_what_is_no_answer_is_a_failure(faces, vision_server, drawn_image):
    vision_server.lost = 1
    assert faces.find_faces([drawn_image(1), drawn_image(2)]) == [Failed("wrong_number_of_answers")] * 2
    vision_server.garbage = b"\xff\xfe no protocol buffer"
    (answer,) = faces.find_faces([drawn_image()])
    assert isinstance(answer, Failed)


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
