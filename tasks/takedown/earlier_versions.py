"""Removes what an S3 bucket keeps of replaced or deleted objects: earlier versions and unfinished uploads."""

from collections.abc import Iterator
from typing import Any

from schemas.errors import why_unreadable
from tasks.storage.tables import Store

_FOLDERS = ("tables", "releases", "exports")
"""Folders of a store with texts and images."""
_WITHOUT_VERSIONS = {"NotImplemented", "MethodNotAllowed"}
"""Error codes of object stores without versioning."""


def forget_versions(store: Store) -> str:
    """Remove all earlier versions of a store's objects on S3, and its unfinished uploads.

    All are removed because it is unknown which of them contain what was taken down. Returns the reason why some could
    not be removed; empty on success and for stores elsewhere.
    """
    if "s3" not in store.fs.protocol:
        return ""
    bucket, _, prefix = store.path.partition("/")
    places = [f"{prefix}/{folder}/".lstrip("/") for folder in _FOLDERS]
    try:
        for place in places:
            _forget_uploads(store.fs, bucket, place)
        refused = [code for place in places for code in _forget_earlier(store.fs, bucket, place)]
    except Exception as error:  # every object store has its own errors
        said = getattr(error.__cause__, "response", {}).get("Error", {}).get("Code")
        return "" if said in _WITHOUT_VERSIONS else why_unreadable(error)
    return f"{len(refused):,} of them: {refused[0]}" if refused else ""


def _forget_uploads(fs: Any, bucket: str, prefix: str) -> None:
    for each in fs.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=prefix).get("Uploads", []):
        fs.call_s3("abort_multipart_upload", Bucket=bucket, Key=each["Key"], UploadId=each["UploadId"])


def _forget_earlier(fs: Any, bucket: str, prefix: str) -> Iterator[str]:
    """Remove noncurrent versions and delete markers, one page of the listing at a time.

    Yields the error codes of those that the server does not remove.
    """
    after: dict[str, str] = {}
    while True:
        page = fs.call_s3("list_object_versions", Bucket=bucket, Prefix=prefix, **after)
        earlier = [each for each in page.get("Versions", []) if not each["IsLatest"]]
        found = [{"Key": e["Key"], "VersionId": e["VersionId"]} for e in [*earlier, *page.get("DeleteMarkers", [])]]
        if found:
            done = fs.call_s3("delete_objects", Bucket=bucket, Delete={"Objects": found, "Quiet": True})
            yield from (str(each["Code"]) for each in done.get("Errors", []))
        if not page.get("IsTruncated"):
            return
        after = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}
