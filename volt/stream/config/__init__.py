"""YAML → a stream; errors name file, line and the nearest valid key."""
