"""Vendors' APIs and downloaded weights: the only place where torch and the vendors' SDKs are imported.

Keys come from the environment and from nowhere else. An item that could not be measured is a `Failed`, never a "no".
"""

import os

os.environ["KERAS_BACKEND"] = "torch"  # Keras reads it once, on import, and would otherwise ask for TensorFlow
