"""The methods that tell about a node itself: ids, peers, metadata, sync; most answers differ by node."""

from __future__ import annotations

from typing import Any

from rpcaccel.simnode.methods.client_spelling import VERSIONS
from rpcaccel.simnode.methods.registry import (
    CHAIN,
    ETHEREUM,
    FILTERS,
    HARMONY,
    HARMONY_VERSION,
    MethodCall,
    anything,
    call_object,
    failed,
    geth,
    no_notifications,
    string,
    text,
)

NETS = {"net": "eth", "netv1": "v1", "netv2": "v2"}
NET = {"net": "geth"}
_FROM_THE_START = (
    "chain-id-fix-epoch cross-tx-epoch eip155-epoch eth-compatible-epoch five-seconds-epoch istanbul-epoch "
    "min-commission-rate-epoch min-delegation-100-epoch no-early-unlock-epoch prestaking-epoch prev-vrf-epoch "
    "quick-unlock-epoch receipt-log-epoch redelegation-epoch s3-epoch sha3-epoch two-seconds-epoch vrf-epoch"
)
_NEVER = (
    "hip30-epoch hip6_8-epoch is-one-second-epoch leader-rotation-v2-epoch max-rate-epoch sixty-percent-epoch "
    "slots-limit-epoch"
)
EPOCHS = {
    **dict.fromkeys(_FROM_THE_START.split(), 0),
    **dict.fromkeys(_NEVER.split(), 10_000_000),
    "aggregated-reward-epoch": 3,
    "cross-link-epoch": 2,
    "staking-epoch": 2,
    "staking-precompile-epoch": 2,
    "validator-code-fix-epoch": 2,
}
"""The epoch from which each change of the protocol holds, as `chain-config` tells it."""


def eth_chain_id(asked: MethodCall) -> int:
    """The signer's chain id, as this node claims it."""
    claimed = asked.local.knobs.chain_id
    return asked.branch.spec.signer_chain_id if claimed is None else claimed


def network_id(asked: MethodCall) -> int:
    """Harmony's own chain id, as this node claims it."""
    claimed = asked.local.knobs.network_id
    return asked.branch.spec.network_id if claimed is None else claimed


@HARMONY.add("chainId", spaces=CHAIN)
@geth("chainId")
def chain_id(asked: MethodCall) -> bytes:
    return text(hex(eth_chain_id(asked)) if asked.is_eth else asked.number(network_id(asked)))


@HARMONY.add("version", spaces=NETS)
@ETHEREUM.add("version", spaces=NET)
def net_version(asked: MethodCall) -> bytes:
    return text(str(eth_chain_id(asked) if asked.is_eth else network_id(asked)))


@HARMONY.add("peerCount", spaces=NETS)
@ETHEREUM.add("peerCount", spaces=NET)
def peer_count(asked: MethodCall) -> bytes:
    return text(asked.number(asked.local.peers))


for registry, nets, modules in (
    (HARMONY, NETS, ("eth", "hmy", "hmyv2", "net", "netv1", "netv2", "rpc", "web3")),
    (ETHEREUM, NET, ("eth", "net", "rpc", "web3")),
):
    registry.fixed("listening", b"true", spaces=nets)
    registry.fixed("modules", text(dict.fromkeys(modules, "1.0")), spaces={"rpc": "eth"})
HARMONY.fixed("clientVersion", text(HARMONY_VERSION), spaces={"web3": "eth"})
HARMONY.fixed("setNodeToBackupMode", b"true", anything, spaces=CHAIN)  # a proxy has to deny it


@ETHEREUM.add("clientVersion", spaces={"web3": "geth"})
def client_version(asked: MethodCall) -> bytes:
    return text(VERSIONS[asked.local.knobs.client])


@HARMONY.add("protocolVersion", spaces=CHAIN)
def protocol_version(asked: MethodCall) -> bytes:
    return text(asked.number(1))


