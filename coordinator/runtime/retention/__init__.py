"""Retention: how much is kept, and how leaders delete what is past it."""
