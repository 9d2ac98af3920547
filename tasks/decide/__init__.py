"""Facts and a policy -> decisions with every reason that fired. No thresholds in Python."""
