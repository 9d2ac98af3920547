"""Secrets as people paste them are found; what only looks like one is not."""

import pytest

from tasks.providers.embedded.pii.secrets import secrets


def _part(letters: str, length: int) -> str:
    """Invented characters, made here so that no file holds what scanners take for a key."""
    return (letters * length)[:length]


SECRETS = {
    "pw: hunter22!": "hunter22!",
    "login: lena / Str0ng!pass": "lena / Str0ng!pass",
    "credentials: ops:Blue42Horse": "ops:Blue42Horse",
    "the wifi password Sommer2024x": "Sommer2024x",
    "Wi-Fi password is Kaffee-77x": "Kaffee-77x",
    "mysql -u root -pS3cretpw shop": "S3cretpw",
    "mysqldump --password=Zebra123 shop": "Zebra123",
    "sshpass -p 'Rose!42' ssh host": "Rose!42",
    "jdbc:oracle:thin:hr/welcome1@db:1521:x": "hr/welcome1",
    'psk="mynet9pass"': "mynet9pass",
    "WIFI:T:WPA;S:Home;P:blue-42;;": "blue-42",
    r"WIFI:S:Home;T:WPA;P:a\;b;H:true;;": r"a\;b",
    "Cookie: sessionid=38afes7a8b9c0d1e2f": "38afes7a8b9c0d1e2f",
    "cookie: a=b; PHPSESSID=q8d3kf02ma81nb": "q8d3kf02ma81nb",
    f"root:$6${_part('aB3', 40)}:19000:0": f"$6${_part('aB3', 40)}",
    **{
        prefix + _part("a1B2c3D4e5", length): prefix + _part("a1B2c3D4e5", length)
        for prefix, length in {"GOCSPX-": 28, "ya29.": 40, "whsec_": 32, "ntn_": 46, "figd_": 40, "sq0csp-": 43}.items()
    },
    **{
        prefix + _part("0a1b2c3d4e", length): prefix + _part("0a1b2c3d4e", length)
        for prefix, length in {"sbp_": 40, "tskey-auth-": 30, "key-": 32, "AC": 32}.items()
    },
}
HARMLESS = [
    "login: https://example.com/login", "login: required / optional", "credentials: user:password", "psk = 8",
    "wifi password please", "the wifi password is hard to guess", "mysql -u root -p shop", "mysql -p$PASS shop",
    'sshpass -p "$PW" ssh host', "jdbc:oracle:thin:scott/tiger@db", "jdbc:oracle:thin:<user>/<password>@db",
    "Cookie: name=value", "cookie: theme=dark; lang=en", "key-value", "pw: the password", "pw = sum(x)", "AC power",
    "credentials: see docs/setup.md", "login=user/password", "WIFI: slow", "whsec_", "key-xxxxxxxxxxxxxxxx",
    "basic_1d_integrand", "Basic1DLinearSolver", "bearer_token_2fa_given", "xoxb-12345-abcd234",
    f"AIza{_part('a1B2c3D4e5', 42)}", f"AKIA{_part('A1B2C3D4E5', 20)}", f"npm_{_part('a1B2c3D4e5', 40)}",
    f"xoxp-{_part('5723', 12)}-{_part('7380', 12)}-{'#' * 20}",
]  # fmt: skip


@pytest.mark.parametrize("text", SECRETS)
def test_a_plain_secret_is_found(text):
    assert SECRETS[text] in [text[span.start : span.end] for span in secrets(text)]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_a_secret_is_none(text):
    assert list(secrets(text)) == []
