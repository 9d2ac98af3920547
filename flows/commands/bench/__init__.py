"""`curate bench`: the drawn benchmark, items that people write and items made on demand."""
