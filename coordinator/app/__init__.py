"""Puts the parts of a coordinator process together and runs it."""
