"""How far is BPE from the fewest pieces? A bound for each text and size, with its cost.

python experiments/fewest_pieces.py 1000,2000,8000,32000 TEXT …
"""

import resource
import sys
import time

import volt

sizes = [int(size) for size in sys.argv[1].split(",")]
for path in sys.argv[2:]:
    counts = volt.count_words([path])
    for size in sizes:
        start = time.process_time()
        result = volt.fewest_pieces(counts, size)
        seconds = time.process_time() - start
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        facts = f"{result.n_candidates:,} candidates, {result.n_sweeps} sweeps"
        print(f"{path}: {result}; {facts}, {seconds:.1f} CPU s, {memory} MB", flush=True)
