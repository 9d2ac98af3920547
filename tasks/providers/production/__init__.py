"""Vendors' APIs and downloaded weights: a folder or module a vendor, and what they share.

In: items of a capability (`tasks/providers/capabilities.py`); keys come from the environment and from nowhere else.
Out: one entry per item; one that could not be measured is a `Failed`, never a "no". A vendor's SDK, and torch, are
imported in the vendor's own module and nowhere else.
"""

import os

os.environ["KERAS_BACKEND"] = "torch"  # Keras reads it once, on import, and would otherwise ask for TensorFlow
