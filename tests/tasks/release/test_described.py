"""`croissant.json` and `CITATION.cff` say what the manifest says, in the words of their specifications, and no more."""

import io
import json
import random
import re
import shutil
from pathlib import Path

import pytest
import yaml
from PIL import Image

from flows.products import problems_of
from schemas.policy import policy_hash
from schemas.release import CONFIGS, ROW_KEYS, Manifest
from schemas.run import Funnel
from tasks.release.build import CITATION, CROISSANT, DATA
from tasks.release.citation import citation
from tasks.release.croissant import croissant, croissant_of_config
from tasks.release.dataset_card import funnel_line, split_card
from tasks.release.verify import LANGUAGES_SINCE
from tests.small_store import POLICY, make_release, manifest_of
from tests.tampered_release import add_file, as_of_layout, card_says, reseal, write_manifest

NAMED = {
    "licence": "cc-by-4.0",
    "publisher": 'The "Lab" </script><b>',
    "homepage": "https://huggingface.co/datasets/lab/arena",
    "contact": "removal@lab.example",
}
REQUIRED = {"@context", "@type", "conformsTo", "name", "description", "license", "creator", "datePublished"}
"""Required by Croissant 1.1, but for `url`, which is known where the policy has a homepage."""


def _manifest(release: Path, **policy: object) -> Manifest:
    values = manifest_of(release)
    return Manifest.model_validate(values | {"policy": values["policy"] | policy})


def _described(release: Path, **policy: object) -> dict:
    return json.loads(croissant(_manifest(release, **policy)))


def _leaves(fields: list[dict]) -> list[dict]:
    return [leaf for field in fields for leaf in (_leaves(field["subField"]) if "subField" in field else [field])]


