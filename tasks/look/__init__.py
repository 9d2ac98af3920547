"""Colours, type and tables that report, explorer and review pages share, and the frame of pages of one file.

In: nothing. Out: stylesheets, which a page links or includes, an icon, the policy of served pages, and templates.
"""

from pathlib import Path

LOOK = Path(__file__).with_name("look.css")
LINKED = {name: LOOK.with_name(name) for name in (LOOK.name, "explore.css", "icon.svg")}
"""Files that every served page links."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
"""Content policy of served pages."""
