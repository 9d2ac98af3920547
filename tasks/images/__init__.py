"""Images: decoded once, stored without metadata, resized by Pillow, hashed by imagehash and pdqhash.

In: bytes of image files. Out: decoded pixels with a content id, the stored file without metadata, perceptual hashes.
"""
