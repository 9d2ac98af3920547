"""The drawing engine of the demo's images, of the probes and of the embedded image model.

In: a seeded generator, or a scene. Out: an image. `canvas.py` is the sheet with its fonts; `scene.py` says what is in a
scene, in outlines, in words and back; `draw_scene.py` draws it; `photographs.py` has photographs that packages ship.
"""
