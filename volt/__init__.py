"""VOLT."""
