"""The base of all sections of the settings, and the sections about clients, the HTTP front, WebSockets, the log, traces
and alerts."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any, ClassVar, Literal

from msgspec.structs import replace
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StringConstraints,
    model_validator,
)
from pydantic_core import CoreSchema

from rpcaccel.config.secrets import HeaderText, NodeUrl
from rpcaccel.config.value_types import (
    NAME,
    TAG_OR_NONE,
    Duration,
    HeaderName,
    MethodPatterns,
    Number,
    Origins,
    Size,
    Whole,
    listed,
    matching,
    trace_receiver,
)
from rpcaccel.core.client_limits import ANONYMOUS, Limits
from rpcaccel.core.directives import DirectiveName, Directives
from rpcaccel.core.wire.forwarded_for import ForwardedHeader


class Section(BaseModel):
    """A part of the settings: frozen, no unknown keys, no values in error texts. The docstring beneath a field is its
    explanation (config.schema)."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=True
    )


SINCE = "x-since"
"""The member of a field's JSON Schema that names the first version with the setting."""


class Since:
    """Marks a setting that came after the first release: Annotated[Duration, Since("0.3.0")]."""

    __slots__ = ("version",)

    def __init__(self, version: str) -> None:
        self.version = version

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), SINCE: self.version}


def _range(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text, strict=False))
    except ValueError:
        raise ValueError('an address or a range such as "10.0.0.0/8"') from None


_KEY_HASH = matching(
    r"sha256:[0-9a-f]{64}", 'the hash of a key, "sha256:" and 64 hex digits, as `rpcaccel key` prints it'
)
KeyHashes = Annotated[tuple[Annotated[str, StringConstraints(to_lower=True), _KEY_HASH], ...], BeforeValidator(listed)]
DirectiveNames = Annotated[tuple[DirectiveName, ...], BeforeValidator(listed)]
AddressRanges = Annotated[tuple[Annotated[str, AfterValidator(_range)], ...], BeforeValidator(listed)]


class LimitSettings(Section):
    """The limits of a caller; 0 and empty lists limit nothing."""

    rate: Number = Field(default=0.0, ge=0, le=1e9, allow_inf_nan=False, examples=[50])
    """Calls a second; a call of a heavy method counts as heavy_cost. 0: no limit."""
    burst: Whole = Field(default=0, ge=0, le=10**9, examples=[100])
    """Calls that may come at once. 0: as many as in a second."""
    concurrency: Whole = Field(default=0, ge=0, le=1_000_000, examples=[20])
    """Requests that each worker answers at once; a batch is one. 0: no limit."""
    batch: Whole = Field(default=0, ge=0, le=100_000, examples=[100])
    """Calls in a batch; http.max_batch holds as well. 0: no limit of its own."""
    allow: MethodPatterns = Field(default=(), examples=[["eth_*", "net_version"]])
    """Only these methods may be called, names or patterns."""
    deny: MethodPatterns = Field(default=(), examples=[["eth_getLogs"]])
    """These methods may not be called, whatever is allowed."""
    directives: DirectiveNames = Field(default=(), examples=[["cache", "agree"]])
    """The directives that calls may have: cache, node, agree, prove."""

    def limits(self, heavy_cost: int) -> Limits:
        """The limits as the core reads them."""
        return Limits(
            rate=self.rate,
            burst=float(self.burst),
            heavy_cost=heavy_cost,
            concurrency=self.concurrency,
            batch=self.batch,
            allow=self.allow,
            deny=self.deny,
            directives=frozenset(self.directives),
        )


class KeySettings(LimitSettings):
    """One holder of keys."""

    hashes: KeyHashes = Field(min_length=1, examples=[[f"sha256:{'0' * 64}"]])  # of no key
    """The hashes of the holder's keys, as `rpcaccel key` prints them."""
    enabled: bool = True
    """If false, the holder's keys are turned away."""
    cache: Literal["", "off"] = Field(default="", examples=["off"])
    """"off": nothing kept answers the holder's calls, and their answers are not kept."""
    tag: str = Field(default="", pattern=TAG_OR_NONE, examples=["archive"])
    """The holder's calls go to nodes with this tag, except methods that a route names. If empty, to all nodes."""

    def limits(self, heavy_cost: int) -> Limits:
        """The limits as the core reads them."""
        standing = Directives(cache="no-store" if self.cache == "off" else "", tag=self.tag)
        return replace(super().limits(heavy_cost), standing=standing)


