"""Taking a signed transaction in: what a node checks, and how it refuses (docs/harmony.md section 5)."""

from __future__ import annotations

from msgspec import Struct

from . import state
from .blocks import Tx
from .rawtx import RawTransaction, intrinsic_gas, read
from .registry import Asked, failed
from .views import GAS_LIMIT, hex0

MAX_BYTES = 128 * 1024


class Texts(Struct, frozen=True):
    """The error texts in which kinds of nodes differ."""

    known: str = "known transaction"
    finalized: str = "transaction already finalized"
    chain_id: str = "blockchain chain id:{ours}, given {given}: invalid chain id for signer"
    nonce: str = "nonce too low"
    funds: str = "insufficient funds for gas * price + value"
    min_price: int = 10**9


HARMONY_TEXTS = Texts()
GETH_TEXTS = Texts(
    known="already known",
    finalized="nonce too low: next nonce {next}, tx nonce {nonce}",
    chain_id="invalid chain id for signer: have {given} want {ours}",
    nonce="nonce too low: next nonce {next}, tx nonce {nonce}",
    funds="insufficient funds for gas * price + value",
    min_price=1,
)


def send(asked: Asked, encoded: str, texts: Texts) -> Tx:
    """Pool the transaction; it is mined in the next block. Raises RpcError as the node does."""
    try:
        raw = read(bytes.fromhex(encoded.removeprefix("0x")))
    except ValueError as error:
        raise failed(str(error)) from None
    known = asked.chain.sent.get(raw.hash)
    if known is not None:
        asked.local.arrived.setdefault(raw.hash, asked.local.clock.now())
        facts = {"next": raw.nonce + 1, "nonce": raw.nonce}
        raise failed((texts.finalized if asked.visible(known) else texts.known).format(**facts))
    refusal = _refusal(asked, raw, texts)
    if refusal:
        reason, keep = refusal
        if keep:
            _remember_refusal(asked, raw, reason)
        raise failed(reason)
    asked.local.arrived[raw.hash] = asked.local.clock.now()
    return asked.chain.add(raw)


def _refusal(asked: Asked, raw: RawTransaction, texts: Texts) -> tuple[str, bool] | None:
    """(reason, whether it shows in the error sink), None when the transaction is fine."""
    spec = asked.branch.spec
    if raw.chain_id not in (None, spec.signer_chain_id, spec.network_id):
        mine = spec.network_id if spec.kind == "harmony" else spec.signer_chain_id
        return texts.chain_id.format(ours=mine, given=raw.chain_id), False
    reason = _nonce_refusal(asked, raw, texts) or _cost_refusal(asked, raw, texts)
    return (reason, True) if reason else None


def _nonce_refusal(asked: Asked, raw: RawTransaction, texts: Texts) -> str:
    following = state.nonce(asked.chain, asked.branch, raw.sender, asked.chain.head + 1)
    if raw.nonce < state.nonce(asked.chain, asked.branch, raw.sender, asked.head):
        return texts.nonce.format(next=following, nonce=raw.nonce)
    return "replacement transaction underpriced" if raw.nonce < following else ""


def _cost_refusal(asked: Asked, raw: RawTransaction, texts: Texts) -> str:
    held = state.balance(asked.chain, asked.branch, raw.sender, asked.head)
    refusals = {
        "oversized data": len(raw.data) > MAX_BYTES,
        "transaction underpriced": raw.gas_price < texts.min_price,
        "intrinsic gas too low": raw.gas < intrinsic_gas(raw),
        "exceeds block gas limit": raw.gas > GAS_LIMIT,
        texts.funds: raw.value + raw.gas * raw.gas_price > held,
    }
    return next((reason for reason, refused in refusals.items() if refused), "")


def _remember_refusal(asked: Asked, raw: RawTransaction, reason: str) -> None:
    now = asked.branch.spec.timestamp(asked.head)
    shown = raw.harmony_hash(asked.branch.spec.shard)
    asked.local.sink.append({"error-message": reason, "time-at-rejection": now, "tx-hash-id": hex0(shown)})
