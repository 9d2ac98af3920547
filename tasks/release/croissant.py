"""`croissant.json`: what a release holds and how it came about, as Croissant 1.1 with its Responsible AI vocabulary.

In: a manifest and the row types. Out: JSON-LD, the same for the same manifest: files with checksums, a record set for
each configuration, and `rai:` statements, each from an entry of the manifest. What the manifest does not know, such as
who the annotators are, is left out. `curate verify` makes the file again.

Croissant: docs.mlcommons.org/croissant/docs/croissant-spec-1.1.html; RAI: …/croissant-rai-spec.html.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from schemas.policy import Policy, Rule
from schemas.release import CONFIGS, ROW_KEYS, Manifest
from schemas.row import arrow_schema
from schemas.run import Funnel
from tasks.providers import PROVIDERS
from tasks.release.build import CROISSANT
from tasks.release.citation import ABOUT_CONFIGS, bibtex, description, publisher, spdx_licence
from tasks.release.dataset_card import (
    about_release,
    configs_with_rows,
    funnel_line,
    is_benchmark,
    language_codes,
    limits_of,
    title_of,
    unmeasured_line,
)
from tasks.release.registered import ReleasePart, StatedFile, without_later
from tasks.storage.records import reason_texts, rule_text

_CONFORMS = ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"]
_TERMS = (
    "annotation", "arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "excludes", "extract", "field",
    "fileProperty", "fileObject", "fileSet", "format", "includes", "isArray", "isLiveDataset", "jsonPath", "key", "md5",
    "parentField", "path", "readLines", "recordSet", "references", "regex", "repeated", "replace", "samplingRate",
    "sdVersion", "separator", "source", "subField", "transform", "unArchive", "value",
)  # fmt: skip
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    **{term: f"cr:{term}" for term in _TERMS},
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
}
"""Appendix 1 of the specification, with the address of schema.org that its own reader expects."""
_PARQUET = "application/x-parquet"
"""The media type under which Croissant's own reader knows Parquet."""
_PERSONAL = ("text_pii", "faces")
"""Signals of personal data: what they find stands under `rai:personalSensitiveInformation`."""
_ACTIONS = {"drop": "dropped", "redact": "redacted", "tag": "kept and marked", "hold": "held for a review"}
_LANGUAGES_SHOWN = 20
_NO_LICENCE = "Not chosen: nobody but its maker may use it."


def croissant(manifest: Manifest) -> str:
    """The text of the file."""
    licence, homepage = spdx_licence(manifest), manifest.policy.get("homepage")
    configs = configs_with_rows(manifest.counts)
    codes = language_codes(manifest)
    maker = {"@type": "sc:Organization", "name": publisher(manifest)}
    about = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": _CONFORMS,
        "name": title_of(manifest),
        "description": description(manifest),
        "version": manifest.version,
        "datePublished": manifest.last_day,
        "license": f"https://spdx.org/licenses/{licence}" if licence else manifest.policy.get("licence") or _NO_LICENCE,
        **({"url": homepage} if homepage else {}),
        "creator": maker,
        "publisher": maker,
        "citeAs": bibtex(manifest),
        "keywords": about_release(manifest)["tags"],
        **({"inLanguage": codes} if codes else {}),
        "isLiveDataset": False,
        "distribution": [part for config in configs for part in _distribution(config, manifest)],
        "recordSet": [_record_set(config, manifest.layout) for config in configs],
        **{f"rai:{name}": value for name, value in _responsible(manifest).items() if value},
    }
    return _as_text(about)


def croissant_of_config(text: str, config: str) -> str:
    """The file for a repository of one configuration, whose folder is its root."""
    about = json.loads(text)
    root = f"{config}/"
    parts = [part for part in about["distribution"] if part["@id"] == config or part["@id"].startswith(root)]
    for part in parts:
        for name in ("@id", "name", "contentUrl", "includes"):
            if name in part:
                part[name] = part[name].removeprefix(root)
    about["distribution"] = parts
    about["recordSet"] = [records for records in about["recordSet"] if records["@id"] == f"{config}_rows"]
    return _as_text(about)


def _as_text(about: Mapping[str, Any]) -> str:
    """JSON in which nothing ends a script of a page that holds it."""
    return json.dumps(about, indent=1, ensure_ascii=False).replace("<", "\\u003c") + "\n"


