"""Tests that ship: the promises of the log and of a model, for this project and for whoever writes another."""
