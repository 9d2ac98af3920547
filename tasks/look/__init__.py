"""Colours, type and tables that report, explorer and review pages share, and the frame of pages of one file.

In: nothing. Out: one stylesheet, which a page links or includes, and `one_file.html`, which templates extend.
"""

from pathlib import Path

LOOK = Path(__file__).with_name("look.css")