class ClientsSettings(Section):
    """Clients: API keys, limits, and proxies in front."""

    require_key: bool = Field(default=False, examples=[False])
    """If true, callers without a key are refused."""
    keys: dict[Annotated[str, Field(pattern=NAME)], KeySettings] = Field(default={})
    """The holders of API keys, by the name that metrics and the page show."""
    anonymous: LimitSettings = LimitSettings()
    """Limits of each address that calls without a key (IPv6: of each /64)."""
    heavy_cost: Whole = Field(default=10, ge=1, le=10_000)
    """A call of a heavy method counts as this many calls."""
    trusted_proxies: AddressRanges = Field(default=(), examples=[["10.0.0.0/8"]])
    """Addresses, or ranges, of proxies in front, which are believed about who calls."""
    forwarded_header: ForwardedHeader = "x-forwarded-for"
    """The header in which trusted proxies name the caller. No other one is read."""

    @model_validator(mode="after")
    def _fits_together(self) -> ClientsSettings:
        hashes = [text for key in self.keys.values() for text in key.hashes]
        if len(set(hashes)) < len(hashes):
            raise ValueError("a different key for every holder in keys")
        if ANONYMOUS in self.keys:
            raise ValueError(f"another name than {ANONYMOUS} in keys: it stands for callers without one")
        if self.require_key and not self.keys:
            raise ValueError("at least one holder in keys when require_key is true")
        return self


class LogSettings(Section):
    """The log, on stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The log has the lines of this level and above."""
    format: Literal["console", "json"] = "console"
    """"console" is for people, "json" an object a line."""
    access: bool = False
    """If true, each call writes a line at level info."""
    access_share: Number = Field(default=1.0, gt=0, le=1)
    """Share of the requests whose calls write such a line at level info; slow calls do in any case."""
    slow: Duration = Field(default=0.0, le=3600, examples=["2s"])
    """A call that takes this long writes a line that says why. 0 means never."""


class ErrorsSettings(Section):
    """The log of errors on the page, and the share of failed calls from which something should be done."""

    params: bool = True
    """If true, samples of failed calls show up to 2 kB of their params."""
    warn: Number = Field(default=0.05, gt=0, le=1)
    """Share of a network's calls that failed within a minute, from which there is a warning."""
    bad: Number = Field(default=0.2, gt=0, le=1)
    """Share of failed calls from which the warning is red. At least errors.warn."""

    @model_validator(mode="after")
    def _in_order(self) -> ErrorsSettings:
        if self.bad < self.warn:
            raise ValueError(f"a bad of no less than warn, {self.warn:g}: what is bad is worth a warning as well")
        return self


class TracingSettings(Section):
    """OpenTelemetry traces, sent by OTLP over HTTP; they need the extra: pip install "rpcaccel[otel]"."""

    endpoint: Annotated[str, AfterValidator(trace_receiver)] = Field(default="", examples=["http://127.0.0.1:4318"])
    """Traces are sent to this address, at /v1/traces if it has no path. If empty, there are none."""
    sample: Number = Field(default=0.01, ge=0, le=1)
    """Share of the requests that are traced, where a client does not say."""
    service: str = Field(default="rpcaccel", pattern=r"^[!-~]{1,100}$")
    """The service.name of the spans."""


MIB = 1 << 20


class WebSocketSettings(Section):
    """WebSockets of clients: calls and subscriptions."""

    enabled: bool = True
    """If false, clients cannot open WebSockets."""
    connections: Whole = Field(default=20_000, ge=1, le=1_000_000)
    """Open WebSockets of each worker. Further ones get 503."""
    per_client: Whole = Field(default=1000, ge=1, le=1_000_000)
    """WebSockets of one key or address at each worker. Further ones get 429."""
    subscriptions: Whole = Field(default=200, ge=1, le=100_000)
    """Subscriptions of one WebSocket. Further ones get an error."""
    at_once: Whole = Field(default=100, ge=1, le=100_000)
    """Calls of one WebSocket answered at once. Further ones wait unread."""
    queue: Size = Field(default=4 * MIB, ge=64 * 1024)
    """A client that leaves more bytes unread is told so and closed (1013)."""
    ping: Duration = Field(default=30.0, gt=0, le=3600)
    """A client that is silent for this long is sent a ping."""
    idle: Duration = Field(default=3600.0, gt=0, le=86_400)
    """A WebSocket without subscription and call for this long is closed."""
    replay: Whole = Field(default=10_000, ge=0, le=1_000_000)
    """Past blocks that a subscription may ask to be sent again."""


