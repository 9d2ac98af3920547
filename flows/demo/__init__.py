"""Flow and commands of the demo."""
