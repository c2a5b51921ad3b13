"""What is not collected: the examples of modules whose library is not installed."""

from importlib.util import find_spec

_NEEDED = {
    "torch": [
        "volt/ext/torch.py",
        *(
            f"volt/trial/{name}.py"
            for name in ("language_model", "running", "training", "translation_model")
        ),
    ],
    "ray": ["volt/ext/ray.py", "volt/ext/ray_cluster.py", "volt/ext/ray_tasks.py"],
    "fsspec": ["volt/files/remote.py", "volt/files/remote_files.py"],
}
collect_ignore = [
    path for library, paths in _NEEDED.items() if not find_spec(library) for path in paths
]
