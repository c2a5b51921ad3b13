#!/usr/bin/env bash
# Raw text → vocabulary → endless stream → Marian; the next run resumes.
#
#   pip install 'volt-vocab[interop]'
#   MARIAN=/path/to/marian bash marian.sh FOLDER
#
# It writes a stream with its data, a joint vocabulary, and Marian's model into FOLDER (default: marian). If you run it
# again, the stream continues after the last line of the previous run. Without Marian (MARIAN unset, not on the PATH), it
# does not train: it appends the lines for Marian to FOLDER/read.tsv and prints their number. N_LINES: lines per run.
set -euo pipefail

folder=${1:-marian}
n_lines=${N_LINES:-2000}
marian=${MARIAN:-$(command -v marian || true)}

[ -e "$folder/stream.yaml" ] || volt stream example case-noise -o "$folder" >&2
if [ ! -e "$folder/joint.spm" ]; then
    volt search "$folder/parallel.tsv.gz" --fields 1,2 --marker prefix --select fixed:100 -o "$folder/joint.volt" -q
    volt export -m "$folder/joint.volt" --to sentencepiece -o "$folder/joint.spm" -q
fi

stream() {
    volt stream run "$folder/stream.yaml" --state "$folder/state.json" --resume --limit "$n_lines" -q
}

if [ -n "$marian" ]; then
    stream | "$marian" --type transformer --tsv --tsv-fields 2 --train-sets stdin --shuffle batches \
        --vocabs "$folder/joint.spm" "$folder/joint.spm" --model "$folder/model.npz"
else
    echo "marian not found; number of lines that it would have read:" >&2
    stream | tee -a "$folder/read.tsv" | wc -l
fi
