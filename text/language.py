"""The language of a text as ISO 639-1, so that a person is answered in their own. Pure, and without a model.

Where a script belongs to one language, the script says it. Among languages of one script the words of grammar decide,
each by how few languages have it, and the letters: one that a language does not have speaks against it. A text that
says too little has no language, and the caller's default holds. No library does this well enough to depend on it: see
decision 0135.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping

DEFAULT = "en"
_READ = 20_000
"""Characters of a text that are looked at."""
_LEAST = 0.5
"""Least score of a language: one word that two languages have, or two that four have."""
_NEAR = 0.85
"""Of languages whose scores are nearer than this to the best one, the first of its table is meant: it has the most
speakers among those that are near to it."""
_LATIN_PART = 3
"""A letter of another script counts as much as so many Latin ones."""
_FOREIGN = 0.6
"""What a word with a letter that a language does not have takes from its score."""

# Text that says nothing about the language of its writer: code, addresses, quoted lines, names in upper case.
ADDRESS = r"(?<![\w.%+-])[A-Za-z0-9._%+-]++@[A-Za-z0-9.-]++"
"""In letters of ASCII, as a text without blanks goes on behind it; `++` is possessive: a word is scanned once."""
_ASIDE = re.compile(
    rf"```.*?(?:```|\Z)|`[^`\n]*`|https?://[!-~]+|(?a:{ADDRESS})|^[ \t]*>.*$|^[A-Za-z-]{{2,20}}:(?= )",
    re.DOTALL | re.MULTILINE,
)
_WORD = re.compile(r"[^\W\d_]+")

# Scripts with one language each, by the first word of their characters' names.
_SCRIPTS = {
    "HANGUL": "ko", "HIRAGANA": "ja", "KATAKANA": "ja", "CJK": "zh", "THAI": "th", "GREEK": "el", "HEBREW": "he",
    "ARMENIAN": "hy", "GEORGIAN": "ka", "DEVANAGARI": "hi", "BENGALI": "bn", "TAMIL": "ta", "TELUGU": "te",
    "GUJARATI": "gu", "KANNADA": "kn", "MALAYALAM": "ml", "GURMUKHI": "pa", "SINHALA": "si", "KHMER": "km", "LAO": "lo",
    "MYANMAR": "my", "ETHIOPIC": "am", "TIBETAN": "bo",
}  # fmt: skip

# Of each language its words of grammar and its letters beside a to z, or those of its script beside the common ones.
_LATIN = {
    "en": ("the and of to is in that it for with you this are was on have be not what when which who how please "
           "can will would should from there their has does do we my your did where why whom whose our they she "
           "he her his been than if or at by an as about were before after whether i me us", ""),
    "de": ("der die das und ist nicht ein eine einen einem einer zu den mit von für auf im des dem wir sie ich "
           "es wann wer was wie bitte kann wird auch noch haben hat hatte sich bei nach aus welche welches "
           "welcher welchem welchen wo warum wen wem wessen unter über an am zum zur vor war sind oder aber wenn "
           "ob uns unser ihr er dass mehr", "äöüß"),
    "fr": ("le la les et est de des un une du que qui pour dans pas sur nous vous il elle ce cette avec quand "
           "quel quelle quels quelles au aux sont je ne par plus merci ont comment où pourquoi était a été ou "
           "mais si notre votre leur son sa ses", "àâæçéèêëîïôœùûüÿ"),
    "es": ("el la los las y es de que en un una por para con no se del al lo cuándo cómo qué quién quiénes cuál "
           "dónde está son su sus más pero este esta como tiene nosotros gracias hay cuando fue era o si nuestro "
           "ha han le", "áéíñóúü"),
    "it": ("il lo la gli le e è di che un una uno per con non si del della dei delle quando come chi sono questo "
           "questa al alla nel nella più ma ho ha hanno abbiamo grazie cosa dove perché quale quali era stato o "
           "se nostro suo", "àèéìíîòóùú"),
    "pt": ("o a os as e é de que um uma por para com não se do da dos das em no na nos nas quando como quem qual "
           "quais onde porque são seu sua mais mas este esta tem obrigado você foi era ou nosso ao à pelo pela",
           "àáâãçéêíóôõúü"),
    "nl": ("de het een en is van niet dat in op te voor met zijn wij we u ik aan er wanneer wie wat hoe waar "
           "waarom welke welk kan wordt ook nog hebben heeft had bij naar uit deze graag was of maar als ons "
           "onze door over", "éëïóöü"),
    "cs": ("a je na se v ve že do s k ke z ze o to jak kdy kdo koho komu kým co čeho čemu čem čím nebo ale pro "
           "jsem jsme jste jsou bude budou byl byla bylo byly být který která které kterého kterému kterém "
           "kterou kterým kterých není prosím jaké jaký jaká si už také jen by při od kde proč kolik odkud kam "
           "máme má mají před po za nám náš naše jeho jejich však tak i ten ta tu jestli aby děkuji",
           "áčďéěíňóřšťúůýž"),
    "sk": ("a je na sa v vo že do s so k ku z zo o to ako kedy kto koho komu kým čo čoho čomu čom čím alebo ale "
           "pre som sme ste sú bude budú bol bola bolo boli byť ktorý ktorá ktoré ktorého ktorému ktorom ktorou "
           "nie prosím aké aký aká si už tiež len by pri od kde prečo koľko odkiaľ kam máme má majú pred po za "
           "nám náš naše jeho ich však tak i ten tá či aby ďakujem", "áäčďéíĺľňóôŕšťúýž"),
    "pl": ("i jest na się w we że do z ze o to jak kiedy kto kogo komu kim co czego czemu czym lub ale dla są "
           "będzie był była było być który która które którego której nie proszę jaki jaka jakie już także tylko "
           "od przez czy po jestem gdzie dlaczego ile skąd mamy ma mają przed za nasz nasze jego ich tak ten ta "
           "żeby dziękuję", "ąćęłńóśźż"),
    "da": ("og er det en et at til ikke på med for af den der jeg vi hvornår hvem hvad hvordan hvor hvorfor kan "
           "skal har fra som også eller være blev hvilken tak var men om os vores efter", "æøåé"),
    "no": ("og er det en et å til ikke på med for av den der jeg vi når hvem hva hvordan hvor hvorfor kan skal "
           "har fra som også eller være ble hvilken takk var men om oss vår etter", "æøåéòô"),
    "sv": ("och är det en ett att till inte på med för av den där jag vi när vem vad hur var varför kan ska har "
           "från som också eller vara blev vilken tack men om oss vår efter hade", "åäöé"),
    "fi": ("ja on ei se että oli en hän kun mitä kuka milloin miten missä miksi tai mutta ovat voi olla tämä "
           "myös niin joka sen meillä kiitos onko mikä kenen mistä jos", "äöå"),
    "hu": ("a az és hogy nem is van egy meg ez mikor ki mit hogyan hol miért vagy de lesz lehet csak még már ha "
           "volt kérem melyik milyen nincs kinek", "áéíóöőúüű"),
    "ro": ("și este în nu de la cu pe un o să că din pentru mai sunt care când cine ce cum unde sau dar va fi au "
           "am mulțumesc vă această acest era", "ăâîșțşţ"),
    "hr": ("i je u na se da su za od s ne što kako kada tko gdje zašto ili ali bi će koji koja koje nije to po "
           "iz smo hvala molim sam kad bio", "čćđšž"),
    "sl": ("in je v na se da so za od s ne kaj kako kdaj kdo kje zakaj ali pa bi bo ki ni to po iz smo hvala "
           "prosim sem tudi lahko kateri bil", "čšž"),
    "tr": ("ve bir bu için ile de da ne zaman kim nasıl nerede neden değil var mı mi olarak daha çok ama gibi "
           "kadar olan lütfen hangi şu ben biz", "çğıöşüâî"),
    "lt": ("ir yra ne kad su į iš už kas kaip kada kur kodėl bet ar bus tai jis ji mes prašome kuris kuri dėl "
           "nuo po jau", "ąčęėįšųūž"),
    "lv": ("un ir ne ka ar no uz par kas kā kad kur kāpēc bet vai būs tas viņš mēs lūdzu kurš kura dēļ pēc jau "
           "arī", "āčēģīķļņšūž"),
    "et": ("ja on ei see et kui mis kes millal kuidas kus miks või aga olid oli ma me palun milline selle ka "
           "veel juba", "äõöüšž"),
    "ca": ("el la els les i és de que en un una per amb no es del al quan com qui què on són aquest aquesta més "
           "però té gràcies hi ha", "àçèéíïòóúü"),
    "id": ("yang dan di ini itu dengan untuk tidak dari pada adalah kapan siapa apa bagaimana mana mengapa akan "
           "bisa sudah atau saya kami ada tolong ke", ""),
    "vi": ("và là của không có được cho một các trong với này khi ai gì như thế nào đâu đã sẽ người tôi chúng",
           "àáâãèéêìíòóôõùúýăđĩũơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ"),
}  # fmt: skip
_CYRILLIC = {
    "ru": ("и в во не на что с со это как но когда кто кого кому кем чем чём для от ко по из или будет есть "
           "который которая которое которому которого которой какой какая какое какому каком каким мы вы он она "
           "они так же у о об за пожалуйста нет где куда откуда почему сколько насколько можно ли был была было "
           "были наш наша при до если уже", "ёыэщъ"),
    "uk": ("і й в у не на що з із зі це як але коли хто кого кому ким чим для від до по або буде є який яка яке "
           "якому якого якій ми ви він вона вони так же о про за будь ласка та де куди звідки чому скільки чи "
           "був була було були наш наша при якщо вже", "іїєґщ"),
    "be": ("і ў не на што з гэта як але калі хто каго для ад па або будзе ёсць які якая мы вы ён яна дзе чаму",
           "іўёыэ"),
    "bg": ("и в във не на че с със това как но кога кой кого за от до по из или ще е са който която ние вие той "
           "тя да моля се къде защо колко беше нашия", "щъ"),
    "sr": ("и у не на да с са то како али када ко кога за од до по из или ће је који која ми ви он она су се "
           "молим где зашто колико био", "јљњћђџ"),
    "mk": ("и во не на дека со тоа како но кога кој за од до по или ќе е ние вие тој таа се да каде зошто колку "
           "беше", "јљњќѓѕџ"),
}  # fmt: skip
_ARABIC = {
    "ar": ("في من على إلى هذا هذه التي الذي متى كيف ماذا أن لا ما هل مع كان", "ةىإأ"),
    "fa": ("در از به که این است را با برای چه کی چگونه می آن و نیست", "پچژگکی"),
    "ur": ("میں کے کی ہے کا سے اور یہ کب کون کیا نہیں کو پر", "ٹڈڑںےہ"),
}  # fmt: skip
_FAMILIES = {"LATIN": _LATIN, "CYRILLIC": _CYRILLIC, "ARABIC": _ARABIC}


def detect(text: str) -> str | None:
    """The language of most of a text; None if it says too little."""
    words = [word.lower() for word in _WORD.findall(_ASIDE.sub(" ", text[:_READ]))]
    scripts = Counter(_script(letter) for word in words for letter in word)
    # Japanese is written in Chinese characters with kana between them.
    if scripts["HIRAGANA"] + scripts["KATAKANA"]:
        scripts["HIRAGANA"] += scripts.pop("CJK", 0)
    if not scripts:
        return None
    # Names and terms stand in Latin letters in texts of every script.
    scripts["LATIN"] //= _LATIN_PART
    script = scripts.most_common(1)[0][0]
    if script not in _FAMILIES:
        return _SCRIPTS.get(script)
    scores = _scores(words, script)
    best = max(scores.values())
    if best < _LEAST:
        # In another script it is at least none of the languages of Latin letters.
        return None if script == "LATIN" else next(iter(scores))
    return next(name for name, score in scores.items() if score >= best * _NEAR)


def of(texts: Iterable[str], default: str = DEFAULT) -> str:
    """That of the first text that has one: what a person said last comes first."""
    return next(filter(None, map(detect, texts)), default)


def _scores(words: Iterable[str], script: str) -> Mapping[str, float]:
    family = _FAMILIES[script]
    weights, letters = _weights(script), _letters(script)
    found = dict.fromkeys(family, 0.0)
    for word in words:
        for language, weight in weights.get(word, {}).items():
            found[language] += weight
        special = {letter for letter in word if letter in letters}
        for letter in special:
            having = letters[letter]
            for language in family:
                found[language] += 0.5 / len(having) if language in having else -_FOREIGN
    return found


@functools.cache
def _weights(script: str) -> Mapping[str, Mapping[str, float]]:
    """Word -> language -> what it says for it. A word without its marks counts a little less: many write so."""
    family = _FAMILIES[script]
    listed: dict[str, dict[str, float]] = {}
    for language, (words, _) in family.items():
        for word in words.split():
            listed.setdefault(word, {})[language] = 1.0
    for language, (words, _) in family.items():
        for word in words.split():
            listed.setdefault(_bare(word), {}).setdefault(language, 0.7)
    return {word: {name: weight / len(had) for name, weight in had.items()} for word, had in listed.items()}


@functools.cache
def _letters(script: str) -> Mapping[str, frozenset[str]]:
    """Letter that not all languages of the script have -> those that have it."""
    having: dict[str, set[str]] = {}
    for language, (_, letters) in _FAMILIES[script].items():
        for letter in letters:
            having.setdefault(letter, set()).add(language)
    return {letter: frozenset(languages) for letter, languages in having.items()}


@functools.lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


def _bare(word: str) -> str:
    return "".join(letter for letter in unicodedata.normalize("NFD", word) if not unicodedata.combining(letter))
