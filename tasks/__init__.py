"""What is done: one folder per stage, in the words of `flows/`."""
