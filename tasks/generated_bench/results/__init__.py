"""Tables about a finished benchmark: how it was made, and what wrong answers to it are errors of."""
