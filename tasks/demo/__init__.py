"""A synthetic arena with planted problems. In: sizes and a seed; out: logs, images, presets, a list of the problems.

`planted` scores how many of the planted problems a curated store caught.
"""
