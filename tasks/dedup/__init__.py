"""Duplicate pairs and groups of images and of prompts.

In: `signals/image_hash`, `signals/image_embedding`, `signals/text_embedding`, `conversations`, `images`, or a folder of
image files. Out: the pairs of `near_images`, `semantic_images` and `near_prompts`, and the conversations that
repeat another one. Images are compared by pHash, PDQ, thumbnail correlation and chroma, prompts by MinHash; thresholds
come from the policy.
"""
