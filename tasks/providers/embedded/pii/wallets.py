"""Addresses of wallets: by their checksum, or behind a word for wallets where the standard library can compute none.

In: a text in its plain form. Out: `CHECKED` and `SAID`, patterns, and the certainty of a match of each. Most currencies
have Base58Check or Bech32 (BIP 173, 350); Ethereum, Solana and Monero have not. A further form is a term of a pattern.
"""

import hashlib
import re

import stdnum.bitcoin

from tasks.providers.embedded.pii.numbers import CERTAIN, LIKELY

_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_OF_RIPPLE = str.maketrans("rpshnaf39wBUDNEGHJKLM4PQRST7VWXYZ2bcdeCg65jkm8oFqi1tuvAxyz", _BASE58)
"""Ripple's order of the same signs."""
_BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_BECH32_SUMS = (1, 0x2BC830A3)
"""Checksums of a whole address: of BIP 173, and of BIP 350."""
CHECKED = (
    rf"(?<![\w/=+-])(?:[{_BASE58}]{{25,36}}"
    rf"|[a-z]{{2,12}}1[{_BECH32}]{{38,110}}|[A-Z]{{2,12}}1[{_BECH32.upper()}]{{38,110}})(?![\w/=+-])"
)
SAID = rf"(?<![\w/=+-])(?:0x[0-9a-fA-F]{{40}}|[48][0-9AB][{_BASE58}]{{93}}|[{_BASE58}]{{43,44}})(?![\w/=+-])"
_WORD = re.compile(
    r"(?<![^\W_])(?:wallets?|ethereum|ether|eth|metamask|erc-?20|usd[tc]|bnb|polygon|solana|sol|phantom|monero|xmr"
    r"|crypto\w*|coins?|tips?|donat\w*|send|pay|deposit|withdraw\w*|my address|cartera|billetera|monedero|portefeuille"
    r"|portafoglio|carteira|portfel|geldbörse|cüzdan|кошел[её]?к\w*|гаман\w*)(?![^\W_])"
    r"|钱包|錢包|ウォレット|지갑|محفظة|वॉलेट",
    re.I,
)
_NOBODYS = re.compile(r"(?<![^\W_])(?:contract|token|transaction|tx|hash|block|pool|router|factory)(?![^\W_])", re.I)
"""Things of a block chain that are no person's wallet."""
WALLET_WORD_CHARACTERS = 60
"""How far before a wallet without a checksum the word for it may stand."""


def checked_wallet(match: re.Match[str]) -> float | None:
    """Certainty of a match of `CHECKED`; None if no checksum agrees."""
    text = match.group()
    agrees = _base58_agrees(text) or (text[0] == "r" and _base58_agrees(text.translate(_OF_RIPPLE)))
    return CERTAIN if agrees or _bech32_agrees(text.lower()) else None


def said_wallet(match: re.Match[str]) -> float | None:
    """LIKELY for a match of `SAID` behind a word for wallets; None for contracts and transactions."""
    before = match.string[max(0, match.start() - WALLET_WORD_CHARACTERS) : match.start()]
    if len(set(match.group().lower())) < 8 or not _WORD.search(before) or _NOBODYS.search(before):
        return None
    if match.group()[:2] != "0x" and len(match.group()) < 50:
        return LIKELY if len(stdnum.bitcoin.b58decode(match.group())) == 32 else None
    return LIKELY


def _base58_agrees(text: str) -> bool:
    """Whether the last four bytes are the start of the hash of the hash of the others."""
    if not set(text) <= set(_BASE58):
        return False
    number = stdnum.bitcoin.b58decode(text)
    return len(number) in (25, 26) and hashlib.sha256(hashlib.sha256(number[:-4]).digest()).digest()[:4] == number[-4:]


def _bech32_agrees(text: str) -> bool:
    name, _, data = text.rpartition("1")
    if not name or not set(data) <= set(_BECH32):
        return False
    codes = [ord(sign) >> 5 for sign in name] + [0] + [ord(sign) & 31 for sign in name]
    return stdnum.bitcoin.bech32_checksum(codes + [_BECH32.index(sign) for sign in data]) in _BECH32_SUMS
