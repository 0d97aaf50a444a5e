"""The methods that tell about a node itself: ids, peers, metadata, sync; most answers differ by node."""

from __future__ import annotations

from functools import partial
from typing import Any

from rpcaccel.core.hashing.keccak import keccak256
from rpcaccel.simnode.chain.addresses import to_hex
from rpcaccel.simnode.chain.knobs import NodeClient
from rpcaccel.simnode.methods import arguments as args
from rpcaccel.simnode.methods.json_views import View
from rpcaccel.simnode.methods.registry import (
    FILTERS,
    MethodCall,
    RpcError,
    answers,
    both,
    chain,
    ethereum,
    geth,
    harmony,
)

HARMONY_VERSION = "Harmony (C) 2025. harmony, version v8500-v2025.1.1-5-gdc52025a8 (simulated)"
VERSIONS: dict[NodeClient, str] = {
    "geth": "Geth/v1.16.0-simulated/linux-amd64/go1.24",
    "erigon": "erigon/3.0.2-simulated/linux-amd64/go1.24",
    "reth": "reth/v1.5.0-simulated/x86_64-unknown-linux-gnu",
    "nethermind": "Nethermind/v1.31.9-simulated/linux-x64/dotnet9.0",
    "besu": "besu/v25.4.1-simulated/linux-x86_64/openjdk-java-21",
}
"""The answers of Ethereum's clients to web3_clientVersion."""
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
    "AllowlistEpoch": 10_000_000,
    "FeeCollectEpoch": 2,
    "aggregated-reward-epoch": 3,
    "cross-link-epoch": 2,
    "staking-epoch": 2,
    "staking-precompile-epoch": 2,
    "validator-code-fix-epoch": 2,
}
"""The epoch from which each change of the protocol holds, as `chain-config` tells it."""


_harmony_net = partial(harmony, spaces={"net": "eth", "netv1": "v1", "netv2": "v2"})
_geth_net = partial(ethereum, spaces={"net": "geth"})
_harmony_web3 = partial(harmony, spaces={"web3": "eth"})
_geth_web3 = partial(ethereum, spaces={"web3": "geth"})


def eth_chain_id(call: MethodCall) -> int:
    """The signer's chain id, as this node claims it."""
    return call.spec.signer_chain_id if call.knobs.chain_id is None else call.knobs.chain_id


def network_id(call: MethodCall) -> int:
    """Harmony's own chain id, as this node claims it."""
    return call.spec.network_id if call.knobs.network_id is None else call.knobs.network_id


def _behind(call: MethodCall) -> int:
    return call.chain.head - call.head


both("chainId")(lambda call: hex(eth_chain_id(call)) if call.is_eth else call.number(network_id(call)))
for _net in (_harmony_net, _geth_net):
    _net("version")(lambda call: str(eth_chain_id(call) if call.is_eth else network_id(call)))
    _net("peerCount")(lambda call: call.number(call.local.peers))
    _net("listening")(answers("true"))
_harmony_web3("clientVersion")(lambda _: HARMONY_VERSION)
_geth_web3("clientVersion")(lambda call: VERSIONS[call.knobs.client])
_geth_web3("sha3", args.string)(lambda _, data: to_hex(keccak256(bytes.fromhex(data.removeprefix("0x")))))
for _register, _spaces in ((harmony, "eth hmy hmyv2 net netv1 netv2 rpc web3"), (ethereum, "eth net rpc web3")):
    _register("modules", spaces={"rpc": "eth"})(lambda _, spaces=_spaces: dict.fromkeys(spaces.split(), "1.0"))
chain("protocolVersion")(lambda call: call.number(1))
chain("syncing")(lambda c: {"startingBlock": 0, "currentBlock": c.head, "highestBlock": c.chain.head})
chain("inSync beaconInSync")(lambda call: _behind(call) < 10)
chain("getShardID")(lambda call: call.spec.shard)
chain("setNodeToBackupMode", args.anything)(answers("true"))  # a proxy has to deny it
geth("accounts")(answers("[]"))


@geth("syncing")
def geth_syncing(call: MethodCall) -> View | bool:
    progress = {"startingBlock": "0x0", "currentBlock": hex(call.head), "highestBlock": hex(call.chain.head)}
    return _behind(call) >= 10 and progress


@chain("getShardingStructure", limiter="chain")
def get_sharding_structure(call: MethodCall) -> list[View]:
    return [
        {
            "current": shard == call.spec.shard,
            "http": f"http://127.0.0.1:{9500 + 2 * shard}",
            "shardID": shard,
            "ws": f"ws://127.0.0.1:{9800 + 2 * shard}",
        }
        for shard in range(2)
    ]


@chain("getNodeMetadata")
def get_node_metadata(call: MethodCall) -> View:
    local, spec, head = call.local, call.spec, call.head
    ids = {"chain-id": network_id(call), "eth-compatible-chain-id": eth_chain_id(call)}
    ids["eth-compatible-shard-0-chain-id"] = spec.eth_chain_id
    phases = {"finality": 0, "mode": "Normal", "phase": "Announce", "viewChangeId": head, "viewId": head}
    peers = {"connected": local.peers, "not-connected": 1, "total-known-peers": local.peers + 1}
    return {
        **({"blocks-per-epoch": spec.epoch_length} if spec.shard == 0 else {}),
        "blskey": ["0" * 96],
        "chain-config": dict(sorted((EPOCHS | ids).items())),
        "consensus": {"blocknum": head - head % 7, **phases},
        "current-block-number": head,
        "current-epoch": spec.epoch_of(head),
        "dns-zone": "",
        "is-archival": call.knobs.archive,
        "is-backup": False,
        "is-leader": False,
        "network": "localnet",
        "node-unix-start-time": int(spec.genesis),
        "p2p-connectivity": peers,
        "peerid": local.peer_id,
        "role": "ExplorerNode" if call.knobs.explorer else "Validator",
        "shard-id": spec.shard,
        "sync-peers": {f"shard-{spec.shard}": 2},
        "version": HARMONY_VERSION,
    }


@chain("getPeerInfo")
def get_peer_info(call: MethodCall) -> View:
    local = call.local
    peers = [local.peer_id[:-2] + f"{i:02d}" for i in range(min(local.peers, 5))]
    topic = f"hmy/local/0.0.1/client/{'beacon' if call.spec.shard == 0 else 'shard/1'}"
    return {"blocked-peers": [], "connected-peers": [{"peers": peers, "topic": topic}], "peerid": local.peer_id}


@chain("getLastSigningPower")
def get_last_signing_power(call: MethodCall) -> float:
    bits = call.make.commit_bits(call.branch.fork_of(call.head), call.head)
    return round(bits.bit_count() / call.spec.committee, 2)


@both("subscribe", spaces=FILTERS)
def subscribe(call: MethodCall) -> None:
    raise RpcError("notifications not supported", -32601 if call.geth else -32000)


@both("unsubscribe", args.string, spaces=FILTERS)
def unsubscribe(*_: Any) -> None:
    raise RpcError("subscription not found")
