"""Verbs that begin an order, by language: data alone. Pure."""

from __future__ import annotations

# Verbs that order something to be done. Those that are nouns as well, such as "test", count at the beginning of a
# sentence and behind "please" alone.
ORDERS = {
    "en": (
        "fix repair send create write add delete remove push commit deploy merge close assign schedule invite "
        "implement refactor prepare reply forward remember remind calculate compute install upload generate rename "
        "move correct summarise summarize translate update review run test build release change order book pay "
        "plan draft answer make set find list compare check document design migrate rewrite comment open"
    ),
    "de": (
        "korrigiere repariere sende schicke schick erstelle erzeuge schreibe schreib lösche entferne füge ändere "
        "aktualisiere schließe plane lade implementiere antworte beantworte berechne prüfe teste erinnere merke fasse "
        "übersetze baue mache mach lege bereite vergleiche entwirf entwerfe entwickle konzipiere migriere verschiebe"
    ),
    "cs": (
        "oprav opravte pošli pošlete napiš napište vytvoř vytvořte založ založte přidej přidejte smaž smažte odstraň "
        "změň změňte uprav upravte zavři přiřaď naplánuj pozvi připrav připravte odpověz spočítej spočítejte zapamatuj "
        "připomeň přelož shrň shrňte nasaď otestuj zkontroluj porovnej navrhni navrhněte udělej udělejte aktualizuj "
        "migruj migrujte přesuň přesuňte vymysli"
    ),
    "sk": (
        "oprav pošli napíš vytvor založ pridaj zmaž odstráň zmeň uprav naplánuj pozvi priprav odpovedz spočítaj "
        "navrhni migruj presuň vymysli"
    ),
}  # fmt: skip
VERBS = {language: frozenset(forms.split()) for language, forms in ORDERS.items()}
"""By language what begins an order, whatever is ordered."""
