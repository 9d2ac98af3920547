"""The columns of a release are a promise to the people who load it."""

import pyarrow as pa
import pytest

from schemas.release import CONFIGS, ReleasedCategories
from schemas.row import arrow_schema
from schemas.tags import Categories

PROMISED = {
    "chat": "images conversation_id model num_turns conversation language user_id tstamp is_preset preset_dataset "
    "categories topic topic_id",
    "battle": "question_id model_a model_b winner vote_reason judge conversation_a conversation_b num_turns anony "
    "language tstamp images conv_metadata categories taxonomy is_preset in_bench",
    "bench": "question_id turns images topic topic_id categories",
    "failures": "question_id turns images failure_type reviewed typed_by judges both_bad models categories",
}
SHOWN = pa.list_(pa.struct([("image", pa.int32()), ("character", pa.int32())]))
MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string()), ("images", SHOWN)]))
IMAGES = pa.list_(pa.struct([("bytes", pa.binary()), ("path", pa.string())]))


@pytest.mark.parametrize("config", PROMISED)
def test_a_configuration_has_exactly_the_promised_columns(config):
    assert arrow_schema(CONFIGS[config]).names == PROMISED[config].split()


def test_there_are_no_other_configurations():
    assert set(CONFIGS) == set(PROMISED)


@pytest.mark.parametrize("config", PROMISED)
def test_images_are_stored_as_the_datasets_library_stores_them(config):
    assert arrow_schema(CONFIGS[config]).field("images").type == IMAGES


@pytest.mark.parametrize(
    ("config", "column"),
    [("chat", "conversation"), ("battle", "conversation_a"), ("battle", "conversation_b"), ("bench", "turns")],
)
def test_messages_have_role_content_and_places_of_images(config, column):
    assert arrow_schema(CONFIGS[config]).field(column).type == MESSAGES


def test_categories_are_booleans_that_may_be_unknown():
    schema = arrow_schema(ReleasedCategories)
    assert set(schema.types) == {pa.bool_()}
    assert all(field.nullable for field in schema)
    assert set(Categories.model_fields) <= set(schema.names)
