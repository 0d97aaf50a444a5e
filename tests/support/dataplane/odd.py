"""Odd calls, as texts: every spelling of a block, objects that two readers may read differently, spaces anywhere."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from hypothesis import strategies as st

from rpcaccel import chains
from rpcaccel.core.plan.rules import Rule
from rpcaccel.simnode.chain.addresses import to_hex, to_one
from rpcaccel.simnode.chain.sim_chain import SimChain
from rpcaccel.simnode.methods.registry import ETHEREUM, HARMONY

METHODS = {"harmony": HARMONY, "ethereum": ETHEREUM}
Text = st.SearchStrategy[str]

NUMBERS = (0, 1, 5, 26, 38, 40, 41, 42, 49, 50, 51, 52, 1100)
"""Around the head (50), the last final block (42), and two whose hex and decimal forms are mixed up easily."""
ODD_REFERENCES = (
    *("-1", "-2", "-3", "-0", "26.0", "2.6e1", "1E1", "true", "null", "[]", "{}", '[["0x1a"]]'),
    *(str(2**63 - 1), str(2**63), str(2**64), str(-(2**63)), str(10**30)),
    *(f'"{hex(2**63 - 1)}"', f'"{hex(2**63)}"', f'"{hex(2**64)}"', f'"{2**63 - 1}"', f'"{2**63}"'),
    *('"latest"', '"earliest"', '"pending"', '"finalized"', '"safe"'),
    *('"LATEST"', '"Latest"', '"FINALIZED"', '" latest"', '"latest "', '""', '"0x"', '"0X"', '"-1"', '"+26"'),
    *('"0x0026"', '"0x00"', '"026"', '"0X1A"', '"0x1A"', '" 26"', '"26 "', '"0x1g"', '"1a"', '"0x-1"'),
    *('"\\u0032\\u0036"', '"\\u0030x1a"', '"l\\u0061test"', '"0x1\\u0061"', '"\\ud800"', '"é"', '"0x١"'),
)
ODD_OBJECTS = (
    "null", "true", "false", "[]", "{}", '"x"', "0", '{"withSigners":true}', '{"withSigners":false}',
    '{"WITHSIGNERS":true}', '{"withSigners":true,"withSigners":false}', '{"withsigners":false,"withSigners":true}',
    '{"fullTx":true,"inclStaking":true}', '{"inclStaking":true,"fullTx":true}', '{"unknown":1}', '{"withSigners":"no"}',
    '{"withSigners":null}', '{"withSigners":1}', '["0x0"]', '["0x0","0x1"]', '["0x1","0x0"]', "[25,75]",
)  # fmt: skip
COUNTS = ("0", "1", "2", '"0x0"', '"0x1"', '"0x2"', '"1"', "-1", "1.0", "null", '"x"')


def references(chain: SimChain) -> list[list[str]]:
    """Block references as JSON texts: numbers, odd ones, hashes, objects."""
    hashes = ["0x" + chain.branch.hash_of(number).hex() for number in (5, 50)] + ["0x" + "ab" * 32]
    spelled = [form.format(n=n, h=hex(n)) for n in NUMBERS for form in ("{n}", '"{n}"', '"{h}"')]
    named = [f'"{text}"' for one in hashes for text in (one, one.upper(), "0x" + one[2:].upper(), one[:-1])]
    objects = [
        form.format(h=one, n=n)
        for one, n in zip(hashes, ("0x5", "0x32", "latest"), strict=True)
        for form in (
            '{{"blockHash":"{h}"}}', '{{"blockHash":"{h}","requireCanonical":true}}', '{{"BlockHash":"{h}"}}',
            '{{"blockNumber":"{n}"}}', '{{"blockNumber":"{n}","blockHash":"{h}"}}', '{{"blocknumber":"{n}"}}',
            '{{"blockNumber":"{n}","blockNumber":"0x1"}}', '{{"blockNumber":"0x1","blockNumber":"{n}"}}',
            '{{"BLOCKNUMBER":"{n}","blockNumber":"0x1"}}', '{{"blockNumber":"{n}","more":1}}',
        )
    ]  # fmt: skip
    return [spelled, list(ODD_REFERENCES), named, objects]


def blocks(chain: SimChain) -> Text:
    """A block reference as JSON text."""
    return st.one_of(*(st.sampled_from(part) for part in references(chain)))


def every_spelling(chain: SimChain, rule: Rule) -> list[str]:
    """The calls of one method with each reference there is, everything else as usual."""
    make = chain.generator
    usual = {
        "string": f'"{to_hex(make.validators[0] if "Validator" in rule.method else make.accounts[0])}"',
        "address": f'"{to_hex(make.accounts[0])}"',
        "uint": "0" if chain.spec.kind == "harmony" else '"0x0"',
        "call_object": f'{{"to":"{to_hex(make.contract)}","data":"0x01"}}',
    }
    named = [_name(reader) for reader in METHODS[chain.spec.kind][rule.method].readers]
    if rule.split == "logs":
        forms = ['[{{"fromBlock":{0},"toBlock":"0x28"}}]', '[{{"fromBlock":"0x26","toBlock":{0}}}]']
        forms += ['[{{"blockHash":{0}}}]', '[{{"toBlock":{0}}}]', '[{{"fromBlock":{0}}}]']
    else:
        block = rule.block
        assert block is not None
        texts = [usual.get(name, _anything(rule, position)) for position, name in enumerate(named)]
        if "StorageAt" in rule.method:
            texts[1] = '"0x0"'
        texts = [text.replace("{", "{{").replace("}", "}}") for text in texts]
        places = [block.at] if block.start is None else [block.start, block.at]
        forms = [_form([*texts[:at], "{0}", *texts[at + 1 :]]) for at in places]
    spellings = [text for part in references(chain) for text in part]
    return [body(rule.method, form.format(text)) for form in forms for text in spellings]


def _anything(rule: Rule, position: int) -> str:
    if rule.block is not None and position == rule.block.start:
        return "38"
    if rule.method == "eth_feeHistory":
        return '"0x2"' if position == 0 else "[]"
    return "[]" if "Proof" in rule.method else '"0x28"' if "getBlocks" in rule.method and position == 1 else "{}"


def _form(texts: list[str]) -> str:
    return "[" + ",".join(texts) + "]"


def calls(chain: SimChain) -> Text:
    """The object of an eth_call."""
    make = chain.generator
    contract, account = to_hex(make.contract), to_hex(make.accounts[0])
    objects = [
        form.replace("C", contract).replace("A", account)
        for form in (
            '{"to":"C","data":"0x01"}', '{"data":"0x01","to":"C"}', '{"to":"C","input":"0x01"}', '{"to":"C"}',
            '{"to":"C","input":"0x02","data":"0x01"}', '{"to":"C","Data":"0x02"}', '{"TO":"C","data":"0x01"}',
            '{"to":"A","To":"C","data":"0x01"}', '{"To":"C","to":"A","data":"0x01"}', '{"to":"A","data":"0x01"}',
            '{"to":"C","to":"A","data":"0x01"}', '{"to":"C","data":"0x01","DATA":"0x02"}',
            '{"DATA":"0x02","to":"C","data":"0x01"}', '{"to":"C","data":"0xdeadbeef"}', '{"to":null,"data":null}',
            '{"to":"C","data":"\\u0030x01"}', '{"to":"C","data":"zz"}', "{}", "null", "[]",
        )
    ]  # fmt: skip
    if chain.spec.kind == "harmony":  # there the proxy gives a node the `data` that newer clients call `input`
        objects = [text for text in objects if '"input"' not in text]
    return st.sampled_from(objects)


def filters(chain: SimChain) -> Text:
    """The object of an eth_getLogs."""
    names = st.sampled_from(["fromBlock", "toBlock", "blockHash", "fromblock", "TOBLOCK", "address", "topics", "other"])
    address = f'"{to_hex(chain.generator.contract)}"'
    others = st.sampled_from([address, f"[{address}]", "[]", "null", "[[]]", '"0x"', "1"])
    members = st.lists(st.tuples(names, st.one_of(blocks(chain), blocks(chain), others)), max_size=4)
    return st.builds(lambda pairs: "{" + ",".join(f'"{name}":{value}' for name, value in pairs) + "}", members)


def _arguments(chain: SimChain, rule: Rule) -> list[Text]:
    """A text for each argument of a method, by what the node reads there."""
    make = chain.generator
    who = [to_one(make.accounts[0]), to_hex(make.accounts[0]), to_one(make.validators[0]), to_hex(make.contract)]
    addresses = st.sampled_from([json.dumps(one) for one in (*who, to_hex(make.accounts[0]).upper(), "zzz", "")])
    of_kind: dict[str, Text] = {
        "string": addresses,
        "address": addresses,
        "uint": st.sampled_from(COUNTS),
        "anything": st.sampled_from([*ODD_OBJECTS, *COUNTS]),
        "call_object": filters(chain) if rule.split == "logs" else calls(chain),
    }
    readers = METHODS[chain.spec.kind][rule.method].readers
    named = [_name(reader) for reader in readers]
    texts = [of_kind[name] if name in of_kind else blocks(chain) for name in named]
    if "StorageAt" in rule.method:
        texts[1] = st.sampled_from(['"0x0"', '"0x1"', '"0x00"', '"x"'])
    return texts


def _name(reader: Callable[..., object]) -> str:
    return getattr(reader, "__name__", "")


def params(chain: SimChain, rule: Rule) -> Text:
    """The params of a method: sometimes one too few or too many, spaces between any two tokens."""
    usual = st.tuples(*_arguments(chain, rule)).map(list)
    fewer = usual.map(lambda items: items[:-1])
    more = st.tuples(usual, st.sampled_from(["null", "{}", '"latest"', "1"])).map(lambda pair: [*pair[0], pair[1]])
    items = st.one_of(usual, usual, usual, usual, fewer, more)
    return st.builds(_spaced, items, st.sampled_from(["", "", " ", "\n", "\t ", "  \r\n"]))


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s\[\]{}:,"]+')


def _spaced(items: list[str], space: str) -> str:
    text = "[" + ",".join(items) + "]"
    return space.join(_TOKEN.findall(text)) if space else text


def rules(kind: str) -> list[Rule]:
    """The rules with a block argument whose methods the simulated node serves."""
    served = METHODS[kind]
    return sorted((r for r in chains.load(kind).rules if r.block and r.method in served), key=lambda r: r.method)


def bodies(chain: SimChain) -> st.SearchStrategy[list[str]]:
    """Some calls of one method, alike enough to be mistaken for one another."""
    return st.sampled_from(rules(chain.spec.kind)).flatmap(
        lambda rule: st.lists(params(chain, rule).map(lambda text: body(rule.method, text)), min_size=1, max_size=5)
    )


def body(method: str, text: str) -> str:
    return f'{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{text}}}'
