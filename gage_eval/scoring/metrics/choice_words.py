"""The words by which answers speak of options, in English and Chinese, each with its kind.

A kind is one character. `gage_eval.scoring.metrics.choice_statements` writes sentences as patterns over kinds:

    L  chooses what follows: answer, choose, 答案            V  the same, whatever stands before: 的是
    X  rejects what follows: rather than, 而不是             Y  rejects what follows or precedes: eliminated, 排除
    N  negates: not, isn't, 不是                             Z  none, nothing
    R  right, of what precedes: correct, best                r  the same in Chinese, which needs no verb
    W  wrong                                                 x  the same in Chinese
    Q  is, was; C  other verbs: are, seems, 是                v  fits, works
    K  option, choice, 选项                                  D  statement, one
    H  may, perhaps, 可能; h  good, possible                 F  fillers: most, the, 应该; d  a, an
    I  if, whether, 如果                                     T  between, either, 在
    E  all, every, 其他                                      B  but, 而是
    S  so, therefore, 所以                                   P  it, that, which
    c  because, since, as, 因为                              u  of, in, by; 2  to
    |  or, 或    &  and, 和    f  other words that may precede an option: think, 我    w  any other word

Of signs, ``n`` is a line end (``nn`` with an empty line), ``/`` a slash or ``&``, ``=`` an equals sign, ``s`` another
sign of formulas, and ``. , ? :`` are themselves.
"""

BOX = "\uf8f0"
"""Stands where a LaTeX box began."""

