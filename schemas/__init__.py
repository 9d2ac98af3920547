"""The shape of everything that is stored or released. Imports nothing from `tasks` or `flows`."""
