"""Turn YAML into a stream; errors contain file, line and the nearest valid key."""
