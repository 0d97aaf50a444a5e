"""The tables in chains/*.toml against a second, independent account of the facts: tests/support/facts/methods.tsv."""

from __future__ import annotations

import pytest

from rpcaccel import chains
from rpcaccel.core.plan.rules import Bulkhead, CacheClass, Rule
from tests.support.services import SUPPORT

FIXTURES = SUPPORT / "facts"

OPERATORS = """
    admin_addPeer admin_startHTTP personal_unlockAccount personal_sign miner_start miner_setEtherbase clique_propose
    eth_sendTransaction eth_sign eth_signTransaction eth_signTypedData eth_signTypedData_v4 engine_forkchoiceUpdatedV3
    evm_mine evm_revert anvil_setBalance anvil_impersonateAccount hardhat_setCode hardhat_reset les_addBalance
    debug_setHead debug_setGCPercent debug_startCPUProfile debug_standardTraceBlockToFile debug_writeMemProfile
    parity_setAuthor parity_newAccountFromPhrase debug_cpuProfile debug_goTrace debug_vmodule debug_chaindbCompact
    debug_dumpBlock debug_traceBlockFromFile debug_freezeClient debug_sync dev_setFeeRecipient
    eth_sendTransactionSync eth_sendUnsignedTransaction wallet_sendTransaction odyssey_sendTransaction
"""
READERS = """
    eth_call eth_sendRawTransaction eth_accounts net_version web3_sha3 txpool_status debug_traceTransaction trace_block
    clique_getSigners parity_pendingTransactions eth_newFilter erigon_forks rpc_modules wallet_getCapabilities
    eth_sendRawTransactionSync eth_sendBundle debug_traceCall debug_storageRangeAt
"""
DEPARTURES = {
    # Where the table says something else than the facts' catalogue, and why.
    ("harmony", "eth_getBlockReceipts"): "Harmony takes only a hash there, so it is named for ever as in hmy and hmyv2",
    ("harmony", "hmy_getBlocks"): "signers of the last block need the block after it, as for a single block",
    ("harmony", "hmyv2_getBlocks"): "signers of the last block need the block after it, as for a single block",
    ("harmony", "eth_getBlocks"): "signers of the last block need the block after it, as for a single block",
    ("ethereum", "eth_getHeaderByNumber"): "geth has it too",
    ("ethereum", "eth_getBalance"): "geth's state reads default to latest, all of them",
    ("ethereum", "erigon_blockNumber"): "head class whatever the tag",
    ("ethereum", "erigon_getLatestLogs"): "head class whatever the bounds",
    ("ethereum", "debug_printBlock"): "a bare integer is no block reference here: read anew at each head",
    ("ethereum", "debug_getModifiedAccountsByNumber"): "bare integers, as above",
    ("ethereum", "ots_searchTransactionsBefore"): "its block 0 means the head, so no number makes it lasting",
    ("ethereum", "ots_searchTransactionsAfter"): "head class whatever the number",
}


def told(rule: Rule) -> list[str]:
    """The rule in the words of the fixture: class, what else is known, the node's limiter."""
    words = []
    if rule.block is not None:
        words.append(f"at={rule.block.at}")
        words += [f"start={rule.block.start}"] if rule.block.start is not None else []
        words += [f"path={','.join(rule.block.path)}"] if rule.block.path else []
        words.append(f"spelling={rule.block.spelling}")
        words += [f"default={rule.block.default}"] if rule.block.default else []
    words += [f"pending={rule.pending_class}"] if rule.pending_class is not CacheClass.NEVER else []
    words += [f"depth={rule.depth}"] if rule.depth else []
    words += [f"depth-if={','.join(rule.depth_if)}"] if rule.depth_if else []
    words += [f"epoch={rule.epoch_at}"] if rule.epoch_at is not None else []
    words += [f"skip={','.join(rule.skip)}"] if rule.skip else []
    flags = {"null": rule.null_may_fill, "once": not rule.repeat, "heavy": rule.heavy, "deny": rule.deny}
    words += [word for word, on in flags.items() if on]
    words += [f"split={rule.split}"] if rule.split else []
    words += [f"needs={','.join(rule.needs)}"] if rule.needs else []
    return [str(rule.cache), " ".join(words), rule.limiter]


@pytest.mark.parametrize("chain", ["harmony", "ethereum"])
def test_only_calls_of_contracts_run_code_and_are_not_heavy(chain: str) -> None:
    executing = {rule.method for rule in chains.load(chain).rules if rule.bulkhead is Bulkhead.EXECUTION}
    assert executing == ({"eth_call"} if chain == "ethereum" else {"eth_call", "hmy_call", "hmyv2_call"})


def catalogue() -> dict[tuple[str, str], list[str]]:
    """The fixture: (chain, method) to the same three words."""
    lines = (FIXTURES / "methods.tsv").read_text("utf-8").splitlines()
    rows = ([*line.split("\t"), "", ""][:5] for line in lines if not line.startswith("#"))
    return {(row[0], row[1]): row[2:] for row in rows}


FACTS = catalogue()


