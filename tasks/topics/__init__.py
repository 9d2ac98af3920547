"""Topics of kept prompts: vectors, clusters, names, tree, and stable ids over nights.

In: kept `conversations`, `signals/text_embedding`, `signals/image_embedding`. Out: `topics`, `topic_model`,
`topic_tree`, `topic_changes`.
"""
