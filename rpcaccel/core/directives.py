"""The directives of a call: what a client asks about how its call is answered, beside the call itself.

A directive is a header, or a parameter of the URL where a client can set no header, as a browser that opens a
WebSocket. The header wins where both are given.

    X-Rpcaccel-Cache   cache   no-store: nothing kept is given, and the answer is not kept
                               refresh: nothing kept is given, and the answer is kept
                               only: no node is asked
    X-Rpcaccel-Node    node    the id or a tag of the nodes that alone may be asked; no-store holds as well
    X-Rpcaccel-Agree   agree   1 to 5: so many nodes must give the same answer to a read
    X-Rpcaccel-Prove   prove   1: what can be proved is proved before it is given

No directive weakens what the operator demands of a method. What follows from directives are other rules of the methods
and other routes of the network; everything else reads those.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal, TypeVar, get_args
from urllib.parse import unquote_plus

from msgspec import Struct
from msgspec.structs import replace

from rpcaccel.core.plan.rules import Routes, Rule
from rpcaccel.core.wire.printable import printable

_T = TypeVar("_T")
CacheDirective = Literal["no-store", "refresh", "only"]
DirectiveName = Literal["cache", "node", "agree", "prove"]
DIRECTIVE_NAMES: tuple[DirectiveName, ...] = get_args(DirectiveName)
DIRECTIVE_HEADERS = tuple(f"x-rpcaccel-{name}" for name in DIRECTIVE_NAMES)
"""The headers of the directives, in lower case."""
_MAX_SHOWN_CHARACTERS = 64
_PARAMETER = re.compile(rf"(?:^|&)({'|'.join(DIRECTIVE_NAMES)})=([^&]*)")
_CACHE: dict[str, CacheDirective] = {word: word for word in get_args(CacheDirective)}
_AGREE = {str(number): number for number in range(1, 6)}
_PROVE = {"1": True, "0": False}


class DirectiveError(ValueError):
    """A directive cannot be followed. The text is for the client: it names the header and what was expected."""


class Directives(Struct, frozen=True, kw_only=True):
    """The directives of a call, or those that an operator gave the calls of one key."""

    cache: Literal["", CacheDirective] = ""
    node: str = ""
    """The id or a tag of the nodes that alone may be asked; empty: any may be."""
    agree: int = 1
    prove: bool = False
    tag: str = ""
    """The tag of the nodes that are asked for methods without a route of their own; empty: any may be."""

    def changed(self, rule: Rule) -> Rule:
        """The rule of a method under these directives."""
        prove = rule.prove or (self.prove and bool(rule.part))
        agree = max(rule.agree, self.agree) if rule.agreeable and not prove else 1 if prove else rule.agree
        origin = "X-Rpcaccel-Prove" if prove > rule.prove else "X-Rpcaccel-Agree" if agree > rule.agree else rule.origin
        return replace(
            rule,
            fresh=self.cache in ("no-store", "refresh") or bool(self.node),
            unkept=self.cache == "no-store" or bool(self.node),
            kept_only=self.cache == "only",
            agree=agree,
            prove=prove,
            fully=rule.fully or (self.prove and bool(rule.shows)),
            origin=origin,
        )

    def routed(self, routes: Routes) -> Routes:
        """The routes of a network under these directives. What a route demands of nodes holds for a named node too."""
        return routes.among(self.node, self.tag) if self.node else routes.otherwise(self.tag)


NO_DIRECTIVES = Directives()


def read_directives(
    header: Callable[[str, list[str]], list[str]],
    query: str,
    allowed: frozenset[DirectiveName],
    own: Directives = NO_DIRECTIVES,
) -> Directives:
    """The directives of a request. Raises DirectiveError.

    Args:
        header: gives the values of a header, by its name in lower case, or the default.
        query: the query of the URL, without the question mark. Where nothing is allowed it is not read, because other
            programs may mean something else by such names.
        allowed: the directives that the client may give.
        own: those that hold for the client's calls in any case.
    """
    given = dict[str, str]()
    if query and allowed:
        for name, value in _PARAMETER.findall(query):
            given.setdefault(name, unquote_plus(value))
    for name, title in zip(DIRECTIVE_NAMES, DIRECTIVE_HEADERS, strict=True):
        if values := header(title, []):
            given[name] = ", ".join(values)
    if not given:
        return own
    for name in given:
        if name not in allowed:
            text = "is not allowed for you; the operator allows it by the setting directives of your key, or of"
            raise DirectiveError(f"X-Rpcaccel-{name.title()} {text} clients.anonymous")
    asked = Directives(
        cache=_one_of("cache", given, _CACHE) or own.cache,
        node=given.get("node", "").strip(),
        agree=_one_of("agree", given, _AGREE) or 1,
        prove=_one_of("prove", given, _PROVE) or False,
        tag=own.tag,
    )
    if given.get("cache") and asked.cache != "no-store" and asked.node:
        why = "what the nodes say that a call names is not kept, and a named node is asked"
        raise DirectiveError(f"X-Rpcaccel-Cache: {asked.cache} cannot be followed beside X-Rpcaccel-Node: {why}")
    return asked


def _one_of(name: str, given: Mapping[str, str], words: Mapping[str, _T]) -> _T | None:
    """What the value of a directive stands for; None where the directive is not given."""
    if (text := given.get(name)) is None:
        return None
    found = words.get(text.strip().lower())
    if found is None:
        shown = printable(text[:_MAX_SHOWN_CHARACTERS])
        raise DirectiveError(f"X-Rpcaccel-{name.title()}: found {shown}, expected one of {', '.join(words)}")
    return found
