"""Servers on 127.0.0.1 that speak the vendors' protocols, for the vendors' real SDKs to talk to."""

import base64
import io
from collections import deque
from dataclasses import dataclass

import numpy as np
import PIL.Image
import PIL.ImageDraw
import pytest

from tasks.images.decode import open_image
from tasks.providers.capabilities import Document
from tests.http_server import Reply


@pytest.fixture
def reply():
    return Reply


def encode(image, file_format="PNG"):
    sink = io.BytesIO()
    image.save(sink, file_format)
    return sink.getvalue()


@pytest.fixture(scope="session")
def drawn_image():
    """Makes a drawn image that differs with `seed`."""

    def make(seed=0, width=96, height=64, file_format="PNG"):
        rng = np.random.default_rng(seed)
        image = PIL.Image.fromarray(rng.integers(0, 256, (height // 8, width // 8, 3), np.uint8))
        return open_image(encode(image.resize((width, height)), file_format))

    return make


@pytest.fixture(scope="session")
def noise():
    """Makes an image that no encoder can make small."""

    def make(seed):
        rng = np.random.default_rng(seed)
        return open_image(encode(PIL.Image.fromarray(rng.integers(0, 256, (800, 1200, 3), np.uint8))))

    return make


@pytest.fixture(scope="session")
def text_image():
    """Makes an image of black words on white."""

    def make(words, width=480, height=120):
        image = PIL.Image.new("RGB", (width, height), "white")
        PIL.ImageDraw.Draw(image).text((20, 30), words, fill="black", font_size=48)
        return open_image(encode(image))

    return make


@pytest.fixture
def document():
    """Makes a document; its images travel encoded, as a tagger that looks at them gets them."""

    def make(prompt="What does the sign say?", images=()):
        shown = tuple((p.format, p.encoded) for p in images)
        return Document(
            document_id="d1",
            prompt=prompt,
            image_count=len(shown),
            images=shown,
            image_text="",
            flat_fraction=0.0,
            colour_count=0,
        )

    return make


@dataclass(frozen=True)
class Vendor:
    """One language-model vendor: its model, and how its protocol says things."""

    key: str
    model: type
    completed: object
    refused: dict
    truncated: dict
    told: object
    """request -> system text."""
    asked: object
    """request -> user text."""
    shown: object
    """request -> bytes of each image."""


def _openai():
    from tasks.providers.production.openai.model import openai_model

    def completed(content, finish_reason="stop", refusal=None):
        message = {"role": "assistant", "content": content, "refusal": refusal}
        choice = {"index": 0, "finish_reason": finish_reason, "message": message}
        return {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}

    def parts(request, kind):
        return [part for part in request["messages"][1]["content"] if part["type"] == kind]

    return Vendor(
        key="OPENAI_API_KEY",
        model=openai_model,
        completed=completed,
        refused=completed(None, refusal="I can't help with that."),
        truncated=completed('{"captioning": tr', finish_reason="length"),
        told=lambda request: request["messages"][0]["content"],
        asked=lambda request: parts(request, "text")[0]["text"],
        shown=lambda request: [
            base64.b64decode(p["image_url"]["url"].split("base64,")[1]) for p in parts(request, "image_url")
        ],
    )


def _gemini():
    from tasks.providers.production.google.gemini import gemini_model

    def completed(content, finish_reason="STOP"):
        parts = [] if content is None else [{"text": content}]
        return {"candidates": [{"finishReason": finish_reason, "content": {"role": "model", "parts": parts}}]}

    def parts(request):
        return request["contents"][0]["parts"]

    return Vendor(
        key="GEMINI_API_KEY",
        model=gemini_model,
        completed=completed,
        refused={"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}},
        truncated=completed('{"captioning": tr', finish_reason="MAX_TOKENS"),
        told=lambda request: request["systemInstruction"]["parts"][0]["text"],
        asked=lambda request: parts(request)[0]["text"],
        shown=lambda request: [base64.urlsafe_b64decode(p["inlineData"]["data"]) for p in parts(request)[1:]],
    )


def anthropic_vendor():
    """Anthropic, which only answers chats."""

    def completed(content, stop_reason="end_turn"):
        blocks = [] if content is None else [{"type": "text", "text": content}]
        thought = {"type": "thinking", "thinking": "Let me see.", "signature": "s"}
        said = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
        return said | {"content": [thought, *blocks], "stop_reason": stop_reason}

    def parts(request, kind):
        return [part for part in request["messages"][0]["content"] if part["type"] == kind]

    return Vendor(
        key="ANTHROPIC_API_KEY",
        model=None,
        completed=completed,
        refused=completed("I can't help with that.", stop_reason="refusal"),
        truncated=completed('{"captioning": tr', stop_reason="max_tokens"),
        told=lambda request: request["system"],
        asked=lambda request: parts(request, "text")[0]["text"],
        shown=lambda request: [base64.b64decode(part["source"]["data"]) for part in parts(request, "image")],
    )


@pytest.fixture(params=["openai", "gemini"])
def vendor(request, http_server, monkeypatch):
    """Each vendor in turn, with its SDK pointed at `http_server`."""
    pytest.importorskip("openai")
    pytest.importorskip("google.genai")
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    monkeypatch.setenv("GEMINI_API_KEY", "test-key")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{http_server.url}/v1")
    monkeypatch.setenv("CURATE_GEMINI_BASE_URL", http_server.url)
    return {"openai": _openai, "gemini": _gemini}[request.param]()


class VisionServer:
    """Speaks Cloud Vision's gRPC service with the package's own messages."""

    def __init__(self):
        from concurrent.futures import ThreadPoolExecutor

        import grpc
        from google.cloud.vision_v1 import (
            AnnotateImageResponse,
            BatchAnnotateImagesRequest,
            BatchAnnotateImagesResponse,
        )

        self.requests, self.failures = [], deque()
        self.answer = lambda image: AnnotateImageResponse()
        self.lost, self.garbage = 0, b""

        def respond(request, context):
            self.requests.append(request)
            if len(request.requests) > 16:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "too many images")
            if self.failures:
                context.abort(self.failures.popleft(), "secret words of the item")
            answers = [self.answer(image) for image in request.requests]
            return BatchAnnotateImagesResponse(responses=answers[self.lost :])

        method = grpc.unary_unary_rpc_method_handler(
            respond,
            request_deserializer=BatchAnnotateImagesRequest.deserialize,
            response_serializer=lambda answer: self.garbage or BatchAnnotateImagesResponse.serialize(answer),
        )
        service = grpc.method_handlers_generic_handler(
            "google.cloud.vision.v1.ImageAnnotator", {"BatchAnnotateImages": method}
        )
        self._server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.max_receive_message_length", -1)])
        self._server.add_generic_rpc_handlers([service])
        self.endpoint = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    @property
    def images(self):
        return [image for request in self.requests for image in request.requests]

    def close(self):
        self._server.stop(None).wait()


@pytest.fixture
def vision_server(monkeypatch):
    pytest.importorskip("google.cloud.vision_v1")
    server = VisionServer()
    monkeypatch.setenv("CURATE_VISION_ENDPOINT", server.endpoint)
    yield server
    server.close()


@pytest.fixture(scope="session")
def clip_weights(tmp_path_factory):
    """Checkpoint of a small OpenCLIP architecture with drawn weights."""
    from tests.tasks.providers.small_clip import drawn_checkpoint

    return drawn_checkpoint(tmp_path_factory.mktemp("clip"))


@pytest.fixture
def clip(clip_weights, monkeypatch):
    """Makes the embedder of that checkpoint under some settings."""

    def make(**settings):
        from tasks.providers.production.local.openclip import OpenClip
        from tests.tasks.providers.small_clip import MODEL

        given = {"MODEL": MODEL, "PRETRAINED": str(clip_weights), "DEVICES": "cpu"} | settings
        for name, value in given.items():
            monkeypatch.setenv(f"CURATE_CLIP_{name}", value)
        return OpenClip()

    return make
