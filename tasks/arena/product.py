"""The chat arena as a product of the core: one command, `curate arena`."""

from tasks.product import Product

ARENA = Product(commands="flows.arena.command")
