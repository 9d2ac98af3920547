"""Duplicate pairs and groups of images and of prompts.

In: `signals/image_hash`, `signals/image_embedding`, `signals/text_embedding`, `conversations`, `images`, or a folder of
image files. Out: the pairs of `near_pictures`, `semantic_pictures` and `near_prompts`, and which conversation repeats
which. Uses pHash, PDQ and thumbnail correlation for images and MinHash for prompts; thresholds come from the policy.
"""
