"""Old and new versions of `datasets` learn from a shard what its columns are."""

import json

import pyarrow.parquet as pq
import pytest
from datasets import Features

from schemas.release import CONFIGS
from tasks.export.compat import FEATURES
from tasks.release.feature_words import feature_schema
from tasks.release.shards import features, shards
from tasks.release.verify import verify_release
from tests.tampered_release import BATTLE, reseal

BEFORE_VERSION_4 = {
    "Value", "ClassLabel", "Translation", "TranslationVariableLanguages", "LargeList", "Sequence", "Array2D",
    "Array3D", "Array4D", "Array5D", "Audio", "Image", "Video", "Pdf",
}  # fmt: skip
"""What `datasets` 3.6 says it knows when it meets another word."""


def _types(described):
    if isinstance(described, list):
        return {name for each in described for name in _types(each)}
    if not isinstance(described, dict):
        return set()
    own = {described["_type"]} if isinstance(described.get("_type"), str) else set()
    return own | {name for each in described.values() for name in _types(each)}


@pytest.mark.parametrize("config", CONFIGS)
def test_a_shard_uses_no_word_that_datasets_before_version_4_does_not_know(release, config):
    (shard,) = shards(release, config)
    told = json.loads(pq.read_schema(shard).metadata[b"huggingface"])["info"]["features"]
    assert {"Image", "Value"} <= _types(told) <= BEFORE_VERSION_4
    assert list(told) == pq.read_schema(shard).names


@pytest.mark.parametrize("columns", [features(config) for config in CONFIGS] + list(FEATURES.values()))
def test_todays_datasets_reads_the_same_columns_from_it(columns):
    assert Features.from_arrow_schema(feature_schema(columns)) == columns


def test_a_release_whose_shards_have_the_words_of_before_still_verifies(own_release):
    before = features("battle").arrow_schema.metadata
    pq.write_table(pq.read_table(own_release / BATTLE).replace_schema_metadata(before), own_release / BATTLE)
    reseal(own_release)
    assert list(verify_release(own_release)) == []
