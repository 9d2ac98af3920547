"""Personal data in texts, by patterns and by a model of names that ships in an installed package.

In: normalised texts. Out: typed spans with a confidence.
"""
