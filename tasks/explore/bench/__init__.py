"""What a benchmark adds to the page of an item: captions and reference, description and key, answers and verdicts.

In: a store or the files of a release. Out: `Section`s of `tasks/explore/source.py`.
"""
