"""`curate arena`: its options, the application that it serves, tasks for annotators, and a Space of it."""
