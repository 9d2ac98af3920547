"""Plans an upload, checks that the release may be published, and describes the plan for approval.

Reads only releases and the store; sends no request.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils._validators import validate_repo_id

from schemas.errors import BadInput, CurateError, ReleaseConflict
from schemas.policy import Policy
from schemas.publication import ReleaseDiff, RepoUpload, UploadPlan
from schemas.release import Manifest
from schemas.run import Funnel
from tasks.providers.embedded_figures import NO_FIGURE
from tasks.publish.hub import PREVIEW
from tasks.publish.records import previous
from tasks.release.build import (
    CARD,
    CITATION,
    CROISSANT,
    DATA,
    MANIFEST,
    MANIFEST_DIGITS,
    SITE,
    is_release_file,
    is_site_file,
    manifest_sha256,
    write_list,
)
from tasks.release.croissant import croissant_of_config
from tasks.release.dataset_card import configs_with_rows, front_matter, split_card
from tasks.release.diff import diff_releases
from tasks.release.fetched import fetched, read_manifest
from tasks.release.registered import PartsOf
from tasks.release.verify import verify_release
from tasks.storage.tables import Store

_WITH_BATTLES = ("leaderboard/", "report/", "topics/")


def managed(path: str) -> bool:
    """Whether publishing writes a file of this path, to one repository or to one for each configuration."""
    return is_release_file(path) or is_release_file(f"chat/{path}") or is_site_file(path)


def plan_upload(
    release: Path, repo: str, parts: PartsOf, public: bool, per_config: bool, preview: bool,
    store: Store | None = None, listing: bool = False, accepted: Collection[str] = (),
) -> UploadPlan:  # fmt: skip
    """Verify the release and plan its upload. With `listing`, also for a release that may not be published.

    `parts` gives what products add to it. `accepted` names the embedded stand-ins that it may be published with.

    Raises BadInput when the release or the repository's name does not allow it, ReleaseConflict when the release
    changes meanwhile.
    """
    _check_is_release(release)
    sealed = manifest_sha256(release)  # before it is read: what is read and checked is what goes
    manifest = read_manifest(release)
    check_name(repo)
    _check_tag(manifest.version)
    if not listing:
        require_allowed(release, manifest, public, accepted)
    problems = verify_release(release, parts, store)
    if manifest_sha256(release) != sealed:  # then what was found may be about both, the old and the new one
        raise ReleaseConflict(f"{str(release)!r} changed while it was verified; run the same command again")
    if problems:
        raise BadInput(f"{str(release)!r} does not verify: {problems[0]} ({len(problems)} in all; see `curate verify`)")
    sha256_of_file = {name: file.sha256 for name, file in manifest.files.items()} | {MANIFEST: sealed}
    goes = {*manifest.files, MANIFEST}  # verified: all of them are files that a release has
    whole = {repo: {name: name for name in sorted(goes)}}
    if per_config and not configs_with_rows(manifest.counts):
        raise BadInput(
            f"{str(release)!r} has no rows, so no configuration has a repository; publish it to one repository"
        )
    layout = (
        {f"{repo}-{config}": _of_config(goes, config) for config in configs_with_rows(manifest.counts)}
        if per_config
        else whole
    )
    return UploadPlan(
        version=manifest.version,
        uploads=[_upload(release, name, files, sha256_of_file) for name, files in layout.items()],
        branch=f"{PREVIEW}{manifest.version}" if preview else "main", tag=None if preview else manifest.version,
        public=public, accepted_embedded=sorted(set(accepted)), manifest_sha256=sealed,
    )  # fmt: skip


def with_site(plan: UploadPlan, root: Path) -> UploadPlan:
    """The plan with the explorer in `root`/explorer, whose list is written here; a plan for one repository."""
    files = write_list(root, plan.manifest_sha256)
    (upload,) = plan.uploads
    size = upload.size_bytes + sum(file.bytes for file in files.values())
    site = {name: file.sha256 for name, file in files.items()}
    return plan.model_copy(update={"uploads": [upload.model_copy(update={"site": site, "size_bytes": size})]})


def _check_is_release(release: Path) -> None:
    """Raises BadInput for an export, which has shards like a release but no manifest."""
    shards = [*release.glob("data/*.parquet"), *release.glob("*/data/*.parquet")]
    if shards and not (release / MANIFEST).exists():
        raise BadInput(
            f"{str(release)!r} has no {MANIFEST}, so it is an export or a part of a release; `curate publish` its "
            "release, which checks it, and then put each folder of the export into a private repository with "
            "`hf upload ORG/NAME FOLDER . --repo-type dataset --private`"
        )


def check_name(repo: str, longest: str = "-battle") -> None:
    """Raises BadInput for an invalid repository name; `longest` is the longest suffix that publishing appends."""
    try:
        validate_repo_id(f"{repo}{longest}")
    except HFValidationError:
        repo = ""
    if repo.count("/") != 1:
        raise BadInput("--repo: give ORG/NAME in letters, digits, dots, dashes and underscores, such as lab/arena-chat")


def _check_tag(version: str) -> None:
    """Raises BadInput for a version that is not a valid git tag, or has the name of a branch."""
    if ".." in version or version.endswith((".", ".lock")) or version.startswith(PREVIEW) or version == "main":
        raise BadInput(
            f"version {version!r} cannot be a tag on the Hub; release under another one, such as 1.2.0 "
            f"(not main, not {PREVIEW}…, no '..', no '.' or '.lock' at the end)"
        )


class StandInsLeft(BadInput):
    """Embedded stand-ins that nobody accepted; whoever publishes says how they are accepted."""

    def __init__(self, text: str, names: Sequence[str]) -> None:
        super().__init__(text)
        self.names = names


def require_allowed(release: Path, manifest: Manifest, public: bool, accepted: Collection[str] = ()) -> None:
    """Raises BadInput when the manifest or its policy forbids publishing, or other stand-ins are accepted."""
    if unaccepted := [name for name in manifest.embedded_providers if name not in accepted]:
        raise StandInsLeft(
            f"{str(release)!r} was built with embedded stand-ins ({', '.join(unaccepted)}) and cannot be published; "
            "build it with production providers (`curate doctor` lists them), or read in its card what each was "
            "measured to find and accept them",
            unaccepted,
        )
    if others := sorted({*accepted} - {*manifest.embedded_providers}):
        there = ", ".join(manifest.embedded_providers) or "none"
        raise BadInput(
            f"--accept-embedded {others[0]}: {str(release)!r} was not built with this stand-in; it has {there}; "
            "leave the others out"
        )
    policy = Policy.model_validate(manifest.policy)
    if public and not policy.publishable:
        raise BadInput(
            f"{str(release)!r} was made under policy {policy.name!r}, which is not for everybody; leave --public out, "
            "or release under one that says `publishable: true`, such as public_release or redact"
        )
    if policy.banned_users:
        raise BadInput(f"{str(release)!r} names the users that its policy bans; build it again, and they stay here")


def _of_config(names: set[str], config: str) -> dict[str, str]:
    """Path in the repository -> file of the release, for one configuration; battle has what is for all."""
    files_of_config = {name.removeprefix(f"{config}/"): name for name in names if name.startswith(f"{config}/")}
    shared = {name: name for name in names if config == "battle" and name.startswith(_WITH_BATTLES)}
    about = {name: name for name in (CARD, MANIFEST, CROISSANT, CITATION, DATA) if name in names}
    return dict(sorted((files_of_config | shared | about).items()))


def _upload(release: Path, repo: str, files: Mapping[str, str], sha256_of_file: Mapping[str, str]) -> RepoUpload:
    size = sum((release / source).stat().st_size for source in files.values())
    sha256 = {source: sha256_of_file[source] for source in files.values()}
    return RepoUpload(repo=repo, files=dict(files), sha256=sha256, size_bytes=size)


def of_config(content: str, path: str, config: str) -> str:
    """A file of the release as it stands in the repository of one configuration, whose folder is its root.

    The card's front matter, what the Croissant file describes and the paths in the files for other runners are changed,
    nothing else.
    """
    if path == CROISSANT:
        return croissant_of_config(content, config)
    return card_of_config(content, config) if path == CARD else content.replace(f"{config}/", "")


def card_of_config(card: str, config: str) -> str:
    """The release's card for a repository of one configuration: only its front matter is changed."""
    about, text = split_card(card)
    (chosen,) = [configuration for configuration in about["configs"] if configuration["config_name"] == config]
    files = [data_file | {"path": data_file["path"].removeprefix(f"{config}/")} for data_file in chosen["data_files"]]
    about["configs"] = [chosen | {"data_files": files, "default": True}]
    return front_matter(about) + text