def _distribution(config: str, manifest: Manifest) -> Iterator[dict[str, Any]]:
    """Each shard with its checksum, then the set of all shards, in which readers look for the rows."""
    for path, file in manifest.files.items():
        if path.startswith(f"{config}/data/"):
            yield {
                "@type": "cr:FileObject",
                "@id": path,
                "name": path,
                "contentUrl": path,
                "contentSize": f"{file.bytes} B",
                "encodingFormat": _PARQUET,
                "sha256": file.sha256,
            }
    yield {
        "@type": "cr:FileSet",
        "@id": config,
        "name": config,
        "description": f"All shards of {config}.",
        "encodingFormat": _PARQUET,
        "includes": f"{config}/data/train-*.parquet",
    }


def _record_set(config: str, layout: int) -> dict[str, Any]:
    """The columns of a configuration that releases of this layout have, from its row type."""
    columns, name = without_later(config, arrow_schema(CONFIGS[config]), layout), f"{config}_rows"
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": config,
        "description": f"A row is one of the {ABOUT_CONFIGS[config]}.",
        "key": {"@id": f"{name}/{ROW_KEYS[config]}"},
        "field": [_field(column, name, config, column.name, "") for column in columns],
    }


def _field(column: pa.Field, above: str, config: str, source_column: str, path: str) -> dict[str, Any]:
    """A column, or a field of a struct, whose `path` is that inside the column."""
    is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    inner = column.type.value_type if is_list else column.type
    field_id = f"{above}/{column.name}"
    source: dict[str, Any] = {"fileSet": {"@id": config}, "extract": {"column": source_column}}
    if path:
        source["transform"] = {"jsonPath": path}
    field = {"@type": "cr:Field", "@id": field_id, "name": column.name, **_words(column)}
    if is_list:
        field |= {"isArray": True, "arrayShape": "-1"}
    if column.name == "images" and not path:  # bytes and path of each image, as `datasets` has them
        # `repeated`, of Croissant 1.0, is what its own reader looks at.
        image = {"dataType": "sc:ImageObject", "source": source | {"transform": {"jsonPath": "bytes"}}}
        return field | {"repeated": True} | image
    if pa.types.is_struct(inner):
        inside = f"{path}[*]." if is_list and path else f"{path}." if path else ""
        return field | {
            "subField": [_field(part, field_id, config, source_column, inside + part.name) for part in inner]
        }
    return field | {"dataType": _data_type(inner), "source": source}


def _words(column: pa.Field) -> dict[str, str]:
    """The description of a column; none where its row type has none."""
    comment = (column.metadata or {}).get(b"comment", b"").decode()
    return {"description": " ".join(comment.split())} if comment else {}


def _data_type(of_type: pa.DataType) -> str:
    """The Croissant type of a value."""
    if pa.types.is_boolean(of_type):
        return "sc:Boolean"
    if pa.types.is_integer(of_type):
        return "sc:Integer"
    if pa.types.is_floating(of_type):
        return "sc:Float"
    if pa.types.is_date(of_type):
        return "sc:Date"
    return "sc:DateTime" if pa.types.is_timestamp(of_type) else "sc:Text"


def _responsible(manifest: Manifest) -> dict[str, str | list[str]]:
    """The statements of the RAI vocabulary; those without a word are empty."""
    policy = Policy.model_validate(manifest.policy)
    funnel = Funnel.model_validate(manifest.funnel)
    has_votes = bool(manifest.counts["battle"])
    return {
        "dataCollection": f"{_collection(manifest)} {funnel_line(funnel)}",
        "dataCollectionType": ["User-generated content data"],
        "dataCollectionTimeframe": [] if is_benchmark(manifest) else [manifest.first_day, manifest.last_day],
        "dataCollectionMissingData": _missing(manifest),
        "dataPreprocessingProtocol": [*_removed(policy, funnel), *_prepared(manifest, policy)],
        "dataAnnotationProtocol": _annotation(has_votes),
        "annotationsPerItem": "One vote a battle." if has_votes else "",
        "machineAnnotationTools": [*_tools(manifest)],
        "personalSensitiveInformation": [*_personal(policy)],
        "dataBiases": [*_biases(manifest)],
        "dataLimitations": [*_limitations(manifest)],
        "dataUseCases": [*_uses(manifest, policy)],
        "dataReleaseMaintenancePlan": (
            "A release is never edited: a fix is a new version. The manifest of each has the checksums of all files. "
            f"Reports and removals: write to {policy.contact or 'the publisher of this dataset'} with the id of the "
            "conversation or image. It is removed from every later version; earlier published versions are withdrawn."
        ),
    }


def _collection(manifest: Manifest) -> str:
    """Where the rows come from."""
    if is_benchmark(manifest):
        return "The items of a benchmark: people wrote them, or a model made them on demand; the card says which."
    votes = "; in battles people voted on the answers of two models whose names were hidden"
    return (
        "People chatted with models of an arena, and its servers logged what was said"
        f"{votes if manifest.counts['battle'] else ''}."
    )


