"""What a shard tells `datasets` about its columns, in words that every version of it knows."""

import json
from typing import Any

import pyarrow as pa
from datasets import Features

KEY = b"huggingface"
"""Of a Parquet file's metadata."""


def feature_schema(features: Features) -> pa.Schema:
    """Arrow schema of these columns with the metadata that lets `datasets` decode the pictures.

    Versions before 4 know no `List` and refuse the file: lists are written as JSON lists of one, which all read.
    """
    words = json.dumps({"info": {"features": _older(features.to_dict())}})
    return features.arrow_schema.with_metadata({KEY: words})


def known_words(features: Features) -> set[bytes]:
    """The metadata that releases of this version and of earlier ones have for these columns."""
    return {bytes(schema.metadata[KEY]) for schema in (feature_schema(features), features.arrow_schema)}


def _older(described: Any) -> Any:
    if not isinstance(described, dict):
        return described
    if described.get("_type") == "List":
        return [_older(described["feature"])]
    return {name: _older(each) for name, each in described.items()}
