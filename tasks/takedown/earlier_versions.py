"""What a bucket keeps of objects that were replaced or removed: earlier versions, and uploads that were cut off."""

from collections.abc import Iterator
from typing import Any

from schemas.errors import why_unreadable
from tasks.storage.tables import Store

_FOLDERS = ("tables", "releases", "exports")
"""Of a store: what holds texts and pictures."""
_WITHOUT_VERSIONS = {"NotImplemented", "MethodNotAllowed"}
"""Answers of storage that knows no versions."""


def forget_versions(store: Store) -> str:
    """Remove every earlier version of the objects of a store on S3, and what uploads left that never ended.

    Which of them hold what was taken down cannot be told. Returns what hinders it, for an error line; empty when
    nothing is left, and for a store elsewhere.
    """
    if "s3" not in store.fs.protocol:
        return ""
    bucket, _, prefix = store.path.partition("/")
    places = [f"{prefix}/{folder}/".lstrip("/") for folder in _FOLDERS]
    try:
        for place in places:
            _forget_uploads(store.fs, bucket, place)
        refused = [said for place in places for page in _earlier(store.fs, bucket, place) for said in _remove(*page)]
    except Exception as error:  # every object store has its own errors
        said = getattr(error.__cause__, "response", {}).get("Error", {}).get("Code")
        return "" if said in _WITHOUT_VERSIONS else why_unreadable(error)
    return f"{len(refused):,} of them: {refused[0]}" if refused else ""


def _earlier(fs: Any, bucket: str, prefix: str) -> Iterator[tuple[Any, str, list[dict[str, str]]]]:
    """Versions that are not what their object is now, and the marks of objects that are no more, page by page."""
    after: dict[str, str] = {}
    while True:
        page = fs.call_s3("list_object_versions", Bucket=bucket, Prefix=prefix, **after)
        earlier = [each for each in page.get("Versions", []) if not each["IsLatest"]]
        found = [*earlier, *page.get("DeleteMarkers", [])]
        if found:
            yield fs, bucket, [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in found]
        if not page.get("IsTruncated"):
            return
        after = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}


def _remove(fs: Any, bucket: str, versions: list[dict[str, str]]) -> list[str]:
    """What the server says of those that it does not remove."""
    done = fs.call_s3("delete_objects", Bucket=bucket, Delete={"Objects": versions, "Quiet": True})
    return [str(each["Code"]) for each in done.get("Errors", [])]


def _forget_uploads(fs: Any, bucket: str, prefix: str) -> None:
    for each in fs.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=prefix).get("Uploads", []):
        fs.call_s3("abort_multipart_upload", Bucket=bucket, Key=each["Key"], UploadId=each["UploadId"])
