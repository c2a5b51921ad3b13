"""A strategy that draws arbitrary vocabularies, for tests of files that contain one."""

import naive
from hypothesis import strategies as st
from support.merges import merge_lists

from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary


@st.composite
def vocabularies(draw):
    """Draw a vocabulary with arbitrary merges, some of their results as tokens, counts or none, and
    any settings.
    """
    words, merges, marker = draw(merge_lists())
    merges += draw(st.just([]) | st.just([("😀", "\u2028"), ('"', "\\")]))
    tokens = dict.fromkeys(
        [*(atom for word in sorted(words) for atom in naive.atoms(word, marker)), "\n", '"', "é"]
    )
    tokens |= dict.fromkeys(map("".join, merges))
    kept = tuple(draw(st.permutations([*tokens]))[: draw(st.integers(0, len(tokens)))])
    special = draw(st.text("abü<>", min_size=3, max_size=5).map(lambda text: f"§{text}"))
    unusual = {"pad": None, "eos": "<s>", "control": ("[INST]",)} if draw(st.booleans()) else {}
    return Vocabulary(
        merges=tuple(merges),
        tokens=kept,
        counts=tuple(draw(st.integers(0, 2**70)) for _ in kept) if draw(st.booleans()) else (),
        marker=marker,
        normalizer=Normalizer.parse(draw(st.sampled_from(["none", "nfc", "nfkc+lowercase"]))),
        pretokenizer=PreTokenizer(
            draw(st.sampled_from(["whitespace", "gpt2", 'regex:[^ "\\\\]+']))
        ),
        special=SpecialTokens(
            user=(special,), unk=draw(st.sampled_from(["<unk>", "§§"])), **unusual
        ),
        byte_fallback=draw(st.booleans()),
        provenance=draw(
            st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=3)
        ),
        merging=draw(st.sampled_from(["pairs", "pairs", "steps", "ranks"])),
        whole_words=draw(st.booleans()),
    )
