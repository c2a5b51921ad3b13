"""What is not collected: the examples of modules whose library is not installed."""

from importlib.util import find_spec

_NEEDED = {
    "torch": ["volt/ext/torch.py", "volt/ext/worker_notes.py"],
    "ray": ["volt/ext/ray.py", "volt/ext/ray_cluster.py", "volt/ext/ray_tasks.py"],
    "fsspec": [f"volt/files/remote{name}.py" for name in ("", "_copies", "_listing", "_reading")],
}
collect_ignore = [path for library, paths in _NEEDED.items() if not find_spec(library) for path in paths]
