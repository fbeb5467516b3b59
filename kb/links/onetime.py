"""Links that are never opened: what a GET of them would answer, change, spend or give away. Data and one function.

A link is such a one by its host (click counters, meetings), by words of its path, by a parameter, or because little
else than a token is left of it. Words that ordinary pages are called by, too (`confirm`, `invite`), count together with
a sign of a single use alone: a parameter, or a segment that looks like a token. Pages about such links
(`docs/unsubscribe`) and the names of articles are ordinary. Words are compared without case, diacritics and
percent-encoding. Source: seed 000 "Link Handling Flow".
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

_Words = Mapping[str, frozenset[str]]


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _words(**named: str) -> _Words:
    return {reason: _set(words) for reason, words in named.items()}


# Alone enough. Czech and German without their diacritics; "-", "_" and "." are one and left out.
_ALWAYS = _words(
    unsubscribe="unsubscribe unsub unsubscribeme oneclickunsubscribe listunsubscribe emailunsubscribe optout "
    "odhlasit odhlaseni odhlasitodber zrusitodber zrusitodbernovinek odhlasitnewsletter odhlasitse "
    "abmelden abmeldung abbestellen abbestellung newsletterabmelden newsletterabbestellen newsletterabmeldung "
    "zruseniodberu zruseninewsletteru emailpreferences subscriptionpreferences managepreferences emailsettings "
    "notificationsettings disableemail withdrawconsent updateprofile autosignoff unwatch profilecenter",
    confirmation="confirmemail emailconfirm emailconfirmation confirmsubscription confirmaccount confirmregistration "
    "confirmverification "
    "verifyemail emailverify emailverification verifyaccount accountverification activateaccount accountactivation "
    "doubleoptin potvrditemail potvrzeniemailu potvrditregistraci potvrzeniregistrace overitemail overeniemailu "
    "aktivovatucet aktivaceuctu emailbestaetigen bestaetigungslink emailverifizieren kontoaktivieren "
    "kontobestaetigen registrierungbestaetigen anmeldungbestaetigen",
    credentials="resetpassword passwordreset passwordresets setpassword newpassword forgotpassword forgottenpassword "
    "changepassword recoverpassword passwordrecovery accountrecovery obnovitheslo obnovahesla resethesla "
    "zapomenuteheslo zmenahesla passwortzuruecksetzen passwortzurucksetzen passwortreset passwortvergessen "
    "kennwortzuruecksetzen kennwortzurucksetzen",
    login="magiclink magiclogin magicsignin emaillogin loginlink loginbytoken tokenlogin passwordless onetimelogin "
    "logout signout logoff ssologin",
    invitation="acceptinvite acceptinvitation acceptinvitations invitationaccept inviteaccept joinworkspace jointeam "
    "sharedinvite declineinvite declineinvitation "
    "prijmoutpozvanku einladungannehmen",
    calendar="rsvp rsvps cancellations reschedulings meetupjoin",
    approval="emailstart signdocument requestaccess",
    tracking="linktracker linktracking e3t trackclick clicktrack clicktracking emailclick openpixel "
    "trackingpixel emailopen trackopen",
)
# Enough together with a sign of a single use.
_WITH_SIGN = _words(
    unsubscribe="odvolat subscription subscriptions preferences prefs newsletter odber odbery abo removeme "
    "leave stop disable mute signoff",
    confirmation="confirm confirmation confirmations confirmed verify verification verifications validate activate "
    "activation activations optin potvrdit potvrzeni overit overeni aktivace aktivovat bestaetigen bestatigen "
    "bestaetigung bestatigung verifizieren aktivieren aktivierung freischalten register registration "
    "registrace registrovat registrierung registrieren abschliessen dokoncit",
    credentials="password passwords recover recovery reset heslo hesla passwort kennwort credential",
    login="login signin signon auth authenticate sso otp token magic unlock prihlaseni prihlasit anmelden "
    "anmeldung einloggen callback",
    invitation="redeem invite invites invitation invitations join accept decline pozvanka pozvanky pozvani prijmout "
    "einladung einladungen annehmen ablehnen",
    calendar="respond response attend attending attendance participate reply ucast ucasti zucastnit odmitnout "
    "teilnehmen zusagen absagen "
    "cancel reschedule zrusit stornieren storno stornovat booking reservation rezervace buchung termin absage",
    approval="approve approval approvals rate satisfaction silence snooze trigger reject rejection deny vote "
    "poll delete destroy remove sign signing "
    "survey feedback score rating nps questionnaire umfrage bewertung bewerten dotaznik hodnoceni ohodnotit anketa "
    "zaplatit platba bezahlen zahlung freigabe freigeben decide "
    "build schvalit schvaleni zamitnout "
    "smazat genehmigen loeschen loschen acknowledge ack resolve revoke close pay payment checkout",
    oauth="authorize authorise oauth oauth2 consent grant saml saml2 openid",
    tracking="click clicks trk redirect redir pixel beacon wf ls cl0",
)
# A parameter of that name is enough, whatever its value.
_PARAMETERS = _words(
    unsubscribe="unsubscribe unsub unsubscribetoken optout unsubscribekey unsubscribeid odhlasit abmelden nek",
    confirmation="confirmationtoken confirmationcode confirmationkey confirmtoken verificationtoken verificationcode "
    "verifytoken activationkey activationcode activationtoken activationhash oobcode confirmemail",
    credentials="resetpasswordtoken passwordresettoken passwordresetkey resettoken resetkey resetcode",
    login="magictoken logintoken magiclink autologin authtoken signintoken loginkey loginticket",
    invitation="invitationtoken invitetoken invitecode invitationcode inviteid invitationid",
    calendar="rsvp attending partstat rsvpstatus",
    oauth="samlrequest samlresponse relaystate responsetype",
)
# What such a parameter says is done.
_ACTIONS = _set("action do cmd task mode op type event a act method option view page")
_VERBS = _words(
    unsubscribe="unsubscribe unsub optout abmelden odhlasit",
    confirmation="confirm verify activate doubleoptin",
    credentials="resetpassword resetpass rp lostpassword recoveremail",
    calendar="respond rsvp accept decline tentative",
    approval="approve reject delete remove deny",
    login="logout signin magiclink",
)
_ANSWERS = _set("yes no maybe accepted declined tentative ano ne ja nein")
# A parameter of that name, or of a name that ends so, belongs to one person.
_CREDENTIALS = _set("otp jwt pwd passwd password wpnonce secret sessionid phpsessid jsessionid tokenhash")
_NO_CREDENTIAL = _set("pagetoken nextpagetoken nexttoken continuationtoken synctoken csrftoken")
_ACTING = ("confirm", "verif", "activat", "reset", "unsub", "invit", "optin", "saml")
_KEYS = ("key", "code", "token", "hash", "id", "sig", "art", "request", "response")
_BEGINNINGS = ("unsub", "odhlas", "abmeld", "abbestell", "optout")
# Names of parameters that are a sign of a single use anywhere, and those that are one outside of pages about it.
_SECRETS = _set(
    "token tok kod klic schluessel pin key hash sig signature code otp nonce ticket jwt secret checksum hmac auth "
    "email mail"
)
_TOKENS = _SECRETS | _set(
    "t m h e u uid user userid id eid rid mid cid lid c s d p k state clientid recipient subscriber contact contactid "
    "itemid messageid requestid memberid customerid md data payload url u1 target dest destination to link"
)
# Domains, with those below them.
_HOSTS = _set(
    "list-manage.com list-manage1.com mandrillapp.com sendgrid.net sendgrid.com awstrack.me hubspotlinks.com "
    "hubspotemail.net sidekickopen.com mailtrack.io mailgun.org mailjet.com mjt.lu sparkpostmail.com "
    "exacttarget.com pardot.com mktoresp.com eloqua.com en25.com rs6.net createsend.com cmail19.com cmail20.com "
    "klclick.com klclick1.com klaviyomail.com customeriomail.com intercom-clicks.com doubleclick.net "
    "google-analytics.com bnc.lt app.link ct.sendgrid.net ecomailapp.cz smartemailing.cz sendinblue.com "
    "sibautomation.com cleverreach.com rapidmail.de newsletter2go.com inxmail.com emlbest.com getresponse.com "
    "safelinks.protection.outlook.com urldefense.com urldefense.proofpoint.com linkprotect.cudasvc.com "
    "clicktime.symantec.com protect-eu.mimecast.com protect-us.mimecast.com t.yesware.com post.spmailtechno.com "
    "exct.net acemlnc.com emailsys1a.net emailsys2a.net optimove.net iterable.com braze.com"
)
_MEETINGS = _set(
    "zoom.us meet.google.com teams.microsoft.com teams.live.com webex.com gotomeeting.com whereby.com meet.jit.si"
)
_SIGNING = _set("docusign.net docusign.com hellosign.com echosign.com adobesign.com signnow.com")
# First labels of hosts that mailing services give to their click counters.
_COUNTERS = _set("click clicks clk track tracking trk tracker links-email elink elinks emlink pixel ctrk")
# Those that count only with something like a token behind them.
_MAILERS = _set(
    "email mail em e r t cl link links lnk go url news newsletter newsletters mailing mailings mailer mg nl notify "
    "info view ablink ea ofr offers spm sib sh lt mkt marketing campaign ev nps pay survey"
)
# Where pages are about such links. Without a sign of a single use they are read.
_ABOUT = _set(
    "docs doc documentation wiki blog blogs article articles help kb guide guides reference manual handbook learn "
    "tutorial tutorials questions question blob tree raw src source faq support news post posts topic topics spec "
    "specs rfc rfcs pages api napoveda navod hilfe anleitung dokumentation dokumentace clanek clanky artikel"
)
# Of a host of code: its hashes are no tokens.
_CODE = _set("commit commits blob tree raw blame compare pull pulls mergerequests issues releases")
_ARTICLE = 5
"""Words of a segment from which it is the name of an article; one less without a sign of a single use."""
_SHORT = 3
"""Letters of a directory that says nothing, as click counters have them."""
# Parameters of ordinary pages.
_NEUTRAL = _set(
    "lang locale hl language page q query sort utmsource utmmedium utmcampaign utmcontent utmterm ref v version"
)
# What a parameter of that name does when it is switched on.
_SWITCHES = _set("cancel delete confirm accept approve decline reject remove pay subscribe mute ack acknowledge close")
_ON = _set("true yes now ano ja on")
_MAILBOX = re.compile(r"[^@\s/]+@[^@\s/]+\.[a-z]{2,}", re.I)
_EXTENSION = re.compile(r"\.(?:html?|php\d?|aspx?|jsp|cgi|do|action|pl|cfm|gif|png)$")
_LABELS = re.compile(
    r"(?:click (?:here )?to |klicken sie (?:hier,? )?(?:um )?|kliknete[mn]? (?:zde )?)?"
    r"(?:unsubscribe|opt[ -]?out|odhlasit(?: se)?(?: z)?(?: odber\w*| newsletter\w*)?|zrusit odber|"
    r"(?:newsletter )?(?:abmelden|abbestellen)|confirm (?:your |my )?(?:e-?mail|account|subscription|registration|"
    r"attendance)|verify (?:your |my )?(?:e-?mail|account|identity)|activate (?:your |my )?account|"
    r"reset (?:your |my )?password|potvrdit(?: svuj)? (?:e-?mail|registraci|ucet|ucast)|overit e-?mail|"
    r"obnovit heslo|passwort zurucksetzen|e-?mail bestatigen|konto (?:bestatigen|aktivieren)|"
    r"accept (?:the |this )?invit\w+|join (?:the |your )?(?:team|workspace)|sign in (?:now|with one click)|"
    r"log ?in (?:now|with one click)|approve|reject|decline|rsvp|"
    r"(?:manage|update|change|edit) (?:your |my |e-?mail |notification |subscription )*preferences|"
    r"(?:set|choose|create) (?:a |your )?new password|nastavit nove heslo|neues passwort (?:festlegen|setzen|wahlen)|"
    r"(?:jetzt |e-?mail-?adresse |anmeldung |registrierung |teilnahme )+bestatigen|potvrdit (?:e-?mailovou )?adresu|"
    r"prijmout pozvan\w+|einladung annehmen|accept invitation|termin (?:absagen|verschieben|bestatigen)|"
    r"cancel (?:your |my |the )(?:appointment|booking|order|reservation|subscription)|"
    r"zrusit (?:objednavku|rezervaci|termin)|"
    r"(?:yes|no),? i (?:will|can|can.?t|cannot|won.?t) attend|(?:ano|ne),? (?:ne)?zucastnim se|"
    r"ich nehme (?:nicht )?teil|"
    r"rate (?:your|our|this|the) \w+|pay now|jetzt bezahlen)"
    r"(?: (?:here|zde|hier|now))?"
)  # fmt: skip
# Of a button alone: in the text before a link these ask its reader for something else.
_BUTTON = re.compile(
    r"\W{0,3}(?:schvalit|zamitnout|odmitnout|genehmigen|freigeben|ablehnen|zusagen|absagen|zaplatit|bezahlen|ohodnotit|"
    r"bewerten|bestatigen|potvrdit|abmelden|odhlasit(?: se)?|zucastnim se)(?:\W|$)"
)
_BEFORE_LABEL = re.compile(rf"(?:^|[^\w])(?:{_LABELS.pattern})\W{{0,5}}$")
_LABEL = re.compile(rf"\W{{0,3}}(?:{_LABELS.pattern})(?:\W|$)")


def reason(url: str, before: str = "", after: str = "") -> str:
    """Why a normalised URL is never opened, one of the names above; "" for an ordinary page.

    `before` and `after` are what stands around it: a link that says "Unsubscribe" is one, whatever its URL.
    """
    return _of_url(url, depth=3) or _of_label(before, after)


def _of_url(url: str, *, depth: int) -> str:
    parts = urlsplit(url)
    labels = (parts.hostname or "").split(".")
    for table, found in ((_HOSTS, "tracking"), (_MEETINGS, "meeting"), (_SIGNING, "approval")):
        if not table.isdisjoint(".".join(labels[start:]) for start in range(len(labels) - 1)):
            return found
    named = [(_fold(name), value) for name, value in parse_qsl(parts.query, keep_blank_values=True)]
    if len(labels) > 2 and labels[0] in _COUNTERS and (named or len(parts.path) > 1):
        return "tracking"
    for name, value in named:
        if found := _of_parameter(name, value) or (_within(value, depth) if depth else ""):
            return found
    # A word may be a parameter without a value: /mail?unsubscribe
    if not named and (found := _first(_PARAMETERS, [_fold(parts.query)])):
        return found
    segments = [_EXTENSION.sub("", one) for one in _decoded(parts.path).split("/") if one]
    whole = [_fold(one) for one in segments]
    code = not _CODE.isdisjoint(whole)
    tokens = (not code and any(map(_random, segments))) or any(_random(value) for _, value in named)
    if parts.path.casefold().endswith((".gif", ".png")) and named:
        return "tracking"  # a picture that knows who looks at it
    opaque = tokens or (not code and any(map(_opaque, segments))) or any(_opaque(value) for _, value in named)
    if opaque and len(labels) > 2 and not _MAILERS.isdisjoint(labels[:-2]):
        return "tracking"
    if any(name in _SWITCHES and _fold(value) in _ON for name, value in named):
        return "approval"
    if any(_MAILBOX.fullmatch(_decoded(value)) for _, value in named):
        return "login"  # it is one person's
    if _bare(segments, named):
        return "tracking"
    secret = tokens or any(name in _SECRETS or name.endswith(tuple(_SECRETS - {"tok", "mail"})) for name, _ in named)
    # A verb and a number, as in /confirm/12, is one as well.
    numbered = any(two.isdigit() and _first(_WITH_SIGN, [one]) and not code for one, two in itertools.pairwise(whole))
    # A page that is called by such a word alone, with a parameter that ordinary pages do not have.
    asked = any(name not in _NEUTRAL for name, _ in named) and any(
        _first(_WITH_SIGN, [_fold(one)]) for one in segments if not _titled(one)
    )
    linked = any(_decoded(value).casefold().startswith(("http://", "https://")) for _, value in named)
    single = secret or numbered or linked or asked or any(name in _TOKENS for name, _ in named)
    about = not _ABOUT.isdisjoint(whole[:-1]) or not _ABOUT.isdisjoint(labels[:-1])
    if about and not single:
        return ""
    article = _ARTICLE if single else _ARTICLE - 1
    strong = {one for segment in segments for one in _parts(segment, article)} | {
        a + b for a, b in itertools.pairwise(whole)
    }
    if found := _first(_ALWAYS, strong):
        return found
    if any(one.startswith(_BEGINNINGS) for one in strong):
        return "unsubscribe"
    if not single and opaque and not about:
        # Beside a token that may as well name a page, a title (`/TOKEN/fix-the-login`) is no sign.
        return _first(_WITH_SIGN, {_fold(one) for one in segments if not _titled(one)})
    if not single or (about and not secret):
        return ""
    return _first(_WITH_SIGN, {one for segment in segments if not _random(segment) for one in _parts(segment)})


def _of_parameter(name: str, value: str) -> str:
    if found := _first(_PARAMETERS, [name]):
        return found
    if name.startswith(_ACTING) and name.endswith(_KEYS):
        return "confirmation"
    if name in _CREDENTIALS or (name.endswith("token") and name not in _NO_CREDENTIAL):
        return "login"
    if name == "response" and _fold(value) in _ANSWERS:
        return "calendar"
    said = _parts(value) if name in _ACTIONS else frozenset()
    return _first(_VERBS, said) or _first(_ALWAYS, said)


def _within(value: str, depth: int) -> str:
    """Of the link that a parameter holds."""
    inner = _decoded(value)
    if not inner.casefold().startswith(("http://", "https://")):
        return ""
    try:
        return _of_url(inner, depth=depth - 1)
    except ValueError:
        return "tracking"  # it is no URL that we could judge


def _titled(segment: str) -> bool:
    return segment[:1].isupper() and segment[1:].islower()


def _bare(segments: list[str], named: list[tuple[str, str]]) -> bool:
    """Whether little else than a token is left of a URL: short directories, and a token as its end or parameter."""
    *places, last = segments or [""]
    named = [(name, value) for name, value in named if name not in _NEUTRAL]
    if any(len(one) > _SHORT for one in places):
        return False
    if places and _opaque(last) and len(last) >= 12 and not named:
        return True
    if len(last) > _SHORT:
        return False
    return any(_opaque(value) and len(value) >= 12 for _, value in named) or (
        len([name for name, _ in named if name in _TOKENS]) > 1 and any(_opaque(value) for _, value in named)
    )


def _parts(segment: str, article: int = _ARTICLE) -> frozenset[str]:
    """A segment as one word, its words, and two or three of them as one; of the name of an article nothing."""
    if len(re.findall(r"[a-z0-9]+", _plain(segment))) >= article:
        return frozenset()
    found = {_fold(segment)}
    for text in (segment, re.sub(r"(?<=[a-z])(?=[A-Z])", " ", segment)):
        words = re.findall(r"[a-z0-9]+", _plain(text))
        if len(words) < article:
            found.update("".join(words[start:end]) for start in range(len(words)) for end in range(start, start + 4))
    return frozenset(found)


def _of_label(before: str, after: str) -> str:
    near = _plain(before[-80:]), _plain(after[:60])
    labelled = _BEFORE_LABEL.search(near[0]) or _LABEL.match(near[1]) or _BUTTON.match(near[1])
    return "label" if labelled else ""


def _first(table: _Words, words: Iterable[str]) -> str:
    given = frozenset(words)
    return next((reason for reason, known in table.items() if not known.isdisjoint(given)), "")


def _decoded(text: str) -> str:
    """Without percent-encoding, also where it was encoded more than once."""
    for _ in range(4):
        plain = unquote(text)
        if plain == text:
            break
        text = plain
    return text


def _plain(text: str) -> str:
    """Lower case without diacritics, and one blank for several."""
    decomposed = unicodedata.normalize("NFKD", _decoded(text).casefold())
    return " ".join("".join(one for one in decomposed if not unicodedata.combining(one)).split())


def _fold(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", _plain(text))


def _random(text: str) -> bool:
    """Whether it looks made by a machine: long, of digits and letters in turn, or signed."""
    bare = re.sub(r"[^A-Za-z0-9]", "", text)
    if text.count(".") == 2 and text.startswith("eyJ"):
        return True  # a JSON Web Token
    if re.fullmatch(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|[0-9a-fA-F]{24,}", text):
        return True
    if len(bare) < 12 or " " in text:
        return False
    changes = sum(one.isdigit() != two.isdigit() for one, two in itertools.pairwise(bare))
    cases = sum(one.islower() and two.isupper() for one, two in itertools.pairwise(bare))
    words = [one for one in re.split(r"[^A-Za-z0-9]+", text) if one]
    longest = max((len(one) for one in words), default=0)
    return longest >= 12 and (changes >= 4 or (changes >= 1 and cases >= 2) or (cases >= 3 and changes >= 1))


def _opaque(text: str) -> bool:
    """Whether it is no word and no number: digits among letters, or letters of both cases in turn. Shorter ones than
    `_random` finds: a sign where something else shows that the link acts, and nothing alone."""
    text = text.partition(",")[0].rstrip("=~")
    if not re.fullmatch(r"(?:[A-Za-z0-9]|[-_.~+/](?=[A-Za-z0-9]))+", text) or len(text) < 8:
        return False
    pairs = list(itertools.pairwise(re.sub(r"[^A-Za-z0-9]", "", text)))
    changes = sum(one.isdigit() != two.isdigit() for one, two in pairs)
    cases = sum(one.islower() and two.isupper() for one, two in pairs)
    pieces = re.split(r"[^A-Za-z0-9]", text)
    if max(map(len, pieces)) < 8 or any(len(one) > 3 and one.isalpha() and one.islower() for one in pieces):
        return False
    return (changes >= 3 and changes * 6 >= len(pairs)) or cases * 5 >= len(pairs) or (cases >= 2 and changes >= 1)
