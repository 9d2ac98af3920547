"""The connection to Google Cloud Vision, or to a server on this machine that speaks its protocol."""

import ipaddress
import os

import grpc  # type: ignore[import-untyped]
from google.auth.exceptions import DefaultCredentialsError
from google.cloud.vision_v1 import ImageAnnotatorClient
from google.cloud.vision_v1.services.image_annotator.transports import ImageAnnotatorGrpcTransport

from schemas.errors import BadInput, MissingProvider

ENDPOINT = "CURATE_VISION_ENDPOINT"
_UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
"""What the library sets on its own channels: the answer to 16 pages of text exceeds gRPC's 4 MB."""


def connect() -> ImageAnnotatorClient:
    """A client with the environment's credentials. Raises MissingProvider when there are none."""
    endpoint = os.environ.get(ENDPOINT)
    if endpoint:
        channel = grpc.insecure_channel(_on_this_machine(endpoint), options=_UNLIMITED)
        return ImageAnnotatorClient(transport=ImageAnnotatorGrpcTransport(channel=channel))
    try:
        return ImageAnnotatorClient()
    except DefaultCredentialsError:
        raise MissingProvider(
            "google_vision: no Google credentials in the environment; set GOOGLE_APPLICATION_CREDENTIALS to a service "
            "account's key file, or run: gcloud auth application-default login"
        ) from None


def _on_this_machine(endpoint: str) -> str:
    """The endpoint, if it is a loopback one: pictures must not leave unencrypted."""
    host, _, port = endpoint.rpartition(":")
    if not (port.isdecimal() and _is_loopback(host.strip("[]"))):
        raise BadInput(f"{ENDPOINT}={endpoint!r}: only host:port on this machine is allowed, such as 127.0.0.1:8085")
    return endpoint


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
