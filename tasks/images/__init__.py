"""Decodes an image once, strips its metadata, resizes it (Pillow) and hashes it (imagehash, pdqhash).

In: bytes of image files. Out: decoded pixels with a content id, the stored file without metadata, perceptual hashes.
"""
