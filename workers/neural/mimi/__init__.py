"""The Mimi codec, 1920 samples to 8 codes and back, streamed for many slots at once."""
