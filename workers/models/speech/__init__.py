"""Speech to text and text to speech, for the models that need them; no model itself.

Kept in one place because models never import each other.
"""