def plan_lines(plan: UploadPlan) -> Iterator[str]:
    """Every file with its repository."""
    for upload in plan.uploads:
        visible = "public" if plan.public else "private"
        where = f"tag {plan.tag}" if plan.tag else f"branch {plan.branch}"
        files = f"{len(upload.files) + len(upload.site):,} files, {upload.size_bytes:,} bytes"
        yield f"{upload.repo} ({visible}), one commit on {plan.branch}, {where}: {files}"
        yield from (f"  {path}" for path in upload.files)
        if upload.site:
            yield f"  {SITE}/: {len(upload.site):,} files; open {SITE}/index.html"


def summary_lines(release: Path, plan: UploadPlan, store: Store | None, parts: PartsOf) -> Iterator[str]:
    """Counts, licence, the funnel, and the difference to the version published before."""
    manifest = read_manifest(release)
    for name in plan.accepted_embedded:
        yield from (f"accepted: embedded {name}: {line}" for line in _measured_lines(manifest, name))
    gone = Funnel.model_validate(manifest.funnel)
    counts = ", ".join(f"{name} {rows:,}" for name, rows in manifest.counts.items())
    yield f"version {manifest.version}, manifest {plan.manifest_sha256[:MANIFEST_DIGITS]}: {counts}"
    yield f"licence {manifest.policy.get('licence') or 'not chosen: the policy names one (`licence`)'}"
    yield f"in {gone.lines:,} = kept {gone.kept:,} + dropped {gone.dropped:,} + rejected {gone.rejected:,}"
    yield from (f"  {outcome} {count:,} {reason}" for outcome, reason, count in gone.reasons())
    yield from _changes(release, plan, store, parts)


