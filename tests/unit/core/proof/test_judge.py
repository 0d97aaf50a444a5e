"""Answers of a real node are judged. What a node changes in them is found, or listed here as what nothing covers."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.chains import load
from rpcaccel.core.hashing.keccak import keccak256
from rpcaccel.core.hashing.rlp import sequence
from rpcaccel.core.hashing.trie import EMPTY_TRIE_ROOT
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.planner import Planner
from rpcaccel.core.proof.encoding import HEADER_WRITERS, Disproved, NotProvable, encoded
from rpcaccel.core.proof.headers import prove_header
from rpcaccel.core.proof.judge import judge_answer
from rpcaccel.core.proof.known_chain import MAX_KNOWN_BLOCKS, KnownBlocks, SeenForms
from rpcaccel.core.proof.received_answer import Judgement, Judging, NeededCall, ReceivedAnswer, Standing
from rpcaccel.core.stepwise import ITEMS_A_STEP
from tests.support.plans import plan_of
from tests.support.proof_chain import FACTS
from tests.unit.core.proof.test_block import changed, members

RECORDED = json.loads(FACTS.read_text())
ETHEREUM = load("ethereum")
PLANNER = Planner("main", ETHEREUM.rules, ETHEREUM.tags, final_at_once=False)
VIEW = ChainSnapshot(head=100, best=100, final=90, eth_chain_id=1, genesis="0x1", block_one="0x2")
FOUND = {Standing.DISPROVED, Standing.DOUBTED}


@dataclass
class Judge:
    """What is known where answers are judged: of each block here its hash, if `served`; and what memory has."""

    served: bool = True
    full: bool = False
    seen: SeenForms = field(default_factory=SeenForms)
    memory: dict[tuple[str, bytes], bytes] = field(default_factory=dict)
    final: int = 90
    asked: list[NeededCall] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.blocks = KnownBlocks()
        self.fork("prague")

    def fork(self, name: str) -> None:
        if self.served:
            block = RECORDED[name]["block"]
            self.blocks.add(int(block["number"], 16), block["hash"])

    def judging(self, method: str, params: list[Any], result: Any) -> Judging[Judgement]:
        plan = PLANNER.plan(method, msgspec.json.encode(params), VIEW)
        text = result if isinstance(result, bytes) else msgspec.json.encode(result)
        return judge_answer(
            ReceivedAnswer(
                plan=plan,
                result=text,
                form=ETHEREUM.provable,
                blocks=self.blocks,
                full=self.full,
                seen=self.seen,
                final=self.final,
                block_method="eth_getBlockByNumber",
                by_hash_method="eth_getBlockByHash",
            )
        )

    def __call__(self, method: str, params: list[Any], result: Any) -> Judgement:
        judging, told = self.judging(method, params, result), None
        while True:
            try:
                asks = judging.send(told)
            except StopIteration as end:
                found: Judgement = end.value
                return found
            self.asked += asks or ()
            told = None if asks is None else [self._result(ask) for ask in asks]

    def _result(self, ask: NeededCall) -> bytes | None:
        """What memory has, if it is proved where that is wanted."""
        text = self.memory.get((ask.method, ask.params))
        if text is None or ask.how != "proved":
            return text
        return text if self(ask.method, msgspec.json.decode(ask.params), text).block else None


def answers(fork: str) -> Iterator[tuple[str, list[Any], Any]]:
    """A call of each kind about a recorded block, and its answer: the transactions whole, and by their hashes."""
    case = RECORDED[fork]
    block, receipts, transactions = case["block"], case["receipts"], case["block"]["transactions"]
    number, hash = block["number"], block["hash"]
    plain = {**block, "transactions": [one["hash"] for one in transactions]}
    logs = [log for receipt in receipts for log in receipt["logs"]]
    yield "eth_getBlockByNumber", [number, False], plain
    yield "eth_getBlockByNumber", [number, True], block
    yield "eth_getBlockByHash", [hash, False], plain
    for one in transactions:
        yield "eth_getTransactionByHash", [one["hash"]], one
    yield "eth_getTransactionByBlockNumberAndIndex", [number, "0x1"], transactions[1]
    yield "eth_getTransactionByBlockHashAndIndex", [hash, "0x1"], transactions[1]
    for receipt in receipts:
        yield "eth_getTransactionReceipt", [receipt["transactionHash"]], receipt
    yield "eth_getBlockReceipts", [number], receipts
    yield "eth_getLogs", [{"fromBlock": number, "toBlock": number}], logs
    yield "eth_getLogs", [{"blockHash": hash, "address": logs[0]["address"]}], logs
    for kept in case["proofs"].values():
        yield "eth_getProof", [kept["address"], [one["key"] for one in kept["storageProof"]], number], kept


CASES = [(fork, *case) for fork in RECORDED for case in answers(fork)]


def judge_of(fork: str, *, full: bool = False) -> Judge:
    """A judge that knows the block of a fork, and can have what it needs."""
    judge, case = Judge(full=full), RECORDED[fork]
    judge.fork(fork)
    block = case["block"]
    plain = {**block, "transactions": [one["hash"] for one in block["transactions"]]}
    for name, by in ((block["number"], "Number"), (block["hash"], "Hash")):
        judge.memory[f"eth_getBlockBy{by}", b'["%b",false]' % name.encode()] = msgspec.json.encode(plain)
        judge.memory[f"eth_getBlockBy{by}", b'["%b",true]' % name.encode()] = msgspec.json.encode(block)
        judge.memory["eth_getBlockReceipts", b'["%b"]' % name.encode()] = msgspec.json.encode(case["receipts"])
    assert judge("eth_getBlockByNumber", [block["number"], False], plain).standing is Standing.PROVED
    return judge


@pytest.mark.parametrize("full", [False, True], ids=["cheap", "full"])
@pytest.mark.parametrize(("fork", "method", "params", "answer"), CASES)
def test_honest_answers_are_proved(fork: str, method: str, params: list[Any], answer: Any, full: bool) -> None:
    judgement = judge_of(fork, full=full)(method, params, answer)
    itself = not full and method in ("eth_getLogs", "eth_getTransactionReceipt", "eth_getBlockReceipts")
    assert judgement.standing is (Standing.CONSISTENT if itself else Standing.PROVED), judgement.why
    assert judgement.block == (RECORDED[fork]["block"]["hash"] if full or method == "eth_getProof" else "")


BY_INDEX = {"blockTimestamp"}
TRANSACTION = BY_INDEX | {"transactionIndex", "gasPrice"}
COPIED = {"type", "status", "from", "to", "effectiveGasPrice", "blobGasPrice", "contractAddress", "blockTimestamp"}
OF_LOGS = {"logs.data", "logs.blockTimestamp", "logs.removed"}
UNCOVERED: dict[str, set[str]] = {
    "eth_getBlockByNumber": {"size", "totalDifficulty", "transactions"},
    "eth_getBlockByHash": {"size", "totalDifficulty", "transactions"},
    "eth_getTransactionByHash": TRANSACTION,
    "eth_getTransactionByBlockNumberAndIndex": BY_INDEX,
    "eth_getTransactionByBlockHashAndIndex": BY_INDEX,
    "eth_getTransactionReceipt": COPIED
    | OF_LOGS
    | {"logs.logIndex", "gasUsed", "cumulativeGasUsed", "transactionIndex"},
    "eth_getBlockReceipts": COPIED | OF_LOGS | {"transactionHash"},
    "eth_getLogs": {"data", "blockTimestamp", "removed", "transactionHash", "transactionIndex", "logIndex"},
    "eth_getProof": set(),
}
"""Members that an answer alone, and the hash of its block, cannot prove. The members of a block's transactions are
such as well."""
UNCOVERED_BY_ROOTS: dict[str, set[str]] = {method: set[str]() for method in UNCOVERED} | {
    "eth_getBlockByNumber": {"size", "totalDifficulty"},
    "eth_getBlockByHash": {"size", "totalDifficulty"},
    "eth_getTransactionReceipt": {"blobGasPrice"},
    "eth_getBlockReceipts": {"blobGasPrice"},
}
"""Members that no hash of a block is made of."""


def missed(fork: str, method: str, params: list[Any], answer: Any, *, full: bool) -> set[str]:
    """The members of an answer of which a change is not found."""
    judge, found = judge_of(fork, full=full), set()
    judge(method, params, answer)
    for path in members(answer):
        false = copy.deepcopy(answer)
        place = false
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = changed(place[path[-1]])
        if judge(method, params, false).standing not in FOUND:
            found.add(".".join(part for part in path if isinstance(part, str)))
    return found


@pytest.mark.parametrize(("full", "uncovered"), [(False, UNCOVERED), (True, UNCOVERED_BY_ROOTS)], ids=["cheap", "full"])
def test_a_change_of_any_other_member_is_found(full: bool, uncovered: dict[str, set[str]]) -> None:
    told = {method: set[str]() for method in UNCOVERED}
    for fork, method, params, answer in CASES:
        told[method] |= missed(fork, method, params, answer, full=full)
    shown = {method: {name for name in names if not name.startswith("transactions.")} for method, names in told.items()}
    assert shown == uncovered
    assert full == (told["eth_getBlockByNumber"] == uncovered["eth_getBlockByNumber"])


def test_what_a_hash_is_made_of_cannot_be_left_out() -> None:
    unfound = set[str]()
    for fork, method, params, answer in CASES:
        judge = judge_of(fork, full=True)
        for path in (path for path in members(answer) if isinstance(path[-1], str)):
            false = copy.deepcopy(answer)
            place = false
            for part in path[:-1]:
                place = place[part]
            del place[path[-1]]
            if judge(method, params, false).standing not in FOUND:
                unfound.add(str(path[-1]))
    implied = {"type", "chainId", "yParity", "v", "gasPrice", "effectiveGasPrice", "contractAddress", "from", "to"}
    assert unfound == {"size", "totalDifficulty", "blobGasPrice", "blockTimestamp", "removed"} | implied


@pytest.mark.parametrize(
    "twice",
    [
        b'{"status":"0x0",%b',
        b'{"STATUS":"0x0",%b',
        b'{"\\u0073tatus":"0x0",%b',
        b'{ "status" : "0x0" , %b',
        b'{"none":"' + b"a" * 5000 + b'","status":"0x0",%b',
        b'{"logs":[{"a":1,"a":2}],%b',
    ],
)
def test_a_name_that_programs_may_read_in_two_ways_is_doubted(twice: bytes) -> None:
    receipt = RECORDED["prague"]["receipts"][0]
    judge, params = judge_of("prague", full=True), [receipt["transactionHash"]]
    text = msgspec.json.encode(receipt)
    assert judge("eth_getTransactionReceipt", params, text).block
    assert judge("eth_getTransactionReceipt", params, json.dumps(receipt, indent=2).encode()).block
    assert judge("eth_getTransactionReceipt", params, twice % text[1:]).standing is Standing.DOUBTED


def test_a_bloom_that_is_filled_in_is_found_by_the_logs() -> None:
    judge, receipts = judge_of("prague", full=True), RECORDED["prague"]["receipts"]
    filled = [{**one, "logsBloom": "0x" + "00" * 256} for one in receipts]
    assert judge("eth_getBlockReceipts", ["0x3"], filled).standing is Standing.DOUBTED
    assert judge("eth_getTransactionReceipt", [filled[0]["transactionHash"]], filled[0]).standing is Standing.DOUBTED


def test_what_was_compared_before_a_reorganisation_teaches_nothing() -> None:
    judge, block = judge_of("prague", full=True), RECORDED["prague"]["block"]
    hashes = {**block, "transactions": [one["hash"] for one in block["transactions"]]}
    judging = judge.judging("eth_getBlockByNumber", ["0x3", False], hashes)
    asks = next(ask for ask in judging if ask is not None)
    judge.blocks.forget(0)
    told = [judge.memory[asks[0].method, asks[0].params]]
    (judgement,) = [end.value for end in ended(judging, told)]
    assert judgement.standing is Standing.UNSURE
    assert not judge.blocks.of(2)


def test_who_reads_through_old_blocks_makes_none_near_the_head_forgotten() -> None:
    blocks = KnownBlocks()
    blocks.served(100_000, "0xhead", 100_000, 0, -1)
    for number in range(2 * MAX_KNOWN_BLOCKS):
        blocks.add(number, f"0x{number:x}")
    assert (blocks.of(100_000), blocks.of(0), blocks.of(2 * MAX_KNOWN_BLOCKS - 1)) == ("0xhead", "", "0x3fff")


def test_logs_that_do_not_fit_the_filter_are_doubted() -> None:
    judge, case = judge_of("london"), RECORDED["london"]
    logs = [log for receipt in case["receipts"] for log in receipt["logs"]]
    number, other = case["block"]["number"], "0x" + "12" * 20
    for criteria in (
        {"fromBlock": number, "toBlock": number, "address": other},
        {"fromBlock": number, "toBlock": number, "topics": [other + "00" * 12]},
        {"fromBlock": number, "toBlock": number, "topics": [None, other + "00" * 12]},
        {"fromBlock": "0x0", "toBlock": "0x1"},
        {"fromBlock": "0x50", "toBlock": "latest"},
        {"blockHash": "0x" + "12" * 32},
    ):
        assert judge("eth_getLogs", [criteria], logs).standing is Standing.DOUBTED, criteria
    none_at_the_end = {"fromBlock": number, "toBlock": number, "topics": [None, None, None, None]}
    assert judge("eth_getLogs", [none_at_the_end], logs).standing is Standing.CONSISTENT


def test_what_a_filter_has_beside_its_own_members_names_no_block() -> None:
    judge, logs = judge_of("prague"), RECORDED["prague"]["receipts"][0]["logs"]
    wanted = {"fromBlock": "0x1", "toBlock": "0x9", "blockNumber": "0x2"}
    assert judge("eth_getLogs", [wanted], logs).standing is Standing.CONSISTENT


def test_no_logs_are_doubted_where_the_bloom_of_a_block_may_have_some() -> None:
    judge, case = judge_of("london"), RECORDED["london"]
    number, log = case["block"]["number"], case["receipts"][0]["logs"][0]
    wanted = {"fromBlock": number, "toBlock": number, "address": [log["address"]]}
    assert judge("eth_getLogs", [wanted], []).perhaps
    assert judge("eth_getLogs", [{**wanted, "address": "0x" + "12" * 20}], []).standing is Standing.CONSISTENT
    assert Judge()("eth_getLogs", [wanted], []).standing is Standing.CONSISTENT


def test_blocks_that_are_not_known_are_consistent_with_the_hash_that_they_name() -> None:
    judge, block = Judge(served=False), RECORDED["london"]["block"]
    assert judge("eth_getBlockByNumber", [block["number"], True], block).standing is Standing.CONSISTENT
    assert judge("eth_getBlockByHash", [block["hash"], True], block).standing is Standing.PROVED
    for change in ({"gasUsed": "0x1"}, {"extraData": "0x55"}, {"timestamp": "0x1"}):
        judgement = judge("eth_getBlockByNumber", [block["number"], True], {**block, **change})
        assert (judgement.standing, bool(judgement.form)) == (Standing.DOUBTED, True)


def test_a_node_that_makes_up_a_block_with_a_right_hash_does_not_make_others_false() -> None:
    """On a chain that hashes otherwise, only the hash of a served block shows that a form is known."""
    judge, block = Judge(served=False), RECORDED["london"]["block"]
    judge("eth_getBlockByNumber", [block["number"], True], block)
    honest = {**block, "stateRoot": "0x" + "12" * 32}
    assert judge("eth_getBlockByNumber", [block["number"], True], honest).standing is Standing.DOUBTED


def test_a_block_that_shows_no_transactions_has_none() -> None:
    judge, block = Judge(served=False), RECORDED["london"]["block"]
    empty = {**block, "transactionsRoot": f"0x{EMPTY_TRIE_ROOT.hex()}", "transactions": []}
    parts = encoded(empty, (*ETHEREUM.provable.header.members, "baseFeePerGas"), HEADER_WRITERS)
    empty["hash"] = f"0x{keccak256(sequence(parts)).hex()}"
    assert judge("eth_getBlockByNumber", [block["number"], True], empty).standing is Standing.CONSISTENT
    for false in ({**empty, "transactions": block["transactions"]}, {**block, "transactions": []}):
        assert judge("eth_getBlockByNumber", [block["number"], True], false).standing is Standing.DOUBTED


def test_the_parent_of_a_proved_block_is_known() -> None:
    judge, block = Judge(), RECORDED["prague"]["block"]
    assert judge("eth_getBlockByNumber", [block["number"], True], block).standing is Standing.PROVED
    assert judge.blocks.of(int(block["number"], 16) - 1) == block["parentHash"]


def test_a_hash_that_was_asked_for_before_a_reorganisation_is_not_known_after_it() -> None:
    case, blocks = RECORDED["prague"], KnownBlocks()
    block, proof = case["block"], case["proofs"]["full"]
    params = [proof["address"], [one["key"] for one in proof["storageProof"]], block["number"]]
    judging = judge_answer(
        ReceivedAnswer(plan=PLANNER.plan("eth_getProof", msgspec.json.encode(params), VIEW), seen=SeenForms(),
                       result=msgspec.json.encode(proof), form=ETHEREUM.provable, blocks=blocks, final=90,
                       block_method="b", by_hash_method="h")
    )  # fmt: skip
    assert next(judging)
    blocks.forget(0)
    with pytest.raises(StopIteration) as end:
        judging.send([msgspec.json.encode(block)])
    assert (end.value.value.standing, blocks.of(3)) == (Standing.UNSURE, "")


def test_a_signer_in_place_of_the_miner_is_no_lie() -> None:
    judge, block = Judge(), RECORDED["prague"]["block"]
    unsigned = {**block, "miner": "0x" + "00" * 20}
    names = (*ETHEREUM.provable.header.members, *ETHEREUM.provable.header.later)
    unsigned["hash"] = f"0x{keccak256(sequence(encoded(unsigned, names, HEADER_WRITERS))).hex()}"
    judge.blocks.add(3, unsigned["hash"])
    assert judge("eth_getBlockByNumber", ["0x3", True], unsigned).standing is Standing.PROVED
    signed = judge("eth_getBlockByNumber", ["0x3", True], {**unsigned, "miner": "0x" + "12" * 20})
    assert (signed.standing, signed.false) == (Standing.DOUBTED, False)


@pytest.mark.parametrize("seal", ["auraSeal", "auraStep", "step", "signature"])
def test_a_block_that_was_sealed_in_another_form_is_no_lie(seal: str) -> None:
    form = load("gnosis").provable.header
    block = {**RECORDED["prague"]["block"], "mixHash": "0x" + "00" * 32}
    with pytest.raises(NotProvable, match=seal):
        prove_header({**block, seal: "0xab"}, form)
    prove_header({**RECORDED["prague"]["block"], seal: "0xab"}, form)
    with pytest.raises(Disproved):
        prove_header({**block, seal: "0xab"}, ETHEREUM.provable.header)
    for plain in (block, {**block, seal: None}):
        with pytest.raises(Disproved):
            prove_header(plain, form)


def test_what_stands_in_a_block_without_a_hash_yet_is_not_provable() -> None:
    receipt = copy.deepcopy(RECORDED["prague"]["receipts"][0])
    for of in (receipt, *receipt["logs"]):
        of["blockHash"] = "0x" + "00" * 32
    judgement = Judge()("eth_getTransactionReceipt", [receipt["transactionHash"]], receipt)
    assert judgement.standing is Standing.NOT_PROVABLE


def test_a_receipt_of_many_logs_is_judged_in_steps() -> None:
    receipt = copy.deepcopy(RECORDED["prague"]["receipts"][0])
    receipt["logs"] *= 400
    plan = PLANNER.plan("eth_getTransactionReceipt", msgspec.json.encode([receipt["transactionHash"]]), VIEW)
    judging = judge_answer(
        ReceivedAnswer(plan=plan, result=msgspec.json.encode(receipt), form=ETHEREUM.provable, blocks=KnownBlocks(),
                       seen=SeenForms(), final=90, block_method="b", by_hash_method="h")
    )  # fmt: skip
    assert sum(1 for _ in judging) >= 3 * 400 // ITEMS_A_STEP  # read, their hashes, their words


GARBAGE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=70)
    | st.from_regex(r"0x[0-9a-f]{0,70}", fullmatch=True),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(data=st.data())
def test_whatever_a_node_writes_the_judgement_ends(data: st.DataObject) -> None:
    fork, method, params, answer = data.draw(st.sampled_from(CASES))
    judge = judge_of(fork)
    paths = list(members(answer)) or [()]
    path = data.draw(st.sampled_from(paths))
    path = path[: data.draw(st.integers(0, len(path)))]
    garbage = data.draw(GARBAGE)
    false = copy.deepcopy(answer)
    if path:
        place = false
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = garbage
    else:
        false = garbage
    assert isinstance(judge(method, params, false), Judgement)
    asked = data.draw(st.lists(GARBAGE, max_size=3))
    assert isinstance(judge(method, asked, answer), Judgement)


@pytest.mark.parametrize("shows", ["block", "transaction", "receipt", "receipts", "logs", "state"])
@pytest.mark.parametrize(
    "noise", [b"null", b"[]", b"{}", b"[null]", b'{"logs":[]}', b"[" * 5000, b"\xff", b"1e999", b""]
)
def test_what_cannot_be_read_is_not_provable(shows: str, noise: bytes) -> None:
    plan = plan_of("m", shows=shows, params=b"[]", names_transaction=0 if shows in ("receipt", "transaction") else None)
    received = ReceivedAnswer(plan=plan, result=noise, form=ETHEREUM.provable, blocks=KnownBlocks(),
                              seen=SeenForms(), final=0, block_method="b", by_hash_method="h")  # fmt: skip
    (judgement,) = [end.value for end in ended(judge_answer(received))]
    assert judgement.standing in (Standing.NOT_PROVABLE, Standing.CONSISTENT, Standing.UNSURE)


def ended(judging: Any, told: list[bytes] | None = None) -> Iterator[StopIteration]:
    """The end of a judging that is told this, and for which nothing else can be had."""
    try:
        while True:
            asks = judging.send(told)
            told = None if asks is None else [None] * len(asks)
    except StopIteration as end:
        yield end


# -- a chain whose nodes keep false hashes in logs ---------------------------------------------------------------------

RIGHT, WRONG = "0x" + "A1" * 32, "0x" + "b2" * 32
BLOCK_FIVE = {"number": 5, "hash": RIGHT, "logsBloom": "0x" + "00" * 256}


def harmony(
    shows: str,
    result: Any,
    params: bytes = b"[{}]",
    *,
    proposes: bool | None = None,
    blocks: KnownBlocks | None = None,
    told: dict[str, Any] | None = None,
    number: int | None = None,
) -> Iterator[Any]:
    """The calls that a judging makes for an answer of Harmony, and its judgement; `told`: the results of calls by
    their methods, where all is to be proved."""
    named = 0 if shows == "receipt" else None
    plan = plan_of("m", shows=shows, params=params, block=number, head=100, names_transaction=named)
    judging = judge_answer(
        ReceivedAnswer(plan=plan, result=msgspec.json.encode(result), form=load("harmony").provable, seen=SeenForms(),
                       blocks=blocks or KnownBlocks(), final=0, block_method="b", by_hash_method="h",
                       proposes=proposes, full=told is not None)
    )  # fmt: skip
    results = None
    try:
        while True:
            asks = judging.send(results)
            results = None
            if asks is not None:
                yield asks
                results = [msgspec.json.encode((told or {}).get(ask.method, BLOCK_FIVE)) for ask in asks]
    except StopIteration as end:
        yield end.value


def log(number: int | str, hash: str) -> dict[str, Any]:
    place = {"blockNumber": number, "blockHash": hash, "transactionHash": RIGHT, "transactionIndex": "0x0"}
    return {**place, "logIndex": "0x0", "address": "0x" + "12" * 20, "topics": [], "data": "0x"}


def test_a_false_hash_is_found_in_a_receipt_itself() -> None:
    receipt = {"blockHash": RIGHT, "blockNumber": 5, "logs": [log("0x5", RIGHT.lower())]}
    others = [receipt, {**receipt, "logs": [log(5, WRONG)]}]
    assert [*harmony("receipt", receipt)][-1].why != "a log names a hash that its block does not have"
    assert [*harmony("receipt", others[1])][-1].standing is Standing.DOUBTED
    assert [*harmony("receipts", others)][-1].standing is Standing.DOUBTED


@pytest.mark.parametrize(
    ("logs", "params", "proposes", "standing"),
    [
        ([log("0x5", RIGHT), log(5, WRONG)], b"[{}]", None, Standing.DOUBTED),
        ([log("0x5", WRONG)], b'[{"blockHash":"%b"}]' % RIGHT.encode(), None, Standing.DOUBTED),
        ([log("0x5", RIGHT)], b'[{"blockHash":"%b"}]' % RIGHT.encode(), None, Standing.CONSISTENT),
        ([log("0x5", WRONG)], b"[{}]", False, Standing.CONSISTENT),
        ([log("0x5", WRONG)], b"[{}]", None, Standing.DOUBTED),
        ([log("0x5", RIGHT)], b"[{}]", True, Standing.CONSISTENT),
    ],
)
def test_a_false_hash_in_a_list_of_logs_is_found_by_the_block(
    logs: list[Any], params: bytes, proposes: bool | None, standing: Standing
) -> None:
    *asks, judgement = harmony("logs", logs, params, proposes=proposes)
    assert judgement.standing is standing, judgement.why
    assert all(ask.how == ("any" if proposes else "memory") for (ask,) in asks)


def test_a_false_hash_of_a_block_that_is_known_is_found_without_a_call() -> None:
    blocks = KnownBlocks()
    blocks.add(5, RIGHT.lower())
    (judgement,) = harmony("logs", [log("0x5", WRONG)], blocks=blocks)
    assert (judgement.standing, judgement.form) == (Standing.DOUBTED, "")


HARMONY = json.loads((FACTS.parent / "harmony_header.json").read_text())
ENCODED = "eth_getHeaderByNumberRLPHex"
ON_HARMONY = {"b": HARMONY["block"], ENCODED: HARMONY["header"]}


def test_a_block_of_harmony_is_proved_by_its_header_as_it_is_hashed() -> None:
    block, number = HARMONY["block"], int(HARMONY["block"]["number"], 16)
    params = msgspec.json.encode([block["number"], False])
    *_, honest = harmony("block", block, params, told=ON_HARMONY, number=number)
    assert honest.standing is Standing.PROVED, honest.why
    missed = set[str]()
    for name, value in block.items():
        if isinstance(value, str) and name != "number":  # which is held against the call
            *_, judgement = harmony("block", {**block, name: changed(value)}, params, told=ON_HARMONY, number=number)
            if judgement.standing not in FOUND:
                missed.add(name)
    assert missed == {"size", "miner", "nonce", "difficulty", "sha3Uncles", "vrf", "vrfProof"}
    *_, lacking = harmony("block", block, params, told={"b": block, ENCODED: ""}, number=number)
    assert (lacking.standing, lacking.why) == (Standing.NOT_PROVABLE, "no node gives the header as it is hashed")


def test_that_a_block_of_harmony_has_no_logs_is_proved_by_its_bloom() -> None:
    number = int(HARMONY["block"]["number"], 16)
    *_, judgement = harmony("logs", [], told=ON_HARMONY, number=number)
    assert (judgement.standing, judgement.block) == (Standing.PROVED, HARMONY["block"]["hash"])
    *_, judgement = harmony("logs", [log(number, HARMONY["block"]["hash"])], told=ON_HARMONY, number=number)
    assert judgement.standing in FOUND
