"""A drawn arena with planted problems. In: sizes and a seed; out: logs, images, presets and what was planted.

`planted` scores how many of the planted problems a curated store caught.
"""
