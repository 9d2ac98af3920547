"""Drawn scenes instead of an image model: a grammar that describes them, pictures of them, and a viewer.

In: an aspect and a level, or pixels. Out: descriptions, images with planted faults, answers read from the pixels alone.
"""
