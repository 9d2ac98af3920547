"""OpenAI, and servers that speak its protocols: chat completions, moderation and batches."""
