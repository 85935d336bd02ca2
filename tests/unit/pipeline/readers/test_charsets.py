"""Old charsets, by the characters that people write with."""

import pytest

from knowledge.pipeline.readers.charsets import likeliest
from knowledge.pipeline.readers.decoding import decode, looks_like_text

TEXTS = {
    "russian": "Широкая электрификация южных губерний даст мощный толчок подъёму сельского хозяйства.",
    "bulgarian": "Ах чудна българска земьо, полюшвай цъфтящи жита. Правителството прие новия бюджет за следващата година.",
    "polish": "Zażółć gęślą jaźń. Pchnąć w tę łódź jeża lub ośm skrzyń fig. Stróż pchnął kość w quiz gędźb.",
    "czech": "Příliš žluťoučký kůň úpěl ďábelské ódy. Nechť již hříšné saxofony rozezvučí síň úděsnými tóny waltzu.",
    "hungarian": "Árvíztűrő tükörfúrógép. A magyar nyelv szép, és sokan beszélik a világon.",
    "turkish": "Pijamalı hasta yağız şoföre çabucak güvendi. Öküz ajan hapse düştü yavrum, ocağı felç gibi.",
    "lithuanian": "Įlinkdama fechtuotojo špaga sublykčiojusi pragręžė apvalų arbūzą. Žmonės gyvena šiaurėje.",
    "french": "Voix ambiguë d'un cœur qui, au zéphyr, préfère les jattes de kiwis. Où êtes-vous né, près du château?",
    "german": "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. Falsches Üben quält jeden Zwerg.",
    "chinese": "我能吞下玻璃而不伤身体。中国制造业的发展速度令人惊讶，许多企业开始走向世界市场。",
    "taiwanese": "我能吞下玻璃而不傷身體。台北市中山區民生東路的營造公司每年都會舉辦員工旅遊活動。",
    "japanese": "いろはにほへと ちりぬるを。私はガラスを食べられます。それは私を傷つけません。",
    "korean": "나는 유리를 먹을 수 있어요. 그래도 아프지 않아요. 북조선(朝鮮) 사람들은 흔히",
}
CHARSETS = {
    "russian": ["koi8_r", "cp1251", "cp866", "iso8859_5", "mac_cyrillic"],
    "bulgarian": ["cp1251", "iso8859_5"],
    "polish": ["cp1250", "iso8859_2"],
    "czech": ["cp1250", "iso8859_2"],
    "hungarian": ["cp1250", "iso8859_2"],
    "turkish": ["cp1254", "iso8859_9"],
    "lithuanian": ["cp1257"],
    "french": ["cp1252", "iso8859_15", "mac_roman", "cp850"],
    "german": ["cp1252", "cp850", "mac_roman"],
    "chinese": ["gb18030", "gb2312", "hz"],
    "taiwanese": ["big5"],
    "japanese": ["euc_jp", "shift_jis", "iso2022_jp"],
    "korean": ["euc_kr", "iso2022_kr"],
}


@pytest.mark.parametrize(("language", "charset"), [(name, one) for name, found in CHARSETS.items() for one in found])
def test_short_texts_are_read_as_they_were_written(language, charset):
    """One or two sentences are enough, also behind plain ASCII."""
    text = TEXTS[language]
    if charset == "mac_roman" or language == "french":
        text = text.replace("œ", "œ" if charset in ("cp1252", "iso8859_15", "mac_roman") else "oe")
    for written in (text, "Some words in ASCII stand before it, and they say nothing.\n" * 3 + text):
        data = written.encode(charset)

        assert written == decode(data).text
        assert looks_like_text(data)


@pytest.mark.parametrize("text", ["Ângulo e Âmbar", "Évora é bonita", "naïve café", "5 °C ± 2 µm"])
def test_a_few_accents_are_not_chinese(text):
    """Capitals with an accent stand where other charsets have their first bytes."""
    assert text == decode(text.encode("cp1252")).text


def test_character_cut_at_the_end_does_not_matter():
    """A sample ends anywhere."""
    assert "gb18030" == likeliest(TEXTS["chinese"].encode("gb18030")[:-1])
    assert "cp932" == likeliest(TEXTS["japanese"].encode("cp932")[:-1])


@pytest.mark.parametrize("data", [b"", b"plain", bytes(range(128, 256)), "שלום עולם".encode("cp1255")])
def test_what_cannot_be_told_is_left_to_others(data):
    """No guess is better than a wrong one."""
    assert likeliest(data) is None
