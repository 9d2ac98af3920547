"""Colours, type and tables that the report, the explorer and the review pages share.

In: nothing. Out: one stylesheet, which a page links or includes; it knows no page.
"""

from pathlib import Path

LOOK = Path(__file__).with_name("look.css")
