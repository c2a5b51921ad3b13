"""Replace Python's arguments in the library's messages by options of the command line.

>>> in_options("a.txt:5: invalid UTF-8; convert the file or pass errors='replace' or 'skip'")
'a.txt:5: invalid UTF-8; convert the file or pass --encoding-errors replace or skip'
"""

from __future__ import annotations

import re

# Pattern in a message of the library → text on the command line, applied in this order.
REMEDIES = {
    r"\berrors='replace' or 'skip'": "--encoding-errors replace or skip",
    r"\bapproximate=True\b": "--approximate",
    r"\bmin_count=(?=\S)": "--min-count ",
    r"\bmemory=(?=\S)": "--memory ",
    r"\bmax_line=(N)\b": r"--max-line \1",
    r"\bmax_line=None\b": "--max-line none",
    r"\bmax_line='([^']*)'": r"--max-line '\1'",
    r"\berrors='(\w+)'": r"--encoding-errors \1",
    r"\bunit='(\w+)'": r"--parity-unit \1",
    r"\bpretokenizer='bytes'": "--level bytes",
    r"\b(marker|pretokenizer|pattern|separator|fields|column|bos|eos|prepend|dtype)='([^']*)'": r"--\1 \2",
    r"\b(?:count|learn) with (?=--)": "search with ",
    r", counted with (?=--)": " with volt search ",
    r"\bsizes=range\((\d+), (\d+), (\d+)\)": r"--sizes \1:\2:\3",
    r"\bread it with merges=FILE": "volt import FILE --merges FILE -o MODEL",
    r"\bmerges=FILE": "--merges FILE",
    r"\bread it with format='(\w+)'": r"volt import FILE --from \1 -o MODEL",
    r"\bread it with special=\{TOKEN: ID\} or eos=\{TOKEN: ID\}": "import it with --special TOKEN=ID or --eos TOKEN=ID",
    r"\bread it with special=\[('[^']*')\]": r"import it with --special \1",
    r"\bmake one with volt\.search\b": "make one with: volt search CORPUS -o NAME.volt",
    r"\bvolt\.search\b": "volt search",
    r"\bgive the merges of (.*) to volt\.replay_bpe\b": r"give \1 to volt search --candidates",
    r"\bExport Vocabulary\.closed\(\)": "Export with --closed",
    r"\bVocabulary\.closed\(\)": "--closed",
    r"\bvolt\.formats\.check\b": "--check",
    r"\baccept=[\[(]['\"](\w+)['\"],?[\])]": r"--accept \1",
    r"\baccept=\('(\w+)', '(\w+)'\)": r"--accept \1 --accept \2",
    r"\baccept=\('(\w+)', '(\w+)', '(\w+)'\)": r"--accept \1 --accept \2 --accept \3",
    r"\b(weights|langs)=(?=\S)": r"--\1 ",
    r"\bvolt\.stream\.config\.templates\.expanded_file\('([^']*)'\)": r"volt stream schema --expand \1",
    r"\bsay split='valid'": "say --split valid",
    r"\bgive langs\b": "give --langs",
    r"\bon_long='(\w+)'": r"on_long: \1",  # a key of a configuration, as those that follow
    r"\b(bos|eos)=False\b": r"\1: false",
    r"\bmax_length is (?=[\d,]+(; raise it, drop|\)))": "longest is ",
    r"\braise max_length, or give larger windows\b": "raise longest, or give a larger window",
    r"\bn_merges\b": "--candidates",
    r"^to is\b": "--to is",
    r"^separator '": "--separator '",
    r"\bleave out closed\b": "leave out --closed",
    r"\bgive keep_atoms=False": "give --drop-atoms",
    r"\bmultiple_of=(\d+)": r"--multiple-of \1",
    r"^system '([^']*)':": r"--with \1:",
    r"^(epsilon|dropout|coverage) (is|draws)\b": r"--\1 \2",
    r"\bmodel=volt\.LanguageModel\(params=(.+), width=(\d+)\)": r"--model-params \1 --model-width \2",
    r"^(params|width) is\b": r"--model-\1 is",
    r"\bgive a seed, (.*) \(it is None\)": r"give --seed N, \1",
    r"\bgive a seed\b": "give --seed N",
}
# Names of template keys, which are not options.
_KEYS = re.compile(r"--set \S+( \w+ is given twice)?|\{\{\w+\}\}|\bno place for '\w+'|\bgive values=\{'\w+': …\}")
_VALUES = re.compile(r"\bgive values=\{'(\w+)': …\}")
_KEPT = "\x00"  # errors hold none
_NAMES = re.compile(r"\b(row_tau|column_tau|min_share|max_iters|min_count|min_pair_count|cache_words)\b")


def in_options(message: str) -> str:
    """Return a message of the library, with options in place of Python's arguments.

    >>> in_options("{{min_count}} has no value; give values={'min_count': …}; min_count is 0")
    '{{min_count}} has no value; give --set min_count=VALUE; --min-count is 0'
    """
    keys = iter([_VALUES.sub(r"give --set \1=VALUE", match[0]) for match in _KEYS.finditer(message)])
    message = _KEYS.sub(_KEPT, message)
    for python, option in REMEDIES.items():
        message = re.sub(python, option, message)
    message = _NAMES.sub(lambda match: "--" + match[0].replace("_", "-"), message)
    return re.sub(_KEPT, lambda _: next(keys), message)
