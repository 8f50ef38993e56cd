"""CPython's own answer to "what is the canonical form and the key of this text?".

Reads one text a line, its bytes in hex. Answers each with one line: `ok <canonical, in hex> <key>` or
`refused <why>`. It refuses what has no canonical form that is strict JSON again: names that come twice,
NaN and infinities (also those that a number like 1e400 turns into), and half surrogate pairs.
"""

import hashlib
import json
import math
import sys


def unique(pairs):
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("duplicate name")
    return members


def finite(text):
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("beyond a float")
    return number


def no_constant(word):
    raise ValueError(word)


def answer(raw):
    try:
        job = json.loads(
            raw.decode("utf-8"), object_pairs_hook=unique, parse_float=finite, parse_constant=no_constant
        )
        # The seed's own two lines; encoding refuses half surrogate pairs.
        canonical = json.dumps(job, sort_keys=True, ensure_ascii=False).encode("utf-8")
        key = hashlib.sha256(canonical).hexdigest()[:32]
    except ValueError as error:
        return "refused " + ascii(str(error))
    return f"ok {canonical.hex()} {key}"


def main():
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
    for line in sys.stdin:
        print(answer(bytes.fromhex(line)), flush=True)


main()
