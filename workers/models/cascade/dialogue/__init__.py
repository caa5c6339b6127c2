"""What the cascade says: rules first, then a language model if there is one, then an honest admission.

All memory is the history it is given: no object here remembers anything between two answers.
"""
