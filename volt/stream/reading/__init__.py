"""Shards → blocks of lines in an order that a seed fixes; faults of lines and what to do about them."""
