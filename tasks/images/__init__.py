"""Decodes an image once, makes its stored file anew, resizes it (Pillow) and hashes it (imagehash, pdqhash).

`as_served` gives an upload the form and the name that an arena stores.

In: bytes of image files. Out: decoded pixels with a content id, the stored file, perceptual hashes.
"""
