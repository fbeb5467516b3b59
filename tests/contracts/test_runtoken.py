"""The run token: what is signed comes back, and nothing else is accepted; keys from a mounted folder."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import jwt
import pydantic
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from contracts.tokens import keyring, runtoken
from crds import scope
from crds.pendingtask import Mode
from crds.priority import Priority
from tests.crds.runs import run
from tests.kb import clock as clocks

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
IDENTIFIERS = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?", fullmatch=True)
OPTIONAL = IDENTIFIERS | st.just("")
SCOPES = st.tuples(IDENTIFIERS, OPTIONAL, OPTIONAL).map(
    lambda one: scope.Scope(client_id=one[0], project_id=one[1], group_id=one[2])
)
KEYS = st.binary(min_size=64, max_size=64).map(lambda raw: raw.hex().encode())
RUNS = st.builds(
    runtoken.Run,
    task_uid=st.uuids().map(str),
    namespace=st.from_regex(r"[a-z0-9-]{1,63}", fullmatch=True),
    attempt=st.integers(0, 1_000_000),
    scope=SCOPES,
    mode=st.sampled_from(Mode),
    ceiling=st.sampled_from(Priority),
)
LONGEST = "a" * 63


def ring(*keys: str) -> runtoken.Ring:
    return runtoken.ring([key.encode() for key in keys])


OLD, NEW = "old-" * 12, "new-" * 12
RING = ring(NEW)
RUN = run(attempt=2, scope=scope.Scope(client_id="acme", project_id="shop"))


def sign(signed: runtoken.Run = RUN, lifetime: timedelta = HOUR, audience: tuple[str, ...] = runtoken.AUDIENCE) -> str:
    return runtoken.Signer(lambda: RING, clocks.Clock(BEGIN)).sign(signed, lifetime, audience)


def verify(token: str, service: str = runtoken.ROUTER) -> runtoken.Claims:
    return runtoken.Verifier(lambda: RING, clocks.Clock(BEGIN), service).verify(token)


@given(RUNS, st.integers(1, 10**7), KEYS)
def test_what_is_signed_comes_back(drawn: runtoken.Run, seconds: int, key: bytes) -> None:
    keys = runtoken.ring([key])
    token = runtoken.Signer(lambda: keys, clocks.Clock(BEGIN)).sign(drawn, timedelta(seconds=seconds))
    assert runtoken.is_run_token(token)
    assert len(token) < runtoken.TOKEN_CHARS // 2
    claims = runtoken.Verifier(lambda: keys, clocks.Clock(BEGIN), runtoken.ROUTER).verify(token)
    assert runtoken.Run(**{name: getattr(claims, name) for name in runtoken.Run.model_fields}) == drawn
    assert (claims.issued_at, claims.expires_at) == (BEGIN, BEGIN + timedelta(seconds=seconds))
    assert claims.audience == runtoken.AUDIENCE


@given(RUNS, st.data())
def test_a_token_with_one_character_changed_is_refused(drawn: runtoken.Run, data: st.DataObject) -> None:
    token = sign(drawn)
    place = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters(min_codepoint=33, max_codepoint=126))
    changed = token[:place] + other + token[place + 1 :]
    # The last characters of a segment may carry bits that base64 does not use.
    assume([_bytes(part) for part in changed.split(".")] != [_bytes(part) for part in token.split(".")])
    with pytest.raises(runtoken.Refused):
        verify(changed)


@given(RUNS, RUNS)
def test_claims_of_another_token_under_a_valid_signature_are_refused(one: runtoken.Run, two: runtoken.Run) -> None:
    assume(one != two)
    head, _, signature = sign(one).split(".")
    body = sign(two).split(".")[1]
    with pytest.raises(runtoken.WrongSignature):
        verify(".".join((head, body, signature)))


@given(st.integers(1, 10**6), st.integers(-(10**6), 10**6))
def test_a_token_is_accepted_until_its_expiry_and_the_leeway(lifetime: int, after: int) -> None:
    keys, clock = ring(NEW), clocks.Clock(BEGIN)
    token = runtoken.Signer(lambda: keys, clock).sign(RUN, timedelta(seconds=lifetime))
    verifier = runtoken.Verifier(lambda: keys, clock, runtoken.ROUTER)
    verifier.verify(token)  # remembered: what follows is judged again all the same
    clock.now = BEGIN + timedelta(seconds=lifetime + after)
    if timedelta(seconds=after) < runtoken.LEEWAY:
        assert verifier.verify(token).attempt == 2
    else:
        with pytest.raises(runtoken.Expired) as refused:
            verifier.verify(token)
        assert refused.value.field == "Authorization"
        assert "new token" in (refused.value.remedy or "")


@pytest.mark.parametrize("lifetime", [timedelta(0), timedelta(milliseconds=999), -HOUR])
def test_a_token_lasts_at_least_a_second(lifetime: timedelta) -> None:
    with pytest.raises(pydantic.ValidationError, match="expires after"):
        sign(lifetime=lifetime)


def test_a_key_is_rotated_without_a_gap() -> None:
    now = {"signer": ring(OLD), "verifier": ring(OLD)}
    signer = runtoken.Signer(lambda: now["signer"], clocks.Clock(BEGIN))
    verifier = runtoken.Verifier(lambda: now["verifier"], clocks.Clock(BEGIN), runtoken.KNOWLEDGE_BASE)
    tokens = [signer.sign(RUN, HOUR)]
    # The new key is accepted before it signs, and the processes take each step at different moments.
    for signing, accepted in [
        (ring(OLD), ring(OLD, NEW)),
        (ring(OLD, NEW), ring(NEW, OLD)),
        (ring(NEW, OLD), ring(NEW, OLD)),
    ]:
        now.update(signer=signing, verifier=accepted)
        tokens.append(signer.sign(RUN, HOUR))
        assert [verifier.verify(token).task_uid for token in tokens] == ["0b7f"] * len(tokens)
    now.update(signer=ring(NEW), verifier=ring(NEW))
    assert verifier.verify(signer.sign(RUN, HOUR)).task_uid == "0b7f"
    with pytest.raises(runtoken.UnknownKey):
        verifier.verify(tokens[0])


def test_a_remembered_token_is_forgotten_with_its_key() -> None:
    now = [ring(OLD)]
    verifier = runtoken.Verifier(lambda: now[0], clocks.Clock(BEGIN), runtoken.ROUTER)
    token = runtoken.Signer(lambda: now[0], clocks.Clock(BEGIN)).sign(RUN, HOUR)
    assert verifier.verify(token) is verifier.verify(token)
    now[0] = ring(NEW)
    with pytest.raises(runtoken.UnknownKey):
        verifier.verify(token)


@pytest.mark.parametrize("algorithm", ["none", "None", "HS384", "RS256", ""])
def test_the_algorithm_is_not_read_from_the_token(algorithm: str) -> None:
    head, body, signature = sign().split(".")
    header = {**json.loads(_bytes(head) or b""), "alg": algorithm}
    for end in ("", signature):
        with pytest.raises(runtoken.Malformed):
            verify(f"{_text(header)}.{body}.{end}")


def test_a_token_without_the_media_type_is_none_of_ours() -> None:
    key_id, secret = next(iter(RING.items()))
    payload = jwt.decode(sign(), options={"verify_signature": False})
    plain = jwt.encode(payload, secret, "HS256", headers={"kid": key_id})
    assert not runtoken.is_run_token(plain)
    with pytest.raises(runtoken.Malformed):
        verify(plain)


@pytest.mark.parametrize(
    ("claim", "value"),
    [
        ("iss", "somebody"),
        ("sub", ""),
        ("sub", 7),
        ("ns", "../x"),
        ("attempt", -1),
        ("client", ""),
        ("client", "*"),
        ("project", "a b"),
        ("mode", "Urgent"),
        ("ceiling", 4),
        ("exp", "soon"),
        ("exp", 10**30),
        ("exp", float("nan")),
        ("iat", None),
        ("aud", 7),
    ],
)
def test_claims_that_cannot_be_used_are_refused_though_the_signature_is_good(claim: str, value: object) -> None:
    key_id, secret = next(iter(RING.items()))
    payload = jwt.decode(sign(), options={"verify_signature": False})
    # Not jwt.encode, which looks at some of them.
    head = _text({"alg": "HS256", "kid": key_id, "typ": runtoken.TYPE})
    body = _text({**payload, claim: value})
    signature = jwt.get_algorithm_by_name("HS256").sign(f"{head}.{body}".encode(), secret)
    token = f"{head}.{body}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"
    with pytest.raises(runtoken.Malformed):
        verify(token)


def test_a_token_for_another_service_is_refused() -> None:
    token = sign(audience=(runtoken.KNOWLEDGE_BASE,))
    assert verify(token, runtoken.KNOWLEDGE_BASE).attempt == 2
    with pytest.raises(runtoken.WrongAudience):
        verify(token)


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a",
        "..",
        "a.b.c",
        "x" * 10_000_000,
        base64.urlsafe_b64encode(b"[" * 380).decode() + ".a.b",
        base64.urlsafe_b64encode(json.dumps({"typ": runtoken.TYPE, "kid": [1]}).encode()).decode() + ".a.b",
        "é.é.é",
    ],
    ids=["empty", "a", "dots", "abc", "ten-megabytes", "deep", "kid-is-a-list", "not-ascii"],
)
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(runtoken.Refused):
        verify(token)
    assert runtoken.is_run_token(token) is ("kid" in str(_bytes(token.partition(".")[0])[:40]))


@given(st.text(max_size=300))
def test_any_text_is_refused_with_an_error_of_ours(token: str) -> None:
    with pytest.raises(runtoken.Refused) as refused:
        verify(token)
    assert len(token) < 10 or token not in refused.value.message


def test_the_longest_claims_fit() -> None:
    whole = scope.Scope(client_id=LONGEST, project_id=LONGEST, group_id=LONGEST)
    assert len(sign(run(LONGEST, 1_000_000, namespace=LONGEST, scope=whole))) < 1000


@pytest.mark.parametrize("keys", [[], [b"short"], [b"x" * 31], [b"ssh-rsa " + b"A" * 60], [b"good" * 10, b"bad"]])
def test_keys_that_are_too_weak_are_refused(keys: list[bytes]) -> None:
    with pytest.raises(runtoken.Unusable) as refused:
        runtoken.ring(keys)
    assert refused.value.field == "runToken.existingSecret"
    assert refused.value.remedy


def test_a_run_belongs_to_a_client() -> None:
    with pytest.raises(pydantic.ValidationError, match="names a client"):
        runtoken.Run(**{**RUN.model_dump(), "scope": scope.Scope(client_id="")})


def _bytes(segment: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
    except ValueError:
        return segment.encode()


def _text(part: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


class Seconds:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def publish(folder: Path, keys: Mapping[str, str], version: int) -> None:
    """As the kubelet does: a new folder, and a link to it that is exchanged."""
    data = folder / f"..{version}"
    data.mkdir(parents=True)
    for name, key in keys.items():
        (data / name).write_text(key + "\n")
    link = folder / "..next"
    link.symlink_to(data.name)
    os.replace(link, folder / "..data")
    for entry in folder.iterdir():
        if not entry.name.startswith(".") and entry.name not in keys:
            entry.unlink()
    for name in keys:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")


def ids(*keys: str) -> list[str]:
    return list(runtoken.ring([key.encode() for key in keys]))


def test_the_key_named_signing_signs_and_the_others_are_accepted(tmp_path: Path) -> None:
    publish(tmp_path, {"a-former": OLD, "signing": NEW}, 1)
    assert list(keyring.Keyring(tmp_path, Seconds())()) == ids(NEW, OLD)


def test_a_change_is_taken_within_a_second_and_not_before(tmp_path: Path) -> None:
    publish(tmp_path, {"signing": OLD}, 1)
    seconds = Seconds()
    keys = keyring.Keyring(tmp_path, seconds)
    before = keys()
    publish(tmp_path, {"signing": NEW, "former": OLD}, 2)
    seconds.now = 0.5
    assert keys() is before
    seconds.now = 1.0
    assert list(keys()) == ids(NEW, OLD)
    assert keys() is keys()
    publish(tmp_path, {"signing": NEW}, 3)
    seconds.now = 2.0
    assert list(keys()) == ids(NEW)


@pytest.mark.parametrize("wrong", [{"signing": "short"}, {"former": OLD}, {}, {"signing": NEW, "former": ""}])
def test_keys_that_became_wrong_leave_the_former_ones(tmp_path: Path, wrong: dict[str, str]) -> None:
    publish(tmp_path, {"signing": OLD}, 1)
    seconds = Seconds()
    keys = keyring.Keyring(tmp_path, seconds)
    publish(tmp_path, wrong, 2)
    seconds.now = 5.0
    assert list(keys()) == ids(OLD)
    publish(tmp_path, {"signing": NEW}, 3)
    seconds.now = 6.0
    assert list(keys()) == ids(NEW)


@pytest.mark.parametrize("wrong", [{"signing": "short"}, {"former": OLD}, {}, {"signing": "x" * 5000}])
def test_wrong_keys_at_the_start_name_field_and_remedy(tmp_path: Path, wrong: dict[str, str]) -> None:
    publish(tmp_path, wrong, 1)
    with pytest.raises(runtoken.Unusable) as refused:
        keyring.Keyring(tmp_path, Seconds())
    assert refused.value.field == "runToken.existingSecret"
    assert str(tmp_path) in refused.value.message
    assert "signing" in (refused.value.remedy or "")
    assert all(key not in refused.value.message for key in wrong.values() if key)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(runtoken.Unusable, match="nothing-here"):
        keyring.Keyring(tmp_path / "nothing-here", Seconds())
