"""Inspect a stream before and after it runs: its plan, its lines and their origins."""