@pytest.mark.parametrize("chain", ["harmony", "ethereum"])
def test_every_method_has_the_rule_that_the_facts_give_it(chain: str) -> None:
    rules = chains.load(chain).rules
    wrong = {
        method: (told(rules.get(method)), facts)
        for (of, method), facts in FACTS.items()
        if of == chain and (of, method) not in DEPARTURES and told(rules.get(method)) != facts
    }
    assert wrong == {}


@pytest.mark.parametrize("chain", ["harmony", "ethereum"])
def test_no_method_is_in_a_table_that_the_facts_do_not_know(chain: str) -> None:
    known = {method for of, method in FACTS.keys() | DEPARTURES.keys() if of == chain}
    assert {rule.method for rule in chains.load(chain).rules} == known


def test_every_departure_from_the_facts_is_still_one() -> None:
    same = [
        (of, method) for of, method in DEPARTURES if told(chains.load(of).rules.get(method)) == FACTS.get((of, method))
    ]
    assert same == []


@pytest.mark.parametrize("chain", ["harmony", "ethereum"])
def test_what_drives_a_node_or_uses_its_keys_is_denied_and_what_reads_is_not(chain: str) -> None:
    rules = chains.load(chain).rules
    for method in OPERATORS.split():
        assert rules.get(method).deny, method
    for method in READERS.split():
        assert not rules.get(method).deny, method


@pytest.mark.parametrize("chain", ["harmony", "ethereum"])
def test_what_changes_a_node_is_neither_kept_nor_repeated(chain: str) -> None:
    for rule in chains.load(chain).rules:
        if rule.kind in ("send", "write", "filter-new", "subscribe"):
            assert (rule.cache, rule.repeat) == (CacheClass.NEVER, False), rule.method
        if not rule.repeat:
            assert rule.kind != "read", rule.method


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("eth_sendRawTransaction", "send"),
        ("hmyv2_sendRawStakingTransaction", "send"),
        ("hmyv2_resendCx", "write"),
        ("hmy_newFilter", "filter-new"),
        ("eth_getFilterChanges", "filter-poll"),
        ("eth_getFilterLogs", "filter-poll"),
        ("eth_uninstallFilter", "filter-drop"),
        ("hmy_subscribe", "subscribe"),
        ("hmyv2_getBlocks", "read"),
    ],
)
def test_a_harmony_method_is_of_its_kind(method: str, kind: str) -> None:
    assert chains.load("harmony").rules.get(method).kind == kind


def test_a_send_that_answers_no_hash_is_a_plain_write() -> None:
    assert chains.load("ethereum").rules.get("eth_sendRawTransactionSync").kind == "write"


def test_call_objects_get_data_only_where_the_node_ignores_input() -> None:
    copying = {rule.method for rule in chains.load("harmony").rules if rule.copy_input_to_data}
    calls = {f"{space}_{name}" for space in ("hmy", "hmyv2", "eth") for name in ("call", "estimateGas")}
    assert copying == calls | {"debug_traceCall", "trace_traceCall"}
    assert not any(rule.copy_input_to_data for rule in chains.load("ethereum").rules)


def test_what_a_transaction_names_may_move_where_blocks_can_be_replaced() -> None:
    moving = {rule.method for rule in chains.load("ethereum").rules if rule.may_move}
    assert {"eth_getTransactionByHash", "eth_getTransactionReceipt", "debug_traceTransaction"} <= moving
    assert "eth_getBlockByHash" not in moving
    assert "eth_getRawTransactionByHash" not in moving


@pytest.mark.parametrize(("chain", "prefix"), [("ethereum", "eth"), ("harmony", "eth"), ("harmony", "hmyv2")])
def test_a_receipt_shows_that_its_node_has_the_block(chain: str, prefix: str) -> None:
    assert chains.load(chain).rules.get(f"{prefix}_getTransactionReceipt").head_at == "blockNumber"


def test_a_receipt_from_another_shard_says_nothing_of_this_ones_head() -> None:
    assert chains.load("harmony").rules.get("hmyv2_getCXReceiptByHash").head_at == ""


@pytest.mark.parametrize(
    ("method", "rewrites"),
    [
        *((name, True) for name in ("evm_revert", "evm_mine", "evm_setAccountNonce", "debug_setHead")),
        *((name, True) for name in ("anvil_setBalance", "anvil_rollback", "hardhat_setCode", "hardhat_reset")),
        *((name, True) for name in ("tenderly_setBalance", "tenderly_addBalance", "ganache_setTime", "dev_setBalance")),
        *((name, False) for name in ("evm_snapshot", "anvil_nodeInfo", "hardhat_metadata", "eth_sendTransaction")),
        *((name, False) for name in ("eth_sendRawTransaction", "eth_getBalance", "debug_setGCPercent", "foo_bar")),
    ],
)
def test_what_a_development_node_changes_without_a_block_is_known(method: str, rewrites: bool) -> None:
    for chain in ("ethereum", "harmony"):
        rule = chains.load(chain).rules.get(method)
        assert rule.rewrites is rewrites, chain
        assert rule.deny or not rewrites, "nobody calls it unless http.expose names it"
