"""The sentences by which answers in other languages choose an option, in English words.

`gage_eval.scoring.metrics.choices` reads English and Chinese. A text that has the word for "answer" or "option" of
another language is read with its words for answer, option, correct, is and not in English.
"""

import re
from collections.abc import Mapping

# By language: an English word, and the words for it. `_` stands for a space; of several that fit the longest counts.
_LANGUAGES: Mapping[str, Mapping[str, str]] = {
    "Spanish": {
        "answer": "respuesta", "option": "opción alternativa", "correct": "correcta correcto", "but": "sino",
        "is": "es es_la es_la_opción es_la_letra sería", "is not": "no_es", "not": "no",
        "wrong": "incorrecta incorrecto",
    },
    "French": {
        "answer": "réponse", "correct": "bonne correcte exacte", "but": "mais", "is": "est est_la",
        "is not": "n'est_pas", "wrong": "fausse incorrecte mauvaise",
    },
    "German": {
        "answer": "antwort lösung", "correct": "richtige korrekte richtig korrekt", "but": "sondern",
        "is": "ist lautet wäre", "is not": "ist_nicht", "not": "nicht", "wrong": "falsch falsche",
    },
    "Portuguese": {
        "answer": "resposta a_resposta", "option": "opção alternativa letra a_opção a_alternativa a_letra",
        "but": "mas", "correct": "correta certa", "is": "é é_a", "is not": "não_é", "not": "não",
        "wrong": "errada incorreta",
    },
    "Italian": {
        "answer": "risposta", "option": "opzione", "correct": "corretta giusta esatta", "but": "ma bensì",
        "is": "è è_la", "is not": "non_è", "not": "non", "wrong": "sbagliata errata",
    },
    "Polish": {
        "answer": "odpowiedź odpowiedzią", "correct": "poprawna prawidłowa", "is": "to to_jest", "is not": "to_nie",
    },
    "Russian": {"answer": "ответ", "option": "вариант", "correct": "правильный верный", "is": "это", "is not": "не"},
    "Vietnamese": {
        "answer": "đáp_án câu_trả_lời", "option": "phương_án lựa_chọn", "correct": "đúng chính_xác", "is": "là",
        "is not": "không_phải_là không_phải",
    },
    "Indonesian": {
        "answer": "jawaban jawabannya", "option": "pilihan opsi", "correct": "yang_benar yang_tepat benar",
        "is": "adalah", "is not": "bukan", "wrong": "salah",
    },
    "Korean": {
        "answer": "정답 답", "answer is": "정답은 답은", "option": "보기 선택지", "correct": "올바른 맞는",
        "is not": "이_아닙니다 가_아닙니다 아닙니다", ".": "입니다 이다",
    },
    "Arabic": {
        "answer": "الإجابة الجواب", "option": "الخيار", "correct": "الصحيحة الصحيح", "is": "هي هو",
        "is not": "ليست ليس", "wrong": "خاطئة خاطئ",
    },
    "Hindi": {"answer": "उत्तर जवाब", "option": "विकल्प", "correct": "सही", "is not": "नहीं_है", ".": "है"},
}  # fmt: skip
# Korean puts its verb right after the letter.
_NO_LETTER = r"(?<![^\W\d_A-Z])"


def _pattern(words: Mapping[str, str], *english: str) -> re.Pattern[str]:
    """The words of a language for some English ones, the longest first."""
    several = sorted((word for name in english for word in words.get(name, "").split()), key=len, reverse=True)
    either = "|".join(re.escape(word).replace("_", r"\s") for word in several)
    return re.compile(rf"{_NO_LETTER}(?<![A-Z](?=[a-z]))(?:{either})(?![^\W\d_])", re.IGNORECASE)


_HEADS = ("answer", "answer is", "option")
_SIGNS = {name: _pattern(words, *_HEADS) for name, words in _LANGUAGES.items()}
# Most texts have none of these, and to look for them is much faster than to search for patterns.
_SEEN = sorted(
    {word.split("_")[-1] for words in _LANGUAGES.values() for head in _HEADS for word in words.get(head, "").split()}
)
_SEEN_IN_ASCII = [word for word in _SEEN if word.isascii()]
_WORDS = {name: _pattern(words, *words) for name, words in _LANGUAGES.items()}
_ENGLISH = {
    name: {word.replace("_", " "): english for english, several in words.items() for word in several.split()}
    for name, words in _LANGUAGES.items()
}


def in_english(text: str) -> str:
    """The text with the words of its language for answer, option, correct, is and not in English."""
    lowered = text.lower()
    if not any(word in lowered for word in (_SEEN_IN_ASCII if text.isascii() else _SEEN)):
        return text
    names = [name for name, sign in _SIGNS.items() if sign.search(text)]
    if not names:
        return text
    name = max(names, key=lambda name: len(_WORDS[name].findall(text)))
    english = _ENGLISH[name]
    return _WORDS[name].sub(lambda match: f" {english[' '.join(match[0].lower().split())]} ", text)
