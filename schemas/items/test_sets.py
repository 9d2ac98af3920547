"""Conversations of published test sets, which are for measuring, not for training."""

TEST_SET_MARK = "testset-"
"""Beginning of the id of every conversation and vote that comes from a published test set. It stays in every table and
release, so that exports of training data leave such rows out."""
