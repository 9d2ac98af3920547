"""Read-only queries that several stages share: where lines went, features, released names, images, explanations."""
