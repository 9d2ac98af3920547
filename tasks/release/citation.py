"""How a release is cited: `CITATION.cff` (Citation File Format 1.2.0), and what it shares with the Croissant file.

In: a manifest. Out: text of a file, the same for the same manifest. Its day is the last one of the data: a release
does not depend on the clock.
"""

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from schemas.release import Manifest
from tasks.release.build import CITATION
from tasks.release.dataset_card import about_release, configs_with_rows, is_benchmark, title_of
from tasks.release.registered import ReleasePart, StatedFile
from tasks.runtime.untrusted import yaml_text

ABOUT_CONFIGS = {
    "chat": "conversations with one model",
    "battle": "pairs of conversations with two anonymous models, and a vote",
    "bench": "single-turn prompts, drawn over topics",
    "failures": "prompts that several people saw both models fail",
}
"""Configuration -> what its rows are."""
NOBODY = "the publisher of this dataset"
"""Author of a release whose policy names no publisher."""


def description(manifest: Manifest) -> str:
    """The release in two sentences: how it was made, and its rows."""
    configs = "; ".join(
        f"{name}: {manifest.counts[name]:,} {ABOUT_CONFIGS[name]}" for name in configs_with_rows(manifest.counts)
    )
    origin = f"an arena dataset, made by arena-curation {manifest.software} from raw logs of "
    days = f"{manifest.first_day} to {manifest.last_day}"
    if is_benchmark(manifest):
        origin, days = f"a benchmark, made by arena-curation {manifest.software}", ""
    return (
        f"Version {manifest.version} of {origin}{days} under the policy {manifest.policy['name']} "
        f"({manifest.policy_hash}). Rows: {configs or 'none'}."
    )


def publisher(manifest: Manifest) -> str:
    """Who publishes it, as the policy says."""
    return str(manifest.policy.get("publisher") or NOBODY)


def spdx_licence(manifest: Manifest) -> str | None:
    """The licence as SPDX spells it; None while none is chosen, and for one that SPDX does not list."""
    try:
        return canonicalize_license_expression(str(manifest.policy.get("licence") or ""))
    except InvalidLicenseExpression:
        return None


def citation(manifest: Manifest) -> str:
    """The text of `CITATION.cff`."""
    licence, homepage = spdx_licence(manifest), manifest.policy.get("homepage")
    about = {
        "cff-version": "1.2.0",
        "message": "If you use this dataset, please cite it as below, with its version.",
        "type": "dataset",
        "title": title_of(manifest),
        "abstract": description(manifest),
        "authors": [{"name": publisher(manifest)}],
        "version": manifest.version,
        "date-released": manifest.last_day,
        "keywords": about_release(manifest)["tags"],
        **({"license": licence} if licence else {}),
        **({"url": homepage} if homepage else {}),
    }
    return yaml_text(about)


def bibtex(manifest: Manifest) -> str:
    """An entry of BibTeX."""
    homepage = manifest.policy.get("homepage")
    fields = {
        "title": f"{{{title_of(manifest)}}}",
        "author": f"{{{publisher(manifest)}}}",
        "year": manifest.last_day[:4],
        "version": manifest.version,
        **({"url": homepage} if homepage else {}),
    }
    return f"@misc{{arena-{manifest.version}, {', '.join(f'{name} = {{{value}}}' for name, value in fields.items())}}}"


CITED = ReleasePart(stated=(StatedFile(CITATION, citation, since_layout=10),))
"""The part of every release that says how it is cited."""
