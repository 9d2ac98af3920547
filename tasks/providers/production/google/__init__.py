"""Google Cloud Vision: faces, text and SafeSearch from one request an image."""