@HARMONY.add("syncing", spaces=CHAIN)
def syncing(asked: MethodCall) -> bytes:
    return text({"startingBlock": 0, "currentBlock": asked.head, "highestBlock": asked.chain.head})


@HARMONY.add("inSync beaconInSync", spaces=CHAIN)
def in_sync(asked: MethodCall) -> bytes:
    return text(asked.chain.head - asked.head < 10)


@HARMONY.add("getShardID", spaces=CHAIN)
def get_shard_id(asked: MethodCall) -> bytes:
    return text(asked.branch.spec.shard)


@HARMONY.add("getShardingStructure", spaces=CHAIN, limiter="chain")
def get_sharding_structure(asked: MethodCall) -> bytes:
    ours = asked.branch.spec.shard
    return text([
        {
            "current": shard == ours,
            "http": f"http://127.0.0.1:{9500 + 2 * shard}",
            "shardID": shard,
            "ws": f"ws://127.0.0.1:{9800 + 2 * shard}",
        }
        for shard in range(2)
    ])  # fmt: skip


@HARMONY.add("getNodeMetadata", spaces=CHAIN)
def get_node_metadata(asked: MethodCall) -> bytes:
    local, spec = asked.local, asked.branch.spec
    chain = {"AllowlistEpoch": 10000000, "FeeCollectEpoch": 2} | EPOCHS
    ids = {"chain-id": network_id(asked), "eth-compatible-chain-id": eth_chain_id(asked)}
    ids["eth-compatible-shard-0-chain-id"] = spec.eth_chain_id
    view: dict[str, Any] = {"blocks-per-epoch": spec.epoch_length} if spec.shard == 0 else {}
    view |= {
        "blskey": ["0" * 96],
        "chain-config": dict(sorted((chain | ids).items())),
        "consensus": {
            "blocknum": asked.head - asked.head % 7,
            "finality": 0,
            "mode": "Normal",
            "phase": "Announce",
            "viewChangeId": asked.head,
            "viewId": asked.head,
        },
        "current-block-number": asked.head,
        "current-epoch": spec.epoch_of(asked.head),
        "dns-zone": "",
        "is-archival": local.knobs.archive,
        "is-backup": False,
        "is-leader": False,
        "network": "localnet",
        "node-unix-start-time": int(spec.genesis),
        "p2p-connectivity": {"connected": local.peers, "not-connected": 1, "total-known-peers": local.peers + 1},
        "peerid": local.peer_id,
        "role": "ExplorerNode" if local.knobs.explorer else "Validator",
        "shard-id": spec.shard,
        "sync-peers": {f"shard-{spec.shard}": 2},
        "version": HARMONY_VERSION,
    }
    return text(view)


@HARMONY.add("getPeerInfo", spaces=CHAIN)
def get_peer_info(asked: MethodCall) -> bytes:
    peers = [asked.local.peer_id[:-2] + f"{i:02d}" for i in range(min(asked.local.peers, 5))]
    topic = f"hmy/local/0.0.1/client/{'beacon' if asked.branch.spec.shard == 0 else 'shard/1'}"
    return text({
        "blocked-peers": [],
        "connected-peers": [{"peers": peers, "topic": topic}],
        "peerid": asked.local.peer_id,
    })  # fmt: skip


@HARMONY.add("getLastSigningPower", spaces=CHAIN)
def get_last_signing_power(asked: MethodCall) -> bytes:
    bits = asked.branch.generator.commit_bits(asked.branch.fork_of(asked.head), asked.head)
    return text(round(bits.bit_count() / asked.branch.spec.committee, 2))


@HARMONY.add("subscribe", anything, call_object, spaces=FILTERS, optional=2)
@geth("subscribe", anything, call_object, optional=2)
def subscribe(asked: MethodCall, *_: Any) -> bytes:
    raise no_notifications(asked.version)


@HARMONY.add("unsubscribe", string, spaces=FILTERS)
@geth("unsubscribe", string)
def unsubscribe(*_: Any) -> bytes:
    raise failed("subscription not found")
