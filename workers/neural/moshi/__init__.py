"""A Moshi-shaped pair of transformers, stepped for many slots at once: each with its own position, window and dice."""
