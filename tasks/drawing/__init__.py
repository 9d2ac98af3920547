"""The drawing engine of the demo's images and of the embedded image model.

In: a seeded generator, or a scene. Out: an image. `canvas.py` is the sheet with its fonts; `scene.py` says what is in a
scene, in words and back; `shapes.py` has the outlines of things; `draw_scene.py` draws a scene.
"""
