"""The loopback Hub's answers about files: listing, uploading, committing, reading."""

import base64
import hashlib
import json
import re
from pathlib import PurePosixPath
from urllib.parse import parse_qs, urlencode, urlsplit

_LFS_BYTES = 4096
_PAGE = 25


class FileAnswers:
    """Part of the handler of `tests/hub_server.py`: its `hub`, `body`, `query` and `found` are used here."""

    def entry(self, path: str, content: bytes):
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        row = {"type": "file", "path": path, "size": len(content), "oid": blob}
        if self.is_large(path, len(content)):
            row["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
        return row

    @staticmethod
    def is_large(path: str, size: int) -> bool:
        return path.endswith(".parquet") or size > _LFS_BYTES * 256

    def tree(self, name: str, revision: str, folder: str = ""):
        """Files and folders below a folder (recursively) or directly in it, in pages."""
        repo, commit, error = self.found(name, revision)
        if error:
            return error
        files, within = repo.commits[commit], f"{folder.rstrip('/')}/" if folder else ""
        below = sorted(path for path in files if path.startswith(within))
        if within and not below:
            return 404, {"error": f"{folder} does not exist on {revision}"}, {"x-error-code": "EntryNotFound"}
        folders = {parent.as_posix() for path in below for parent in PurePosixPath(path).parents}
        found = {path: self.entry(path, files[path]) for path in below}
        found |= {path: self.folder(path) for path in folders if path.startswith(within) and path != "."}
        if self.query.get("recursive") != ["true"]:
            found = {path: row for path, row in found.items() if "/" not in path.removeprefix(within)}
        return self.page([found[path] for path in sorted(found)])

    def page(self, rows: list):
        """The next page of rows."""
        start = int(self.query.get("cursor", ["0"])[0])
        query = urlencode({name: values[0] for name, values in self.query.items()} | {"cursor": start + _PAGE})
        link = f'<{self.hub.endpoint}{urlsplit(self.path).path}?{query}>; rel="next"'
        return 200, rows[start : start + _PAGE], {"link": link} if start + _PAGE < len(rows) else {}

    @staticmethod
    def folder(path: str):
        return {"type": "directory", "path": path, "oid": hashlib.sha1(path.encode()).hexdigest()}

    def paths_info(self, name: str, revision: str):
        repo, commit, error = self.found(name, revision)
        if error:
            return error
        files, rows = repo.commits[commit], []
        for asked in parse_qs(self.body.decode()).get("paths", []):
            if asked in files:
                rows.append(self.entry(asked, files[asked]))
            elif any(path.startswith(asked.rstrip("/") + "/") for path in files):
                rows.append(self.folder(asked.rstrip("/")))
        return 200, rows, {}

    def preupload(self, name: str, revision: str):
        repo, commit, error = self.found(name, revision)
        if error:
            return error
        rows = []
        for asked in json.loads(self.body)["files"]:
            path, size = asked["path"], asked["size"]
            row = {"path": path, "uploadMode": "lfs" if self.is_large(path, size) else "regular", "shouldIgnore": False}
            if path in repo.commits[commit]:
                known = self.entry(path, repo.commits[commit][path])
                row["oid"] = known["lfs"]["oid"] if "lfs" in known else known["oid"]
            rows.append(row)
        return 200, {"files": rows}, {}

    def lfs_batch(self, name: str):
        objects = []
        for asked in json.loads(self.body)["objects"]:
            row = {"oid": asked["oid"], "size": asked["size"]}
            if asked["oid"] not in self.hub.blobs:
                row["actions"] = {"upload": {"href": f"{self.hub.endpoint}/lfs/{asked['oid']}", "header": {}}}
            objects.append(row)
        return 200, {"transfer": "basic", "objects": objects}, {}

    def lfs_blob(self, oid: str):
        if hashlib.sha256(self.body).hexdigest() != oid:
            return 400, {"error": "checksum"}, {}
        self.hub.blobs[oid] = self.body
        return 200, {}, {}

    def commit(self, name: str, branch: str):
        repo, commit, error = self.found(name, branch)
        if error:
            return error
        rows = [json.loads(line) for line in self.body.splitlines()]
        header = rows[0]["value"]
        if header.get("parentCommit") not in (None, commit):
            return 412, {"error": "A commit has happened since. Please refresh and try again."}, {}
        files = dict(repo.commits[commit])
        for row in rows[1:]:
            value = row["value"]
            if row["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif row["key"] == "lfsFile":
                if value["oid"] not in self.hub.blobs:
                    return 422, {"error": f"lfs pointer to an unknown file {value['path']}"}, {}
                files[value["path"]] = self.hub.blobs[value["oid"]]
            else:
                del files[value["path"]]
        oid = repo.commit(files, branch, header["summary"])
        repo.descriptions[oid] = header.get("description", "")
        return 200, {"commitUrl": f"{self.url(name)}/commit/{oid}", "commitOid": oid}, {}

    def lfs_files(self, name: str):
        rows = [
            {"fileOid": oid, "oid": oid, "filename": oid, "size": len(content), "pushedAt": "2024-09-18T12:00:00.000Z"}
            for oid, content in self.hub.blobs.items()
        ]
        return 200, rows, {}

    def lfs_delete(self, name: str):
        for oid in json.loads(self.body)["deletions"]["sha"]:
            self.hub.blobs.pop(oid, None)
        return 200, {}, {}

    def resolve(self, name: str, revision: str, path: str):
        repo, commit, error = self.found(name, revision)
        if error:
            return error
        if path not in repo.commits[commit]:
            return 404, {"error": "Entry not found"}, {"x-error-code": "EntryNotFound"}
        content = repo.commits[commit][path]
        headers = {
            "etag": f'"{hashlib.sha256(content).hexdigest()}"',
            "x-repo-commit": commit,
            "accept-ranges": "bytes",
        }
        if asked := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", "")):
            start, end = int(asked[1]), int(asked[2] or len(content) - 1)
            headers["content-range"] = f"bytes {start}-{end}/{len(content)}"
            return 206, content[start : end + 1], headers
        return 200, content, headers
