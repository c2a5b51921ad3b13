#!/usr/bin/env bash
# Raw text → vocabulary → endless stream → Marian, and on from there in the next run.
#
#   pip install 'volt-vocab[interop]'
#   MARIAN=/path/to/marian bash marian.sh FOLDER
#
# It writes into FOLDER (default: marian) a stream with its data, a joint vocabulary, and Marian's model. Run it again,
# and the stream goes on behind the lines of the run before. Without Marian (MARIAN unset, none on the PATH) nothing is
# trained: the lines that it would have read go to FOLDER/read.tsv, and their number is printed. N_LINES: of each run.
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
    echo "no marian here: so many lines it would have read" >&2
    stream | tee -a "$folder/read.tsv" | wc -l
fi
