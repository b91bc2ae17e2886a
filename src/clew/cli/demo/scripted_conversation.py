"""The conversation of the tour. The scripted model answers with these texts."""

from __future__ import annotations

from typing import NamedTuple


class Exchange(NamedTuple):
    prompt: str
    answer: str


class Edit(NamedTuple):
    """Before exchange `before`, the prompt of exchange `of` is changed to `text`."""

    before: int
    of: int
    text: str


EDIT = Edit(before=4, of=2, text="The cookie is fine, I checked: it lives for a day. What about the server side?")

EXCHANGES = (
    Exchange(
        "People say that our web shop logs them out after about a minute. Where would you look first?",
        """\
Three places, in the order of how often they are the culprit:

1. The session cookie. Look at its Max-Age and Expires in the browser's developer tools. A lifetime given in seconds \
where the framework expects minutes is a classic, and a minute is what 60 of the wrong unit looks like.
2. The session store. If it is Redis, `TTL session:<id>` tells how long the server will remember it. A store that is \
too small throws sessions away early: look for `evicted_keys` in `INFO stats`.
3. More than one server. When each keeps its sessions in memory, and the load balancer does not stick, every request \
that lands on the other machine is a log-out. That looks random though, not like a minute.

A minute that is always the same speaks for 1 or 2. Which browser do they use, and does it happen with a single tab?""",
    ),
    Exchange(
        "One tab is enough, in any browser. How do I look at the cookie?",
        """\
Open the developer tools (F12), then:

- Chrome and Edge: Application, Storage, Cookies, and your shop's address.
- Firefox: Storage, Cookies.
- Safari: Develop, Show Web Inspector, Storage.

Log in, find the cookie named `sid` or `session`, and read the column Expires / Max-Age. You want a time some hours \
ahead. If it says a time about one minute ahead, we have it: search the code for the place that sets it, most likely \
`max_age=60` or `SESSION_LIFETIME = 60`.

If it says Session, the cookie lives until the browser is closed, and the server is what forgets. Then the store is \
next. From a terminal the same can be seen with

    curl -i -c - https://shop.example/login -d 'user=…' | grep -i set-cookie

which prints the header as the server sends it, before any browser has had an opinion about it.""",
    ),
    Exchange(
        "It is Redis. What exactly do I type to see the TTL of a live session?",
        """\
Take the cookie's value, since it is the key, and ask for its remaining life twice, with a request in between:

    redis-cli --scan --pattern 'session:*' | head
    redis-cli TTL session:PASTE_THE_VALUE
    # now click something in the shop
    redis-cli TTL session:PASTE_THE_VALUE

Read it like this. A number near 60 that goes back up after the click: a sliding lifetime of one minute, so people \
are logged out only when they pause. A number that goes on falling: a fixed lifetime, which hits them in the middle of \
whatever they do. Minus one: it never expires, and something else is deleting it. Minus two: it is gone already, or \
the key has another prefix; `redis-cli MONITOR` for a second shows what the shop asks for.

Do not leave MONITOR running on a busy server: it halves its throughput.""",
    ),
    Exchange(
        "TTL says 58 and falls, also after a click. What do I change?",
        """\
Then the lifetime is fixed, it is one minute, and it is set on the server when the session is made. The cookie that \
lives for a day only points at something that is long gone.

Look for where the session is written, and for a number that is 60:

    grep -rnE 'setex|expire\\(|SESSION_(TTL|LIFETIME|COOKIE_AGE)' --include='*.py' .

Two changes belong together. Give it the lifetime that the cookie has, in the same unit and from the same setting, so \
that they cannot drift apart again:

    SESSION_LIFETIME = timedelta(days=1)
    redis.setex(key, SESSION_LIFETIME, payload)

and let it slide, by calling `redis.expire(key, SESSION_LIFETIME)` on every request that is let in. Then a person who \
works is never logged out, and one who left is forgotten a day later.""",
    ),
    Exchange(
        "That was it. Write me one test that would have caught it.",
        """\
    def test_a_session_outlives_the_cookie_that_points_at_it(client, redis):
        response = client.post("/login", data={"user": "ada", "password": "…"})
        cookie = parse_set_cookie(response)

        ttl_s = redis.ttl(f"session:{cookie.value}")

        assert ttl_s >= cookie.max_age_s - 5

It says the rule, not the number: whoever changes either lifetime alone makes it fail. Run it against a real Redis (a \
container in CI is enough); a fake one tends to forget about TTLs, and would have passed here as well.

A second one is worth its line, because the sliding is easy to lose in a refactoring: log in, set the TTL to 10 by \
hand, make any request, and assert that it is back above an hour.""",
    ),
)

FURTHER_EXCHANGES = (
    Exchange(
        "And how would I have seen this in production, before anybody complained?",
        """\
Count log-ins per person and hour. Nobody logs in sixty times an hour of their own free will, so the 95th percentile \
of that number is an alarm that needs no tuning. It also catches the cousins of this bug: a deploy that rotates the \
signing key, a store that evicts, a load balancer that stopped sticking.""",
    ),
    Exchange(
        "Would the same thing happen to the API tokens?",
        """\
Only if they are kept in the same store with the same helper. Signed tokens carry their own expiry, so there the \
question is what `exp` says; look at one with `cut -d. -f2 | base64 -d`. Opaque ones are rows or keys like the \
sessions, and the grep from before finds them as well.""",
    ),
)


def turn_number(exchange: int) -> int:
    """The number of an exchange's prompt among the thread's turns: each exchange is a prompt and an answer."""
    return 2 * exchange - 1


def exchanges(count: int) -> list[Exchange]:
    """The first `count` exchanges. After the last of EXCHANGES, those of FURTHER_EXCHANGES are repeated."""
    more = [FURTHER_EXCHANGES[number % len(FURTHER_EXCHANGES)] for number in range(max(0, count - len(EXCHANGES)))]
    return [*EXCHANGES, *more][:count]
