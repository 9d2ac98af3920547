"""Exports a release to other formats: training data, or the columns of a published dataset."""
