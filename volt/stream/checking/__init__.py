"""Looking at a stream before and after it runs: what it will give, what it gave, and why."""
