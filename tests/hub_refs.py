"""The loopback Hub's answers about branches and tags."""

import json


class RefAnswers:
    """Part of the handler of `tests/hub_server.py`: its `body` and `found` are used here."""

    def refs(self, name: str):
        repo, _, error = self.found(name)
        if error:
            return error

        def listed(kind: str, refs: dict[str, str]):
            return [{"name": ref, "ref": f"refs/{kind}/{ref}", "targetCommit": commit} for ref, commit in refs.items()]

        return 200, {"branches": listed("heads", repo.branches), "tags": listed("tags", repo.tags), "converts": []}, {}

    def tag(self, name: str, revision: str):
        repo, commit, error = self.found(name, revision)
        asked = json.loads(self.body)
        if error:
            return error
        if asked["tag"] in repo.tags:
            return 409, {"error": "Tag reference exists already"}, {}
        repo.tags[asked["tag"]] = commit
        return 200, {}, {}

    def untag(self, name: str, tag: str):
        repo, _, error = self.found(name)
        if error or tag not in repo.tags:
            return error or (404, {"error": "no such tag"}, {"x-error-code": "RevisionNotFound"})
        del repo.tags[tag]
        return 200, {}, {}

    def branch(self, name: str, branch: str):
        repo, commit, error = self.found(name, json.loads(self.body or b"{}").get("startingPoint", "main"))
        if error:
            return error
        if branch in repo.branches:
            return 409, {"error": "Reference already exists"}, {}
        repo.branches[branch] = commit
        return 200, {}, {}

    def unbranch(self, name: str, branch: str):
        repo, _, error = self.found(name, branch)
        if error:
            return error
        del repo.branches[branch]
        return 200, {}, {}

    def squash(self, name: str, branch: str):
        repo, commit, error = self.found(name, branch)
        if error:
            return error
        files = repo.commits[commit]
        repo.commit(files, branch, json.loads(self.body)["message"], first=True)
        reached = {oid for ref in [*repo.tags.values(), *repo.branches.values()] for oid in repo.past(ref)}
        repo.commits = {oid: kept for oid, kept in repo.commits.items() if oid in reached}
        return 200, {}, {}
