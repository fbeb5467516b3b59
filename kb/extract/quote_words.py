"""What mail programs write before a quoted or forwarded mail, by language. Data; small letters, without punctuation.

Source: for cs, da, de, en, es, fr, it, ja, ko, nl, pl, sv and zh `mail-parser-reply` 1.36 (MIT, constants.py), and
`talon` 1.4.4 (Apache-2.0, quotations.py); the other languages are not in any library that was found.
"""

from __future__ import annotations

WROTE = {
    "cs": ("napsal", "napsala", "napsal(a)"), "da": ("skrev",), "de": ("schrieb",), "en": ("wrote",),
    "es": ("escribió",), "fi": ("kirjoitti",), "fr": ("a écrit",), "hu": ("írta",), "it": ("ha scritto",),
    "ja": ("書きました", "のメール"), "ko": ("작성", "썼습니다"), "nb": ("skrev",), "nl": ("schreef",),
    "pl": ("napisał", "napisała", "napisał(a)", "nadesłał", "pisze"), "pt": ("escreveu",), "ro": ("a scris",),
    "ru": ("написал", "написала", "пишет"), "sk": ("napísal", "napísala", "napísal(a)"), "sv": ("skrev",),
    "uk": ("пише", "написав"), "zh": ("写道", "寫道"),
}  # fmt: skip
"""The verb of a line such as `On DATE, NAME wrote:`."""
BEFORE = {
    "cs": ("dne ",), "da": ("den ", "d. "), "de": ("am ",), "en": ("on ",), "es": ("el ",), "fr": ("le ",),
    "hu": ("ekkor ",), "it": ("il ",), "nb": ("den ",), "nl": ("op ",), "pl": ("dnia ", "w dniu "),
    "pt": ("em ", "no dia "), "ro": ("pe ", "în "), "sk": ("dňa ",), "sv": ("den ",),
}  # fmt: skip
"""How such a line begins; it may begin with a name or a date as well."""
FROM = {
    "cs": "od", "da": "fra", "de": "von", "en": "from", "es": "de", "fi": "lähettäjä", "fr": "de", "hu": "feladó",
    "it": "da", "ja": "差出人", "ko": "보낸 사람", "nb": "fra", "nl": "van", "pl": "od", "pt": "de", "ru": "от",
    "sk": "od", "sv": "från", "uk": "від", "zh": "发件人",
}  # fmt: skip
"""The first label of the headers that Outlook writes before a mail that is answered."""
BESIDE = {
    "cs": ("odesláno", "datum", "komu", "kopie", "předmět"), "da": ("sendt", "dato", "til", "emne"),
    "de": ("gesendet", "datum", "an", "betreff"), "en": ("sent", "date", "to", "cc", "subject"),
    "es": ("enviado", "enviado el", "fecha", "para", "asunto"), "fi": ("lähetetty", "vastaanottaja", "aihe"),
    "fr": ("envoyé", "date", "à", "objet"), "hu": ("elküldve", "címzett", "tárgy"),
    "it": ("inviato", "data", "a", "oggetto"), "ja": ("送信日時", "日時", "宛先", "件名"),
    "ko": ("보낸 날짜", "받는 사람", "제목"), "nb": ("sendt", "til", "emne"),
    "nl": ("verzonden", "datum", "aan", "onderwerp"), "pl": ("wysłano", "data", "do", "dw", "temat"),
    "pt": ("enviado", "enviada em", "data", "para", "assunto"), "ru": ("отправлено", "дата", "кому", "тема"),
    "sk": ("odoslané", "dátum", "komu", "predmet"), "sv": ("skickat", "datum", "till", "kopia", "ämne"),
    "uk": ("надіслано", "кому", "тема"),
    "zh": ("发送时间", "日期", "收件人", "抄送", "主题"),
}  # fmt: skip
"""The labels behind it."""
ORIGINAL = frozenset({
    "original message", "original email", "original appointment", "ursprüngliche nachricht", "originalnachricht",
    "ursprüngliche e-mail", "původní zpráva", "původní e-mail", "původní email", "message d'origine",
    "message original", "mensaje original", "messaggio originale", "oorspronkelijk bericht", "wiadomość oryginalna",
    "oryginalna wiadomość", "mensagem original", "oprindelig meddelelse", "ursprungligt meddelande",
    "alkuperäinen viesti", "opprinnelig melding", "исходное сообщение", "eredeti üzenet", "pôvodná správa",
    "元のメッセージ", "原始邮件", "원본 메시지",
})  # fmt: skip
"""Between two rules, before a mail that is answered."""
FORWARDED = frozenset({
    "forwarded message", "begin forwarded message", "weitergeleitete nachricht", "weitergeleitete e-mail",
    "anfang der weitergeleiteten nachricht", "anfang der weitergeleiteten e-mail", "přeposlaná zpráva",
    "přeposlaný e-mail", "začátek přeposílané zprávy", "začátek přeposlané zprávy", "message transféré",
    "début du message réexpédié", "début du message transféré", "mensaje reenviado", "inicio del mensaje reenviado",
    "messaggio inoltrato", "inizio messaggio inoltrato", "doorgestuurd bericht", "begin doorgestuurd bericht",
    "przekazana wiadomość", "wiadomość przekazana", "mensagem encaminhada", "videresendt besked",
    "vidarebefordrat meddelande", "välitetty viesti", "videresendt melding", "пересылаемое сообщение",
    "továbbított üzenet", "preposlaná správa", "転送されたメッセージ", "转发的邮件", "전달된 메시지",
})  # fmt: skip
"""The same before a mail that is handed on."""
FORWARDING = ("fwd:", "fw:", "wg:", "wtr:", "weitergeleitet:", "přeposláno:", "fwd.:", "tr:", "rv:", "i:", "vs:", "pd:",
              "enc:", "doorst:", "továbbítás:", "转发:", "転送:")  # fmt: skip
"""How the subject of such a mail begins."""
