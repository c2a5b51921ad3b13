"""From texts in memory to a vocabulary by one call: `volt.train` beside the calls of other libraries.

    VOLT_DATA=DIR python experiments/bench/one_call.py [--size 8000] [--repeats 3]

Each run is a process of its own, and the runs are interleaved. The time is that of the call alone, in CPU seconds, with
compiled loops loaded. The code of each call is printed, so that its lines can be counted.
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

CALLS = {  # side → what it imports, and its call
    "volt": (
        "import volt; volt.train(texts[:50], size=80, min_pair_count=1)",
        'volt.train(texts, size=size, level="bytes")',
    ),
    "volt, auto": (
        "import volt; volt.train(texts[:50], size=80, min_pair_count=1)",
        "volt.train(texts)",
    ),
    "tokenizers": (
        "from tokenizers import ByteLevelBPETokenizer; tokenizer = ByteLevelBPETokenizer()",
        "tokenizer.train_from_iterator(texts, vocab_size=size, show_progress=False)",
    ),
    "sentencepiece": (
        "import io, sentencepiece; model = io.BytesIO()",
        "sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(texts), model_writer=model, vocab_size=size, "
        "model_type='bpe', minloglevel=2)",
    ),
}
PROCESS = """
import gzip, sys, time
path, size = sys.argv[1], int(sys.argv[2])
texts = gzip.open(path, "rt", encoding="utf-8").read().split("\\n")[:-1]
{imports}
before = time.process_time()
{call}
print(time.process_time() - before)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=8_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    path = Path(os.environ["VOLT_DATA"], "multi30k/train.en.gz")
    with gzip.open(path) as file:
        print(f"{sum(1 for _ in file):,} texts, {options.size:,} tokens")
    seconds: dict[str, list[float]] = {side: [] for side in CALLS}
    for _ in range(options.repeats):
        for side, (imports, call) in CALLS.items():
            code = PROCESS.format(imports=imports, call=call)
            command = [sys.executable, "-c", code, str(path), str(options.size)]
            result = subprocess.run(command, check=True, capture_output=True, text=True)
            seconds[side].append(float(result.stdout.split()[-1]))
    for side, (_, call) in CALLS.items():
        print(f"{side:15} {min(seconds[side]):.2f} {median(seconds[side]):.2f} CPU s   {call}")


if __name__ == "__main__":
    main()
