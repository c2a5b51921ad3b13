"""`volt stream`: the commands of the streaming half."""