def _measured_lines(manifest: Manifest, name: str) -> Iterator[str]:
    """Lines on an embedded model, one for each share that was measured."""
    for line in manifest.embedded_figures.get(name, ()):
        columns = f"; made with its material {line.made_with}; unseen {line.unseen}"
        yield line.what if line.unseen == NO_FIGURE else line.what + columns
    if name not in manifest.embedded_figures:
        yield "not measured"


def _changes(release: Path, plan: UploadPlan, store: Store | None, parts: PartsOf) -> Iterator[str]:
    before = previous(store, [upload.repo for upload in plan.uploads], plan.version) if store else None
    if store is None or before is None:
        yield "no earlier version of it is on record"
        return
    try:
        with fetched(f"{store.root}/releases/{before}") as earlier:
            difference = diff_releases(earlier, release, parts)
    except CurateError as error:
        yield f"no difference to {before} can be shown: {error}"
        return
    yield f"since version {before}:"
    yield from diff_lines(difference)


def diff_lines(difference: ReleaseDiff) -> Iterator[str]:
    """A difference without its rows."""
    yield from (f"  {line}" for line in [*difference.rules, *difference.schema_changes])
    yield from (f"  {name} {count:,}" for name, count in sorted(difference.rows.items()) if not name.endswith("same"))
    columns = sum((Counter(counts) for counts in difference.columns.values()), Counter[str]())
    if columns:
        yield "  changed columns: " + ", ".join(f"{name} {count:,}" for name, count in columns.most_common())
    yield f"  {difference.bump_in_words}"
