// Merges → pieces: what volt's Encoder does, for the vocabulary of one size.

const SPAN = 2 ** 26; // more than there are tokens: left * SPAN + right is one number per pair

/** tokens: strings, atoms first;  merges: left, right, left, right, …, token numbers. */
function makeMerges(tokens, merges, nAtoms) {
  const numbers = new Map(tokens.map((token, number) => [token, number]));
  const ranks = new Map(), results = [], parts = new Map();
  for (let rank = 0; rank < merges.length / 2; rank++) {
    const left = merges[2 * rank], right = merges[2 * rank + 1], key = left * SPAN + right;
    const result = numbers.get(tokens[left] + tokens[right]);
    if (!ranks.has(key)) ranks.set(key, rank); // of equal pairs, the first counts
    if (!parts.has(result)) parts.set(result, [left, right]);
    results.push(result);
  }
  return { tokens, numbers, ranks, results, parts, nAtoms };
}

/** A word's atoms, as numbers; one that no token spells stays a string. */
function atomsOf(word, marker, merges) {
  const atoms = [...(marker === "prefix" ? "▁" + word : word)];
  if (marker === "suffix") atoms[atoms.length - 1] += "</w>";
  return atoms.map((atom) => (merges.numbers.get(atom) < merges.nAtoms ? merges.numbers.get(atom) : atom));
}

/** The pieces of a word by the first nMerges merges: the lowest rank first, from left to right. */
function mergeWord(word, marker, merges, nMerges) {
  let symbols = atomsOf(word, marker, merges);
  for (;;) {
    let best = nMerges;
    for (let i = 0; i + 1 < symbols.length; i++) {
      const rank = rankOf(symbols[i], symbols[i + 1], merges);
      if (rank < best) best = rank;
    }
    if (best === nMerges) return symbols;
    const merged = [];
    for (let i = 0; i < symbols.length; i++) {
      const found = i + 1 < symbols.length && rankOf(symbols[i], symbols[i + 1], merges) === best;
      merged.push(found ? merges.results[best] : symbols[i]);
      i += found;
    }
    symbols = merged;
  }
}

function rankOf(left, right, merges) {
  if (typeof left === "string" || typeof right === "string") return Infinity;
  return merges.ranks.get(left * SPAN + right) ?? Infinity;
}

/** Every dropped piece as the two parts that it was merged from, down to kept tokens. */
function splitBack(pieces, dropped, merges) {
  return pieces.flatMap((piece) =>
    dropped.has(piece) && merges.parts.has(piece) ? splitBack(merges.parts.get(piece), dropped, merges) : [piece]);
}

/** Counts with those of every dropped token added to its parts, as the vocabulary's own counts are. */
function countsOfKept(counts, dropped, merges) {
  const kept = counts.slice();
  for (const token of [...dropped].sort((a, b) => b - a)) {
    for (const part of merges.parts.get(token) ?? []) kept[part] += kept[token];
    if (merges.parts.has(token)) kept[token] = 0;
  }
  return kept;
}

/** Free text → pre-tokens, as the pre-tokenizers "whitespace" and "metaspace" cut its lines. */
function splitText(text, normalizer, pretokenizer) {
  return text.split("\n").flatMap((line) => splitLine(normalizeLine(line, normalizer), pretokenizer));
}

function normalizeLine(line, normalizer) {
  const form = normalizer.split("+").find((part) => part.startsWith("nf"))?.toUpperCase();
  const composed = form ? line.normalize(form) : line;
  if (!normalizer.includes("lowercase")) return composed;
  return form ? composed.toLowerCase().normalize(form) : composed.toLowerCase();
}

function splitLine(line, pretokenizer) {
  if (pretokenizer === "whitespace") {
    return line.split(/[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/).filter(Boolean);
  }
  return line ? ("▁" + line.replaceAll(" ", "▁")).split(/(?=▁)/) : [];
}
