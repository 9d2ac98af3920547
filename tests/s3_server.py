"""S3 on 127.0.0.1: moto's server in its own process."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import boto3
import pytest
import s3fs

from tests.waiting import free_port, listens, wait_until


@contextmanager
def s3_server(bucket: str) -> Iterator[dict[str, str]]:
    """A server with an empty bucket; yields the environment variables for clients."""
    with s3_process(bucket) as (own, _):
        yield own


@contextmanager
def s3_process(bucket: str) -> Iterator[tuple[dict[str, str], subprocess.Popen[bytes]]]:
    """The same; also yields the server process, which tests may kill."""
    port = free_port()
    own = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_MAX_ATTEMPTS": "1",  # s3fs tries again itself
    }
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        wait_until(lambda: listens(port), server)
        s3_client(own).create_bucket(Bucket=bucket)
        try:
            yield own, server
        finally:  # a test that fails would wait for it
            server.terminate()


@contextmanager
def s3_here(bucket: str, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """The same; until the block ends it is the server of this process, with more variables. Yields its process."""
    with s3_process(bucket) as (own, server), pytest.MonkeyPatch.context() as patch:
        for name, value in (own | {"no_proxy": "127.0.0.1"} | more).items():
            patch.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()  # of the servers of other tests
        yield server
        s3fs.S3FileSystem.clear_instance_cache()


def s3_client(environment: Mapping[str, str]) -> Any:
    """A client of that server."""
    return boto3.client(
        "s3",
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        region_name=environment["AWS_DEFAULT_REGION"],
    )
