"""What people say of generated items. In: filled-in lists, verdicts of the pages. Out: rows of `reviews`, rates."""