# Of phrases and Chinese words the first that fits counts. Phrases come before words.
_WORDS: dict[str, str] = {
    "L": "answer ans solution choose chose chosen choosing select selected selecting pick picked picking verdict guess "
    "say conclusion conclude",
    "X": "except excepting besides unlike eliminate eliminates eliminating exclude excludes excluding discard "
    "discarding dismiss reject rejecting avoid avoiding",
    "Y": "eliminated excluded discarded dismissed rejected",
    "N": "not never cannot neither isn't wasn't aren't weren't can't couldn't won't wouldn't shouldn't mustn't doesn't "
    "don't didn't hasn't",
    "W": "wrong incorrect false invalid inaccurate untrue impossible implausible unlikely inappropriate mistaken "
    "mistake irrelevant tempting out",
    "R": "correct best better right accurate appropriate suitable valid",
    "K": "option options choice choices answers alternative alternatives letter letters response responses candidate",
    "D": "statement statements one sentence description claim proposition",
    "Q": "is was",
    "d": "a an",
    "C": "does do did are were be been being would should must will has have seem seems appear appears look looks "
    "sounds",
    "v": "fit fits match matches work works suit suits apply applies hold holds",
    "H": "may might could possibly perhaps maybe",
    "h": "plausible possible good reasonable attractive",
    "F": "most likely probably definitely clearly then indeed actually still simply just surely certainly obviously "
    "clear obvious enough information really exactly only also both completely entirely totally very quite always the "
    "my our your final single can more necessarily namely personally ever ultimately finally instead",
    "I": "if suppose supposing assume assuming whether unless",
    "T": "between among either",
    "E": "all every everything everyone each any anything others rest",
    "Z": "none nothing",
    "B": "but however",
    "S": "so thus hence therefore consequently",
    "P": "it that this which these they",
    "c": "because since as for while although though whereas given due",
    "2": "to",
    "|": "or nor",
    "&": "and",
    "u": "of at in on by with from about",
    "f": "yes no ok okay think thought believe feel agree mean want sure certain i we you than gives yields get prefer "
    "consider considered first go leaves leaving remains left",
}
_PHRASES: dict[str, str] = {
    "F": "none other than|not only|if [Ii] had to|if [Ii] have to|if [Ii] were to|if [Ii] must|if forced to|in fact"
    "|no doubt",
    "X": "other than|apart from|aside from|rather than|instead of|except for|rule out|rules out|ruling out|cross out"
    "|crossing out",
    "Y": "ruled out|crossed out",
    "Z": "no other option|no other choice|no option|no choice|no other answer|no answer|no one",
    "L": "go with|go for|going with|going for|went with|went for|opt for|opting for|opted for|lean to|lean toward"
    "|lean towards|leaning to|leaning toward|leaning towards|settle on|settled on|vote for|would say|will say|'d say"
    "|'ll say|conclude that",
    "w": "right of|right hand|right side|right after|right before|right now|right here|right there|right next"
    "|right above|right below|right to|right about|right angle|right angled|right triangle|out of",
    "v": "make sense|makes sense",
    "N": "nor is|nor are|nor was|nor would|nor can",
}
_CHINESE: tuple[tuple[str, str], ...] = (
    ("V", "的(?:选项|说法|一项|一个|那项)?(?:应该|应当|应)?是(?![否不])"),
    ("X", "而不是|而非|除了|除去"),
    ("Y", "排除掉?"),
    ("I", "如果|假如|假设|倘若|要是|若|是否"),
    (
        "x",
        "错误(?:的(?!(?:选项|说法|一项|一个|那项)?(?:应该|应当|应)?是))?|错(?!过)|不对|不正确|不符合?|不合适|不恰当|不准确|不成立|不合理|有误",
    ),
    ("r", r"正确(?!与否)|对(?=\s*(?:[,.;:!?)。\n]|的|$|了|因|所))|合适|恰当|符合(?:题意)?|准确|最佳|最好|更好"),
    ("N", "并不是|并非|不应该?选?|不能选?|不会选?|不可能是?|不要选|不选|不是|没有选|没选|别选"),
    ("N", "非(?=[A-Z(])|不(?![过同仅但如管论知])"),
    ("L", "答案|答え|正解|应该?选|选择(?!题)|選(?!択肢)|选(?![项择取修出自])"),
    ("K", "选?项|選択肢"),
    ("C", "是|为|為|は"),
    ("H", "可能|也许|大概|或许"),
    ("F", "最|只有|仅有?|只|应该|应当|应|该|就|才|只能|必须|当然|显然|肯定|一定|都|均|也|全|完全|明显|可以|可|被"),
    ("F", "说法|的|了|本题"),
    ("T", r"在(?=\s*[A-Z])"),
    ("E", "其[他它余]|别的"),
    ("B", "而是|但是?"),
    ("S", "所以|因此|故|因而|综上"),
    ("c", "因为|因|由于|而"),
    ("|", "或者?|还是"),
    ("&", "和|与|及|以及"),
    ("f", "我们?|认为|觉得|则"),
    ("?", r"吗|么(?=\s*[?。])"),
    (".", "[吧呢啊]"),
)
_SIGNS: tuple[tuple[str, str], ...] = (
    ("L", f"<answer>|{BOX}"),
    ("n", r"\n\s*"),
    (".", r",\s*right\s*\?|[.…]+(?=\s|$|[^\w\s])|[;!。]"),
    ("?", r"\?"),
    (":", r"[:→>]\s*|-(?=\s)"),
    (",", "[,、]"),
    ("/", "[/&]"),
    ("=", "="),
    ("C", r"'(?:d|ll|re)\b"),
    ("Q", r"'s\b"),
    ("s", r"\.|[+*\\^_%#@|~°$]"),
)
KIND_OF_WORD = {word: kind for kind, words in _WORDS.items() for word in words.split()}
"""The kind of each English word in lower case."""


def _either_case(phrase: str) -> str:
    first = phrase[0]
    return f"[{first.upper()}{first}]{phrase[1:]}" if first.isalpha() else phrase


_FIRST_WORDS = sorted({phrase.split()[0] for words in _PHRASES.values() for phrase in words.split("|")})
PLAIN_WORD = rf"(?!(?:{'|'.join(_FIRST_WORDS)})\b)[a-z]{{2,}}(?![A-Za-z'.-])"
"""A word in lower case that begins no phrase."""
KINDS: tuple[tuple[str, str], ...] = (
    *((kind, rf"(?:{'|'.join(map(_either_case, phrases.split('|')))})\b") for kind, phrases in _PHRASES.items()),
    ("word", r"[A-Za-z]+n't|[A-Za-z]{2,}(?:[.-][A-Za-z]+)*"),
    *_SIGNS,
    *((kind, f"(?=[\u3040-\u9fff])(?:{words})") for kind, words in _CHINESE),
    ("word", "[A-Za-z]"),
    ("w", r"\d[\d.,]*\d|[^\W_]"),
)
"""(kind, pattern) in the order in which they are tried; ``word`` is looked up in `KIND_OF_WORD`.

The first word of a phrase begins in either case; words are of any case.
"""
