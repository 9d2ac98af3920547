"""Questions asked through a vendor's batch API: slower and cheaper than single calls.

In: requests as the vendor's own JSON, and the store that remembers which batch holds which. Out: one answer or failure
per question. `api.py` is what a vendor's module implements, `queue.py` sends and collects,
`records.py` is what a store remembers.
"""
