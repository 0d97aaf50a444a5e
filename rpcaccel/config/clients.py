"""The settings of who may call: API keys, callers without one, and the proxies in front."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from rpcaccel.config.fields import MethodPatterns, Number, Whole, listed
from rpcaccel.config.naming import NAME
from rpcaccel.config.section import Section
from rpcaccel.core.client import ANONYMOUS, Limits

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
Ranges = Annotated[tuple[Annotated[str, AfterValidator(_range)], ...], BeforeValidator(listed)]


class LimitSettings(Section):
    """What a caller may do; 0 and empty lists limit nothing."""

    rate: Number = Field(
        default=0.0, ge=0, le=1e9, allow_inf_nan=False, description="Calls a second; heavy ones count as heavy_cost."
    )
    burst: Whole = Field(default=0, ge=0, le=10**9, description="Calls that may come at once; those of a second if 0.")
    concurrency: Whole = Field(
        default=0, ge=0, le=1_000_000, description="Requests answered at once per worker, a batch being one."
    )
    batch: Whole = Field(default=0, ge=0, le=100_000, description="Calls in one batch, within http.max_batch.")
    allow: MethodPatterns = Field(default=(), description="Methods that may be called, as names or patterns.")
    deny: MethodPatterns = Field(default=(), description="Methods that may not, whatever is allowed.")

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
        min_length=1, description="Hashes of the holder's keys, as `rpcaccel key` prints them; several to change keys."
    )
    enabled: bool = Field(default=True, description="Whether its keys are accepted; false turns them away for a while.")


class ClientsSettings(Section):
    """Who may call, and how much."""

    require_key: bool = Field(default=False, description="Whether callers without a key are refused.")
    keys: dict[Annotated[str, Field(pattern=NAME)], KeySettings] = Field(
        default={}, description="Holders of API keys, by name; the name is what metrics and the page show."
    )
    anonymous: LimitSettings = Field(
        default=LimitSettings(), description="Limits of each address that calls without a key (IPv6: of each /64)."
    )
    heavy_cost: Whole = Field(
        default=10, ge=1, le=10_000, description="What a heavy method counts, where others count one."
    )
    trusted_proxies: Ranges = Field(
        default=(), description="Addresses or ranges of proxies in front that are believed about who calls."
    )
    forwarded_header: Literal["x-forwarded-for", "forwarded"] = Field(
        default="x-forwarded-for", description="Header in which those proxies say it; no other is read."
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
