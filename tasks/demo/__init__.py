"""A drawn arena with planted problems, and how many of them a pipeline caught."""
