"""Google's Gemini: labels, one by one or in batches."""
