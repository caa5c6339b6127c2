"""The log as a product: read it, hear it, check it, compare it, carry it away. One reader interface under all of it."""
