#!/usr/bin/env bash
# Text in a bucket → vocabulary → ids for a training, on all machines of a Ray cluster.
#
#   pip install 'volt-vocab[ray,remote]'
#   CORPUS='s3://bucket/corpus/*.gz' OUTPUT=s3://bucket/tokenized ADDRESS=auto bash search_and_encode.sh
#
# It writes OUTPUT/corpus.volt and OUTPUT/ids/, one file of ids for each file of the corpus. Without ADDRESS, it uses
# this machine only. If you run it again after an interruption, it continues: counts are kept in OUTPUT/counts/, and files
# of ids that are complete are skipped. OUTPUT must not lie in a folder that CORPUS names.
set -euo pipefail

: "${CORPUS:?set CORPUS to a file, folder, URL or pattern}" "${OUTPUT:?set OUTPUT to a folder or URL}"
[[ $OUTPUT == *://* ]] || mkdir -p "$OUTPUT"
engine=(--engine ray ${ADDRESS:+--address "$ADDRESS"})

volt search "$CORPUS" "${engine[@]}" --keep "$OUTPUT/counts" -o "$OUTPUT/corpus.volt"
volt encode -m "$OUTPUT/corpus.volt" "$CORPUS" "${engine[@]}" --form npy -o "$OUTPUT/ids/"
