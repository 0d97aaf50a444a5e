"""The base of all sections of the settings, and the sections about clients, the HTTP front, WebSockets, the log and
traces."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic_core import CoreSchema

from rpcaccel.config.value_types import (
    NAME,
    Duration,
    MethodPatterns,
    Number,
    Origins,
    Size,
    Whole,
    listed,
    trace_receiver,
)
from rpcaccel.core.client_limits import ANONYMOUS, Limits


class Section(BaseModel):
    """A part of the settings: frozen, no unknown keys, no values in error texts."""

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


_HASH = re.compile(r"sha256:[0-9a-f]{64}")


def _hash(text: str) -> str:
    if not _HASH.fullmatch(text.lower()):
        raise ValueError('the hash of a key, "sha256:" and 64 hex digits, as `rpcaccel key` prints it')
    return text.lower()


def _range(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text, strict=False))
    except ValueError:
        raise ValueError('an address or a range such as "10.0.0.0/8"') from None


KeyHashes = Annotated[tuple[Annotated[str, AfterValidator(_hash)], ...], BeforeValidator(listed)]
AddressRanges = Annotated[tuple[Annotated[str, AfterValidator(_range)], ...], BeforeValidator(listed)]


class LimitSettings(Section):
    """The limits of a caller; 0 and empty lists limit nothing."""

    rate: Number = Field(
        default=0.0,
        ge=0,
        le=1e9,
        allow_inf_nan=False,
        description="Calls a second; a call of a heavy method counts as heavy_cost.",
        examples=[50],
    )
    burst: Whole = Field(
        default=0,
        ge=0,
        le=10**9,
        description="Calls that may come at once. 0: as many as in a second.",
        examples=[100],
    )
    concurrency: Whole = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Requests that each worker answers at once. A batch is one.",
        examples=[20],
    )
    batch: Whole = Field(
        default=0,
        ge=0,
        le=100_000,
        description="Calls in a batch; http.max_batch holds as well.",
        examples=[100],
    )
    allow: MethodPatterns = Field(
        default=(),
        description="Only these methods may be called, names or patterns.",
        examples=[["eth_*", "net_version"]],
    )
    deny: MethodPatterns = Field(
        default=(), description="These methods may not be called, whatever is allowed.", examples=[["eth_getLogs"]]
    )

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
        )


class KeySettings(LimitSettings):
    """One holder of keys."""

    hashes: KeyHashes = Field(
        min_length=1,
        description="The hashes of the holder's keys, as `rpcaccel key` prints them.",
        examples=[[f"sha256:{'0' * 64}"]],  # of no key
    )
    enabled: bool = Field(default=True, description="If false, the holder's keys are turned away.")


class ClientsSettings(Section):
    """Clients: API keys, limits, and proxies in front."""

    require_key: bool = Field(
        default=False, description="If true, callers without a key are refused.", examples=[False]
    )
    keys: dict[Annotated[str, Field(pattern=NAME)], KeySettings] = Field(
        default={}, description="The holders of API keys, by the name that metrics and the page show."
    )
    anonymous: LimitSettings = Field(
        default=LimitSettings(), description="Limits of each address that calls without a key (IPv6: of each /64)."
    )
    heavy_cost: Whole = Field(
        default=10, ge=1, le=10_000, description="A call of a heavy method counts as this many calls."
    )
    trusted_proxies: AddressRanges = Field(
        default=(),
        description="Addresses, or ranges, of proxies in front, which are believed about who calls.",
        examples=[["10.0.0.0/8"]],
    )
    forwarded_header: Literal["x-forwarded-for", "forwarded"] = Field(
        default="x-forwarded-for",
        description="The header in which trusted proxies name the caller. No other one is read.",
    )

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

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The log has the lines of this level and above."
    )
    format: Literal["console", "json"] = Field(
        default="console", description='"console" is for people, "json" an object a line.'
    )
    access: bool = Field(default=False, description="If true, each call writes a line at level info.")
    access_share: Number = Field(
        default=1.0,
        gt=0,
        le=1,
        description="Share of the requests whose calls write such a line at level info; slow calls do in any case.",
    )
    slow: Duration = Field(
        default=0.0,
        le=3600,
        description="A call that takes this long writes a line that says why. 0 means never.",
        examples=["2s"],
    )


class ErrorsSettings(Section):
    """The log of errors on the page, and the share of failed calls from which something should be done."""

    params: bool = Field(default=True, description="If true, samples of failed calls show up to 2 kB of their params.")
    warn: Number = Field(
        default=0.05,
        gt=0,
        le=1,
        description="Share of a network's calls that failed within a minute, from which there is a warning.",
    )
    bad: Number = Field(
        default=0.2,
        gt=0,
        le=1,
        description="Share of failed calls from which the warning is red. At least errors.warn.",
    )

    @model_validator(mode="after")
    def _in_order(self) -> ErrorsSettings:
        if self.bad < self.warn:
            raise ValueError(f"a bad of no less than warn, {self.warn:g}: what is bad is worth a warning as well")
        return self


class TracingSettings(Section):
    """OpenTelemetry traces, sent by OTLP over HTTP; they need the extra: pip install "rpcaccel[otel]"."""

    endpoint: Annotated[str, AfterValidator(trace_receiver)] = Field(
        default="",
        description="Traces are sent to this address, at /v1/traces if it has no path. If empty, there are none.",
        examples=["http://127.0.0.1:4318"],
    )
    sample: Number = Field(
        default=0.01,
        ge=0,
        le=1,
        description="Share of the requests that are traced, where a client does not say.",
    )
    service: str = Field(default="rpcaccel", pattern=r"^[!-~]{1,100}$", description="The service.name of the spans.")


MIB = 1 << 20


class WebSocketSettings(Section):
    """WebSockets of clients: calls and subscriptions."""

    enabled: bool = Field(default=True, description="If false, clients cannot open WebSockets.")
    connections: Whole = Field(
        default=20_000,
        ge=1,
        le=1_000_000,
        description="Open WebSockets of each worker. Further ones get 503.",
    )
    per_client: Whole = Field(
        default=1000,
        ge=1,
        le=1_000_000,
        description="WebSockets of one key or address at each worker. Further ones get 429.",
    )
    subscriptions: Whole = Field(
        default=200,
        ge=1,
        le=100_000,
        description="Subscriptions of one WebSocket. Further ones get an error.",
    )
    at_once: Whole = Field(
        default=100,
        ge=1,
        le=100_000,
        description="Calls of one WebSocket answered at once. Further ones wait unread.",
    )
    queue: Size = Field(
        default=4 * MIB,
        ge=64 * 1024,
        description="A client that leaves more bytes unread is told so and closed (1013).",
    )
    ping: Duration = Field(
        default=30.0, gt=0, le=3600, description="A client that is silent for this long is sent a ping."
    )
    idle: Duration = Field(
        default=3600.0,
        gt=0,
        le=86_400,
        description="A WebSocket without subscription and call for this long is closed.",
    )
    replay: Whole = Field(
        default=10_000,
        ge=0,
        le=1_000_000,
        description="Past blocks that a subscription may ask to be sent again.",
    )


class HttpSettings(Section):
    """The HTTP front: limits and what answers say about themselves."""

    max_body: Size = Field(
        default=5 * MIB,
        gt=0,
        le=1 << 30,
        description="Bytes of the body of a request, also after it is unpacked (gzip).",
    )
    max_batch: Whole = Field(default=1000, ge=1, le=100_000, description="Calls in a batch.")
    max_batch_answer: Size = Field(
        default=25_000_000,
        gt=0,
        description="Bytes of the answer to a batch. Calls whose answers find no room get an error.",
    )
    max_in_flight: Whole = Field(
        default=4096,
        ge=1,
        le=1_000_000,
        description="Calls that a worker serves at once. Further ones get 503.",
    )
    max_header: Size = Field(default=16 * 1024, ge=1024, le=MIB, description="Bytes of the header of a request.")
    read_timeout: Duration = Field(
        default=30.0,
        gt=0,
        le=3600,
        description="A client may take this long for the head of a request, and as long for its body.",
    )
    write_timeout: Duration = Field(
        default=30.0, gt=0, le=3600, description="A client must take 64 KiB of its answer within this time."
    )
    max_unsent: Size = Field(
        default=256 * MIB,
        ge=MIB,
        description="Bytes of answers that slow clients may leave waiting, for each worker. The largest does "
        "not count.",
    )
    batch_at_once: Whole = Field(
        default=64, ge=1, le=10_000, description="Calls of one batch that wait for nodes at the same time."
    )
    keepalive: Duration = Field(
        default=75.0, le=86400, description="An idle connection of a client is kept for this long."
    )
    gzip_from: Size = Field(
        default=1024, description="Answers of this many bytes or more are compressed for clients that accept gzip."
    )
    cors_origins: Origins = Field(
        default=("*",),
        description='Web pages of these origins may call: "*" every origin, an empty list none.',
    )
    headers: Literal["all", "cache", "none"] = Field(
        default="all",
        description='Headers of answers about nodes and cache: "all", "cache" (X-Rpcaccel-Cache alone) or "none".',
    )
    websocket: WebSocketSettings = Field(default=WebSocketSettings(), description="WebSockets of clients.")
    deny: MethodPatterns = Field(
        default=(),
        description='Methods that are refused for everybody, names or patterns ("debug_*").',
        examples=[["debug_*"]],
    )
    expose: MethodPatterns = Field(
        default=(),
        description="Methods for a node's operator that clients may call all the same, names or patterns.",
        examples=[["evm_mine"]],
    )
