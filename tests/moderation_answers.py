"""What OpenAI's moderation answers, as its documentation shows it."""

from tasks.providers.production.openai.moderation import MODERATION_CATEGORIES

OF_IMAGES = ("self-harm", "self-harm/instructions", "self-harm/intent", "sexual", "violence", "violence/graphic")
"""Categories that the service scores in images; the others are of texts alone."""


def result(**scores):
    """A result of the service; what scores 0.5 or more is flagged."""
    scores = dict.fromkeys(MODERATION_CATEGORIES, 0.01) | scores
    flags = {name: score >= 0.5 for name, score in scores.items()}
    return {"flagged": any(flags.values()), "categories": flags, "category_scores": scores}


def of_image(**scores):
    """A result about an image."""
    scores = dict.fromkeys(MODERATION_CATEGORIES, 0.0) | dict.fromkeys(OF_IMAGES, 0.01) | scores
    applied = {name: ["image"] if name in OF_IMAGES else [] for name in MODERATION_CATEGORIES}
    return result(**scores) | {"category_applied_input_types": applied}


def answer(*results):
    """The whole answer."""
    return {"id": "modr-1", "model": "omni-moderation", "results": list(results)}