def test_what_croissant_requires_is_there(release):
    assert _described(release).keys() >= REQUIRED
    about = _described(release, **NAMED)
    assert about.keys() >= REQUIRED | {"url"}
    assert about["conformsTo"] == ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"]
    assert about["@context"]["conformsTo"] == "dct:conformsTo"
    assert about["license"] == "https://spdx.org/licenses/CC-BY-4.0"
    assert about["creator"] == {"@type": "sc:Organization", "name": NAMED["publisher"]}
    assert about["url"] == NAMED["homepage"] and NAMED["homepage"] in about["citeAs"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", about["datePublished"])


def test_every_name_stands_once_and_every_reference_is_to_one(release):
    about = _described(release)
    ids = [part["@id"] for part in (*about["distribution"], *about["recordSet"])]
    fields = [field for records in about["recordSet"] for field in _leaves(records["field"])]
    assert len(ids) == len({*ids}) and len(fields) == len({field["@id"] for field in fields})
    assert {field["source"]["fileSet"]["@id"] for field in fields} <= {*ids}
    for records in about["recordSet"]:
        assert records["key"]["@id"] in {field["@id"] for field in records["field"]}


def test_every_shard_has_its_checksum_and_every_column_its_type_and_words(release):
    about, manifest = _described(release), manifest_of(release)
    files = {part["@id"]: part["sha256"] for part in about["distribution"] if part["@type"] == "cr:FileObject"}
    shards = {path: file["sha256"] for path, file in manifest["files"].items() if "/data/" in path}
    assert files == shards != {}
    assert [records["name"] for records in about["recordSet"]] == list(CONFIGS)
    for records in about["recordSet"]:
        assert [field["name"] for field in records["field"]] == list(CONFIGS[records["name"]].model_fields)
        assert all(field["description"] for field in records["field"])
        assert all(leaf["dataType"].startswith("sc:") for leaf in _leaves(records["field"]))
        assert records["key"]["@id"].endswith(f"/{ROW_KEYS[records['name']]}")
    of_chat = {field["name"]: field for field in about["recordSet"][0]["field"]}
    assert (of_chat["images"]["dataType"], of_chat["images"]["isArray"]) == ("sc:ImageObject", True)
    assert [of_chat[name]["dataType"] for name in ("num_turns", "tstamp", "is_preset", "model")] == [
        "sc:Integer", "sc:Float", "sc:Boolean", "sc:Text",
    ]  # fmt: skip


def test_a_benchmark_alone_is_described_as_one(release):
    manifest = _manifest(release)
    alone = manifest.model_copy(update={"counts": manifest.counts | {"chat": 0, "battle": 0}})
    about = json.loads(croissant(alone))
    assert about["name"] == "Vision arena benchmark" and about["rai:dataCollection"].startswith("The items of a benchm")
    assert not any("arena" in bias or "votes" in bias for bias in about["rai:dataBiases"])
    assert not any("network addresses" in limit or "few_battles" in limit for limit in about["rai:dataLimitations"])
    cited = yaml.safe_load(citation(alone))
    assert cited["title"] == "Vision arena benchmark" and "raw logs" not in cited["abstract"]
    assert "rai:dataCollectionTimeframe" not in about


def test_languages_that_are_not_listed_are_counted(release):
    languages = {f"Language {number:02}": 1 for number in range(23)}
    about = json.loads(croissant(_manifest(release).model_copy(update={"languages": languages})))
    assert about["rai:dataBiases"][0].endswith("and 3 others.")


def test_statements_are_those_of_the_manifest(release):
    about, manifest = _described(release, **NAMED), _manifest(release, **NAMED)
    assert funnel_line(Funnel.model_validate(manifest.funnel)) in about["rai:dataCollection"]
    assert about["rai:dataCollectionTimeframe"] == [manifest.first_day, manifest.last_day]
    assert (
        "dropped: face (a face with confidence 0.5 or more in an image): 1 log lines"
        in (about["rai:dataPreprocessingProtocol"])
    )
    tools = [tool.partition(",")[0] for tool in about["rai:machineAnnotationTools"]]
    assert "nsfw" in tools and "image_hash" in tools
    assert "image_moderation" not in tools  # nothing was chosen for it
    figures = [line.unseen for lines in manifest.embedded_figures.values() for line in lines]
    assert figures and all(any(text in said for said in about["rai:dataLimitations"]) for text in figures)
    assert NAMED["contact"] in about["rai:dataReleaseMaintenancePlan"]
    assert "English 72.4%" in about["rai:dataBiases"][0]
    assert not {"rai:annotatorDemographics", "rai:dataSocialImpact"} & about.keys()  # nobody knows


def test_what_the_policy_does_is_said_and_what_it_does_not_do_is_not(release):
    rules = [*manifest_of(release)["policy"]["rules"]]
    redact = {"reason": "pii_text", "signal": "text_pii.types", "over": "messages", "contains_any": ["email"]}
    kept = [rule for rule in rules if rule["reason"] != "pii_text"]
    linkage = {"times": "day", "users": False}
    changed = _described(release, rules=[*kept, redact | {"action": "redact"}], linkage=linkage)
    prepared, personal = changed["rai:dataPreprocessingProtocol"], changed["rai:personalSensitiveInformation"]
    assert "Times are the beginning of their day (UTC)." in prepared
    assert any("is redacted" in line for line in prepared)
    assert "pii_text: personal data (email) in a message: redacted" in personal
    assert not any("keyed hashes" in line for line in personal)
    as_it_is = _described(release)
    assert not any("redacted" in line for line in as_it_is["rai:dataPreprocessingProtocol"])
    assert any("keyed hashes" in line for line in as_it_is["rai:personalSensitiveInformation"])
    assert "Not chosen" in as_it_is["license"]


def test_a_release_without_votes_says_nothing_of_votes(release):
    values = manifest_of(release)
    about = json.loads(croissant(Manifest.model_validate(values | {"counts": values["counts"] | {"battle": 0}})))
    assert "rai:annotationsPerItem" not in about
    assert not re.search(r"\bvote", json.dumps({key: about[key] for key in about if "dataAnnot" in key}))
    assert "battle" not in [records["name"] for records in about["recordSet"]]


def test_names_of_an_operator_end_no_script_and_no_entry(release):
    text = croissant(_manifest(release, **NAMED))
    assert "<" not in text
    assert json.loads(text)["creator"]["name"] == NAMED["publisher"]
    hostile = "a: b\n- c\n'\"#"
    assert yaml.safe_load(citation(_manifest(release, publisher=hostile)))["authors"] == [{"name": hostile}]


def test_the_same_manifest_gives_the_same_bytes_in_whatever_order_its_keys_stand(release):
    values = manifest_of(release)
    generator = random.Random(3)
    for _ in range(3):
        mixed = {key: values[key] for key in generator.sample(list(values), len(values))}
        again = Manifest.model_validate(mixed)
        assert croissant(again) == (release / CROISSANT).read_text("utf-8")
        assert citation(again) == (release / CITATION).read_text("utf-8")


def test_a_citation_has_the_keys_of_its_format(release):
    about = yaml.safe_load(citation(_manifest(release, **NAMED)))
    assert {"cff-version", "message", "title", "authors"} <= about.keys()  # required by 1.2.0
    assert about["cff-version"] == "1.2.0"
    assert about["type"] == "dataset"
    assert (about["license"], about["url"]) == ("CC-BY-4.0", NAMED["homepage"])
    assert about["version"] == "first" and about["date-released"] == manifest_of(release)["last_day"]
    assert all(isinstance(value, str) for key, value in about.items() if key not in ("authors", "keywords"))
    assert not {"license", "url"} & yaml.safe_load(citation(_manifest(release))).keys()
    assert "license" not in yaml.safe_load(citation(_manifest(release, licence="odc-by")))  # none of SPDX


@pytest.mark.parametrize(("name", "word"), [(CROISSANT, "2024"), (CITATION, "2024"), (DATA, "Columns")])
def test_a_changed_or_missing_file_is_found(own_release, name, word):
    text = (own_release / name).read_text("utf-8")
    (own_release / name).write_text(text.replace(word, "2023", 1))
    reseal(own_release, restate=False)
    assert problems_of(own_release) == [f"{name}: not what the manifest says"]
    (own_release / name).unlink()
    reseal(own_release, restate=False)
    assert problems_of(own_release) == [f"{name}: missing"]


def test_a_release_of_an_earlier_layout_is_whole_without_them_and_not_with_them(own_release):
    as_of_layout(own_release, LANGUAGES_SINCE - 1)
    assert not (own_release / CROISSANT).exists()
    assert problems_of(own_release) == []
    add_file(own_release, CITATION, b"cff-version: 1.2.0\n")
    assert problems_of(own_release) == [f"{CITATION}: no release of layout {LANGUAGES_SINCE - 1} has it"]


def test_a_release_of_the_layout_before_instruction_following_was_a_tag_is_whole_without_it(own_release):
    columns = {own_release / CROISSANT: '"instruction_following"', own_release / DATA: "| `instruction_following` |"}
    assert all(column in file.read_text("utf-8") for file, column in columns.items())
    as_of_layout(own_release, 11)
    assert not any(column in file.read_text("utf-8") for file, column in columns.items())
    assert problems_of(own_release) == []


def test_languages_of_the_head_are_those_of_the_rows(own_release):
    about, _ = split_card((own_release / "README.md").read_text("utf-8"))
    assert about["language"] == ["de", "en"]
    write_manifest(own_release, languages={"English": 21, "French": 4})
    card_says(own_release, "- de\n- en\n", "- en\n- fr\n")
    assert problems_of(own_release) == ["manifest.json: languages are not those of the rows"]


def test_the_names_of_the_policy_are_in_a_release_that_is_whole(own_store):
    chosen = json.loads(own_store.read_bytes(f"policies/{policy_hash(POLICY)}.json")) | NAMED
    own_store.write_bytes(f"policies/{policy_hash(POLICY)}.json", json.dumps(chosen).encode())
    made = Path(own_store.root) / str(make_release(own_store, reported=True, release="named").result)
    assert problems_of(made) == []
    assert yaml.safe_load((made / CITATION).read_text("utf-8"))["authors"] == [{"name": NAMED["publisher"]}]


@pytest.mark.parametrize("homepage", ["javascript:alert(1)", "https://x y", "https://x/<b>", "lab.example"])
def test_a_homepage_that_is_no_address_is_refused_in_plain_words(homepage):
    with pytest.raises(ValueError, match="must be an address such as https://"):
        POLICY.model_validate(POLICY.model_dump() | {"homepage": homepage})


def test_who_reports_is_told_where_also_without_an_address(release):
    text = (release / "README.md").read_text("utf-8")
    assert "community tab" in text.partition("## Removal")[2]


def test_a_repository_of_one_configuration_describes_that_alone(release):
    text = (release / CROISSANT).read_text("utf-8")
    for config in CONFIGS:
        about = json.loads(croissant_of_config(text, config))
        assert [records["name"] for records in about["recordSet"]] == [config]
        *files, together = about["distribution"]
        assert [file["contentUrl"] for file in files] == ["data/train-00000-of-00001.parquet"]
        assert together["includes"] == "data/train-*.parquet"
        fields = _leaves(about["recordSet"][0]["field"])
        assert {field["source"]["fileSet"]["@id"] for field in fields} == {together["@id"]}


@pytest.mark.filterwarnings("ignore")  # of its own libraries
def test_croissants_own_reader_finds_nothing_wrong_and_reads_the_rows(own_store, tmp_path):
    mlcroissant = pytest.importorskip("mlcroissant", reason="dev extra")
    chosen = json.loads(own_store.read_bytes(f"policies/{policy_hash(POLICY)}.json")) | NAMED
    own_store.write_bytes(f"policies/{policy_hash(POLICY)}.json", json.dumps(chosen).encode())
    made = Path(own_store.root) / str(make_release(own_store, release="1.0.0").result)
    for config in (None, "battle"):
        folder = made
        if config is not None:
            folder = Path(shutil.copytree(made / config, tmp_path / config))
            text = croissant_of_config((made / CROISSANT).read_text("utf-8"), config)
            (folder / CROISSANT).write_text(text, encoding="utf-8")
        dataset = mlcroissant.Dataset(jsonld=str(folder / CROISSANT))
        issues = dataset.metadata.ctx.issues
        assert (list(issues.errors), list(issues.warnings)) == ([], [])
        counts = manifest_of(made)["counts"]
        for records in dataset.metadata.record_sets:
            rows = list(dataset.records(records.id))
            assert len(rows) == counts[records.name]
            shown = [image for row in rows for image in row[f"{records.id}/images"]]
            assert shown and all(isinstance(image, Image.Image) for image in shown)


def test_an_image_of_a_row_is_what_the_field_says(release):
    """The path of `bytes` in a row's `images`, as a reader of Croissant follows it."""
    import pyarrow.parquet as pq

    rows = pq.read_table(release / "chat/data/train-00000-of-00001.parquet", columns=["images"]).to_pylist()
    (field,) = [field for field in _described(release)["recordSet"][0]["field"] if field["name"] == "images"]
    path = field["source"]["transform"]["jsonPath"]
    pictures = [Image.open(io.BytesIO(image[path])) for row in rows for image in row["images"]]
    assert len(pictures) >= 6
