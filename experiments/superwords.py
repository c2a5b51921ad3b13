"""How many pieces do superwords save? For each text and size, a row with shares of superwords.

python experiments/superwords.py 8000,32000,128000 TEXT …
"""

import sys
import time
from pathlib import Path

import volt

SHARES = (0.05, 0.1, 0.2)
sizes = [int(size) for size in sys.argv[1].split(",")]
print("| text | MB | size | bytes a piece | 5 % | 10 % | 20 % | CPU s |")
print("|---|---|---|---|---|---|---|---|")
for path in sys.argv[2:]:
    counts = volt.count_words(path, level="bytes")
    words = volt.learn_bpe(counts, n_merges=max(sizes))
    for size in sizes:
        if size > words.n_tokens:
            print(f"| {Path(path).name} | | {size:,} | only {words.n_tokens:,} tokens | | | | |")
            continue
        start = time.process_time()
        n_pieces = int(words.counts_at(size).sum())
        cells = []
        for share in SHARES:
            number = round(share * size)
            transition = words.merges_at(size - number)
            both = volt.learn_superwords(words, path, number, transition=transition)
            saved = 1 - both.counts_at(min(size, both.n_tokens)).sum() / n_pieces
            note = "" if both.n_tokens >= size else f" ({both.n_tokens:,} tokens)"
            cells.append(f"{saved:.1%}{note}")
        megabytes = f"{counts.n_bytes / 1e6:.1f}"
        per_piece = f"{counts.n_bytes / n_pieces:.2f}"
        seconds = f"{time.process_time() - start:.1f}"
        facts = (Path(path).name, megabytes, f"{size:,}", per_piece, *cells, seconds)
        print(f"| {' | '.join(facts)} |", flush=True)
