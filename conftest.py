"""What is not collected: the examples of modules whose library is not installed."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["volt/ext/torch.py", "volt/ext/worker_notes.py"]
