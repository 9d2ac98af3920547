"""Our stages against the tool a user would otherwise pick, side by side in one run. `make bench` runs all."""