class HttpSettings(Section):
    """The HTTP front: limits and what answers say about themselves."""

    max_body: Size = Field(default=5 * MIB, gt=0, le=1 << 30)
    """Bytes of the body of a request, also after it is unpacked (gzip)."""
    max_batch: Whole = Field(default=1000, ge=1, le=100_000)
    """Calls in a batch."""
    max_batch_answer: Size = Field(default=25_000_000, gt=0)
    """Bytes of the answer to a batch. Calls whose answers find no room get an error."""
    max_in_flight: Whole = Field(default=4096, ge=1, le=1_000_000)
    """Calls that a worker serves at once. Further ones get 503."""
    max_header: Size = Field(default=16 * 1024, ge=1024, le=MIB)
    """Bytes of the header of a request."""
    read_timeout: Duration = Field(default=30.0, gt=0, le=3600)
    """A client may take this long for the head of a request, and as long for its body."""
    write_timeout: Duration = Field(default=30.0, gt=0, le=3600)
    """A client must take 64 KiB of its answer within this time."""
    max_unsent: Size = Field(default=256 * MIB, ge=MIB)
    """Bytes of answers that slow clients may leave waiting, for each worker. The largest does not count."""
    batch_at_once: Whole = Field(default=64, ge=1, le=10_000)
    """Calls of one batch that wait for nodes at the same time."""
    keepalive: Duration = Field(default=75.0, le=86400)
    """An idle connection of a client is kept for this long."""
    gzip_from: Size = 1024
    """Answers of this many bytes or more are compressed for clients that accept gzip."""
    cors_origins: Origins = ("*",)
    """Web pages of these origins may call: "*" every origin, an empty list none."""
    headers: Literal["all", "cache", "none"] = "all"
    """Headers of answers about nodes and cache: "all", "cache" (X-Rpcaccel-Cache alone) or "none"."""
    websocket: WebSocketSettings = WebSocketSettings()
    """WebSockets of clients."""
    deny: MethodPatterns = Field(default=(), examples=[["debug_*"]])
    """Methods that are refused for everybody, names or patterns ("debug_*")."""
    expose: MethodPatterns = Field(default=(), examples=[["evm_mine"]])
    """Methods for a node's operator that clients may call all the same, names or patterns."""


MAX_WEBHOOKS = 10
_PAGE = 'the address of the page, such as "https://rpc.example:8889/", without user, password and query'


class WebhookUrl(NodeUrl):
    """A webhook's address; shown as scheme://host:port, since its path and query often are its key."""

    __slots__ = ()


def _page(text: str) -> str:
    if not text:
        return ""
    if any(mark in text for mark in "@?") or len(text) > 1000:
        raise ValueError(_PAGE)
    try:
        checked = WebhookUrl(text).reveal()
    except ValueError:
        raise ValueError(_PAGE) from None
    return checked if checked.endswith("/") else f"{checked}/"


def _repeat(seconds: float) -> float:
    if 0 < seconds < 60:
        raise ValueError("at least 60 seconds, or 0 for never")
    return seconds


def _host(text: str) -> str:
    if len(text) > 100 or not (text.isascii() and text.isprintable()):
        raise ValueError("a name of up to 100 printable ASCII characters")
    return text


Networks = Annotated[tuple[Annotated[str, Field(pattern=NAME)], ...], BeforeValidator(listed)]


class WebhookSettings(Section):
    """One receiver of alerts."""

    url: WebhookUrl = Field(examples=["https://hooks.example/services/${OPS_WEBHOOK:-T000/B000/KEY}"])
    """Alerts are posted to this address, which is shown without its path."""
    format: Literal["json", "slack"] = "json"
    """"json" is described in docs/monitoring.md; "slack" is what Slack, Mattermost and Discord's /slack take."""
    least: Literal["warn", "bad"] = "warn"
    """"warn" tells everything, "bad" only what is red on the page."""
    networks: Networks = Field(default=(), max_length=1000, examples=[["harmony-s0"]])
    """Alerts about these networks are told, and those about none. If empty, all."""
    headers: dict[HeaderName, HeaderText] = Field(
        default={}, max_length=20, examples=[{"Authorization": "Bearer ${OPS_TOKEN:-no-token}"}]
    )
    """Headers that are sent with each message. Their values are never shown."""
    repeat: Annotated[Duration, AfterValidator(_repeat)] = Field(default=14_400.0, le=2_592_000)
    """A lasting alert is told again after this long, 60 s at least. 0 means never."""
    resolved: bool = True
    """If true, the end of an alert is told as well."""
    timeout: Duration = Field(default=10.0, ge=0.1, le=60)
    """One try may take this long."""


class AlertsSettings(Section):
    """Alerts: what needs attention on the page, posted to webhooks."""

    after: Duration = Field(default=30.0, le=86_400)
    """Something is told once it has needed attention for this long, and its end when it has been over as long."""
    page: Annotated[str, AfterValidator(_page)] = Field(default="", examples=["https://rpc.example/"])
    """The address under which people open the page. If empty, messages have no links."""
    host: Annotated[str, AfterValidator(_host)] = Field(default="", examples=["edge-1"])
    """The name of this host in messages. If empty, the machine's own."""
    webhooks: dict[Annotated[str, Field(pattern=NAME)], WebhookSettings] = Field(default={}, max_length=MAX_WEBHOOKS)
    """The receivers of alerts, by name; 10 at the most."""
