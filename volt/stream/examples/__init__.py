"""Working examples that volt stream example writes."""