def _missing(manifest: Manifest) -> str:
    """The meaning of null, and the signals that were not measured everywhere."""
    lacking = unmeasured_line(manifest)
    return "A value that is unknown or could not be measured is null." + (
        f" Not measured: {lacking}." if lacking else ""
    )


def _removed(policy: Policy, funnel: Funnel) -> Iterator[str]:
    """Each reason that removed log lines, with their number."""
    texts = reason_texts(policy)
    for outcome, reason, lines in funnel.reasons():
        meaning = f" ({texts[reason]})" if reason in texts else ""
        yield f"{outcome}: {reason}{meaning}: {lines:,} log lines"


def _prepared(manifest: Manifest, policy: Policy) -> Iterator[str]:
    """Changes to kept conversations, one sentence each."""
    if any(rule.action == "redact" for rule in policy.rules):
        yield "Personal data in kept conversations is redacted: texts have placeholders, images have black boxes."
    if policy.linkage.times != "exact":
        yield f"Times are the beginning of their {policy.linkage.times} (UTC)."
    if not policy.linkage.users:
        yield "Rows have no hash of their user or voter."
    if withheld := manifest.counts["withheld_for_bench"]:
        yield f"{withheld:,} kept conversations are not in chat, because their prompt is in bench, like one, or hidden."


def _annotation(has_votes: bool) -> str:
    votes = "A vote (winner) is that of the person who had asked both models. " if has_votes else ""
    return votes + "Languages, categories, topics and other labels are made by machines; null means unknown."


def _tools(manifest: Manifest) -> Iterator[str]:
    """Each signal that was measured, with its version, which covers code, model and prompt; then the providers."""
    for name, version in manifest.signal_versions.items():
        if name not in PROVIDERS or name in manifest.providers:
            yield f"{name}, version {version}"
    for capability, provider in sorted(manifest.providers.items()):
        stand_in = " (embedded stand-in)" if capability in manifest.embedded_providers else ""
        yield f"{capability} by {provider}{stand_in}"


def _personal(policy: Policy) -> Iterator[str]:
    """Each rule about personal data; what is left of people in the rows."""
    for rule in policy.rules:
        if _signal(rule) in _PERSONAL:
            yield f"{rule.reason}: {rule_text(rule)}: {_ACTIONS.get(rule.action, rule.action)}"
    if policy.linkage.users:
        yield "user_id and judge are keyed hashes of network addresses: one person may have several, and several one."
    yield "Language: of the prompt, by machine."
    yield "Detectors make mistakes: personal data that none found may be left."


def _signal(rule: Rule) -> str:
    return rule.signal.partition(".")[0]


def _biases(manifest: Manifest) -> Iterator[str]:
    """Uneven shares of the rows, as far as the manifest counts them."""
    rows = sum(manifest.counts[config] for config in ("chat", "battle"))
    if rows and manifest.languages:
        most_first = sorted(manifest.languages.items(), key=lambda language: (-language[1], language[0]))
        listed = [f"{name} {count / rows:.1%}" for name, count in most_first[:_LANGUAGES_SHOWN]]
        others = len(most_first) - len(listed)
        listed += [f"and {others} others"] if others else []
        yield f"Languages, as shares of the rows of chat and battle: {', '.join(listed)}."
    if not is_benchmark(manifest):
        yield "Prompts are those of people who used the arena, and are no sample of a population."
    if manifest.counts["bench"] and manifest.settings.get("bench", {}).get("seats") == "even":
        yield "bench is drawn evenly over topics, so rare topics weigh more there than in chat."


def _limitations(manifest: Manifest) -> Iterator[str]:
    """Known limits, and what each embedded model was measured to find."""
    yield from (limit.replace("`", "") for limit in limits_of(manifest))
    for name, lines in manifest.embedded_figures.items():
        for line in lines:
            yield f"{name}: {line.what}: made with {line.made_with}; unseen {line.unseen}"
    for tag, says in manifest.limited_tags.items():
        yield f"{tag} is {says}"


def _uses(manifest: Manifest, policy: Policy) -> Iterator[str]:
    if policy.about:
        yield f"The policy is for: {policy.about}"
    if manifest.counts["battle"]:
        yield "battle: rating models by people's votes."
    if manifest.counts["bench"]:
        yield "bench: testing models; it is not for training, and its prompts are not in chat."


CROISSANT_PART = ReleasePart(stated=(StatedFile(CROISSANT, croissant, since_layout=11),))
"""The part of every release that describes it to other tools."""
