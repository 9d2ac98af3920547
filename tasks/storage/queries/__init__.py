"""Read-only queries shared by several stages: funnel, conversation features, released names, images, explanations."""
