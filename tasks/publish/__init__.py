"""A sealed release -> the Hugging Face Hub, and back off it."""
