"""YAML → a stream; every fault is told with file, line and what was meant."""
