"""Laws of `unspaced`, which detects text without spaces between words, and of `text_bytes`."""

import hashlib

import pytest

from volt import WordCounts, count_words, learn_bpe, search
from volt.count.corpus_statistics import Unspaced, text_bytes, unspaced

UNSPACED = {
    "Han": "我昨天去了图书馆借了三本书。今天下午我打算在家里读完其中的一本。\n天气很好,今天我们一起去公园散步吧!",
    "Hiragana": "きのうはともだちといっしょにえいがをみにいきました。とてもおもしろかったです。\n"
    "新しい仕事がはじまるので、すこしだけ心配していますが、きっとだいじょうぶだとおもいます。",
    "Katakana": "コンピューターネットワークサービス、スマートフォンアプリケーション\nレストランメニュー",
    "Thai": "เมื่อวานนี้ฉันไปตลาดกับแม่เพื่อซื้อผักและผลไม้ วันนี้อากาศดีมากเราจึงเดินเล่นในสวนสาธารณะ\nพรุ่งนี้จะไปโรงเรียนแต่เช้า",
    "Lao": "ມື້ວານນີ້ຂ້ອຍໄປຕະຫຼາດກັບແມ່ເພື່ອຊື້ຜັກແລະໝາກໄມ້ ມື້ນີ້ອາກາດດີຫຼາຍ",
    "Khmer": "ម្សិលមិញខ្ញុំទៅផ្សារជាមួយម្តាយដើម្បីទិញបន្លែនិងផ្លែឈើ ថ្ងៃនេះអាកាសធាតុល្អណាស់",
    "Myanmar": "မနေ့ကကျွန်တော်အမေနဲ့အတူဈေးကိုသွားခဲ့ပါတယ်။ ဒီနေ့ရာသီဥတုကောင်းပါတယ်။",
    "Tibetan": "ཁ་སང་ང་ཨ་མ་དང་མཉམ་དུ་ཁྲོམ་ལ་ཕྱིན་པ་ཡིན། དེ་རིང་གནམ་གཤིས་ཡག་པོ་འདུག",
}
SPACED = {
    "German compounds": "Donaudampfschifffahrtsgesellschaftskapitän Rindfleischetikettierungsüberwachungsaufgabe\n"
    * 9,
    "Finnish": "lentokonesuihkuturbiinimoottoriapumekaanikkoaliupseerioppilas epäjärjestelmällisyydellään\n"
    * 9,
    "code": "self.assertTrue(isinstance(value,collections.abc.Mapping)and(not(value.keys()-allowed)))\n"
    * 9,
    "URLs": "https://example.org/a/very/long/path?with=a%20query&and=more#and-a-fragment\n" * 9,
    "hex digests": "\n".join(hashlib.sha256(bytes([n])).hexdigest() for n in range(50)),
    "Korean": "어제는친구와 함께 영화를 보러 갔습니다 아주 재미있었습니다\n" * 9,
    "Hindi": "कल मैं अपनी माँ के साथ बाज़ार गया था और आज मौसम बहुत अच्छा है\n" * 9,
    "Georgian": "გუშინ მეგობართან ერთად კინოში წავედით ძალიან საინტერესო იყო\n" * 9,
    "Amharic": "ትናንት፡ከጓደኛዬ፡ጋር፡ወደ፡ገበያ፡ሄድኩ\n" * 9,
    "Chinese, cut into words": "我 昨天 去 了 图书馆 借 了 三 本 书 。 今天 下午 我 打算 在 家里 读完 其中 的 一 本\n"
    * 9,
    "Thai, cut into words": "เมื่อวาน นี้ ฉัน ไป ตลาด กับ แม่ เพื่อ ซื้อ ผัก และ ผลไม้ วันนี้ อากาศ ดี มาก เดินเล่น ใน สวน\n"
    * 9,
    "Khmer, cut into words": "ម្សិលមិញ ខ្ញុំ ទៅ ផ្សារ ជាមួយ ម្តាយ ដើម្បី ទិញ បន្លែ និង ផ្លែឈើ ថ្ងៃនេះ អាកាសធាតុ ល្អ ណាស់\n"
    * 9,
    "English with a Chinese name": "the library is called 北京大学图书馆数字资源中心 by those who use it\n"
    + "the cat sat\n" * 20,
}


def counted(text):
    return WordCounts.from_pairs([(word, 1) for word in text.split()])


@pytest.mark.parametrize("script", UNSPACED)
def test_text_without_spaces_is_noticed(script):
    """`unspaced` detects two sentences in each script, also beside as much English text."""
    text = UNSPACED[script]
    for seen in (text, f"{text} {'a b c ' * (len(text) // 3)}"):
        found = unspaced(counted(seen))
        assert found is not None
        assert found.script == script
        assert found.length >= 6
    assert 0.2 < found.share < 0.9


@pytest.mark.parametrize("name", SPACED)
def test_long_words_are_no_text_without_spaces(name):
    """`unspaced` returns None for long words of other scripts, and for text that was cut into
    words.
    """
    assert unspaced(counted(SPACED[name])) is None


def test_the_search_says_what_to_do():
    """A search warns of text without spaces, and the proposed pre-tokenizer avoids the warning."""
    text = UNSPACED["Han"] * 3
    result = search(learn_bpe(counted(text), 20))
    [message] = [sentence for sentence in result.warnings if "at least" not in sentence]
    assert "without spaces between words (mostly Han)" in message
    assert (
        "; better search with pretokenizer='unicode', which also splits at punctuation" in message
    )
    counts = WordCounts.from_pairs([(word, 1) for word in text.split()], pretokenizer="unicode")
    assert unspaced(counts) is None


def test_real_texts_without_spaces_are_detected(data):
    """`unspaced` detects Cantonese talks, but not Finnish, Marathi, Urdu or Georgian ones."""
    for name in ("Cantonese", "Finnish", "Marathi", "Urdu", "Georgian"):
        path = data / "ted" / f"{name}.txt.gz"
        if path.exists():
            found = unspaced(count_words(path))
            assert (found is not None) == (name == "Cantonese")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ({"一二三四五六": 1, "a" * 27: 2}, Unspaced("Han", 0.1, 6.0)),
        ({"一二三四五六": 1, "a" * 55: 1}, None),
        ({"一二三四五": 1}, None),
        ({"一二三四五カタカナ。": 2, "ab": 2}, Unspaced("Han", 10 / 12, 9.0)),
        ({"カタカナカタ一": 3}, Unspaced("Katakana", 1.0, 7.0)),
        ({"ab": 1}, None),
    ],
)
def test_scripts_without_spaces_are_measured(words, found):
    """`unspaced` needs a tenth of the characters and six letters a word, and names the commonest
    script.
    """
    assert unspaced(WordCounts.from_pairs(words)) == found
    assert unspaced(WordCounts.from_pairs(words, pretokenizer="unicode")) is None


def test_bytes_of_words_with_spaces():
    """`text_bytes` counts "▁" as one byte, and adds a space to each word of white space
    splitting.
    """
    words = {"▁é▁": 3, "ab": 2}
    sizes = [
        text_bytes(WordCounts.from_pairs(words, pretokenizer=name))
        for name in ("metaspace", "whitespace")
    ]
    assert sizes == [3 * 4 + 2 * 2, 3 * 9 + 2 * 3]
