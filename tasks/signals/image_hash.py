"""Perceptual hashes of an image, for near-duplicates and for lists of known images."""

from tasks.images.hashes import image_hashes

VERSION = "3"

image_hash = image_hashes
"""The rule of the signal of that name."""
