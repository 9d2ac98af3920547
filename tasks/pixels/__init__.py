"""Pictures: decoded once, without metadata, and made smaller as Pillow does."""
