"""Tabs beside the conversations. In: boards, and tasks for annotators. Out: parts of the page."""
