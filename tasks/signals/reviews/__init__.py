"""Queues in which people say which tags apply, and whether what detectors found is there (`curate review --serve`).

In: kept conversations, tables `signals/faces` and `signals/text_pii`, the policy that decided. Out: items for the
review pages. The verdicts are absolute, not about one tagger or version: the next one is measured against them too.
"""
