"""Vendors' APIs and models with downloaded weights: a folder or module per vendor, and their shared code.

In: items of a capability (`tasks/providers/capabilities.py`); keys come only from the environment. Out: one entry per
item, `Failed` for an item that could not be measured. A vendor's SDK is imported only in the vendor's own module.
"""

import os

os.environ["KERAS_BACKEND"] = "torch"  # Keras reads it on import; its default is TensorFlow
