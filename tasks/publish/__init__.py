"""Publishes a sealed release on the Hugging Face Hub, and takes published versions back."""
