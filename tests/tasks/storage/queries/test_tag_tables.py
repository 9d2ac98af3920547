"""Tags counted in parts are the tags of the whole."""

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.storage.queries.conversation_features import TAXONOMY, overlap, tag_counts, tallied, taxonomy_counts

TAGS = ("code", "refusal")
TOLD = st.none() | st.booleans()
PLACE = st.none() | st.sampled_from(["art", "chart"])
ROWS = st.lists(
    st.fixed_dictionaries(dict.fromkeys(TAGS, TOLD) | dict.fromkeys(TAXONOMY, PLACE)), min_size=1, max_size=12
)
SCHEMA = dict.fromkeys(TAGS, pl.Boolean) | dict.fromkeys(TAXONOMY, pl.String)


@settings(max_examples=60)
@given(rows=ROWS, size=st.integers(1, 5))
def test_tallies_of_parts_count_what_the_rows_say(rows, size):
    whole = pl.DataFrame(rows, schema=SCHEMA)
    parts = list(whole.iter_slices(size))
    tags = pl.concat([tallied(part, TAGS) for part in parts])
    counts = {count.tag: (count.items, count.not_told) for count in tag_counts(tags, TAGS)}
    assert counts == {tag: (whole[tag].sum(), whole[tag].null_count()) for tag in TAGS}
    both = [row["code"] for row in rows if row["refusal"] and row["code"] is not None]
    share = overlap(tags, TAGS).filter(tag="refusal")["code"].item()
    assert share == (sum(both) / len(both) if both else None)
    places = taxonomy_counts(pl.concat([tallied(part, TAXONOMY) for part in parts]))
    assert places == taxonomy_counts(tallied(whole, TAXONOMY))
    art = [row for row in rows if row[TAXONOMY[0]] == "art"]
    assert sum(place.items for place in places if place.tag == f"{TAXONOMY[0]}: art") == len(art)
