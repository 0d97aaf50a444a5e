"""The settings of what the program tells about its work beside page and metrics: the log, and traces."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from rpcaccel.config.fields import Duration, Number
from rpcaccel.config.plugins import trace_receiver
from rpcaccel.config.section import Section


class LogSettings(Section):
    """The log, on stderr."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe level written."
    )
    format: Literal["console", "json"] = Field(
        default="console", description="Lines for people, or a JSON object a line."
    )
    access: bool = Field(default=False, description="Whether calls write a line each, at level info.")
    access_share: Number = Field(
        default=1.0, gt=0, le=1, description="Share of the requests whose calls do; slow ones write theirs anyway."
    )
    slow: Duration = Field(
        default=0.0, le=3600, description="Seconds from which a call writes a line with what made it slow; 0 for none."
    )


class TracingSettings(Section):
    """OpenTelemetry traces, sent by OTLP over HTTP; they need the extra: pip install "rpcaccel[otel]"."""

    endpoint: Annotated[str, AfterValidator(trace_receiver)] = Field(
        default="",
        description="http:// or https:// address of the receiver, /v1/traces if it has no path; empty: none.",
    )
    sample: Number = Field(
        default=0.01, ge=0, le=1, description="Share of the requests that are traced, where a client does not say so."
    )
    service: str = Field(
        default="rpcaccel", pattern=r"^[!-~]{1,100}$", description="service.name that the spans go under."
    )
