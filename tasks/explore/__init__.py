"""Shows a store or a release in a browser, or a release as static pages. Nothing is written beside either.

`of_store` and `of_release` give one `Source` each: a listing (one row for each conversation, battle and benchmark
prompt), single items, and images. `query` and `facets` filter the listing; `boards`, `dropped` and `topic_map`
summarise it; `pages` renders it; `server` and `static_pages` deliver the pages.
"""
