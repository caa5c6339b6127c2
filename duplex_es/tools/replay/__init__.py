"""Recorded calls carried out again: against the pure core, against a model in this process, against a deployment."""
