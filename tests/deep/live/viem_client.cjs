// Subscribes with viem as its users do, and writes every event as a line of JSON:
// node viem_client.cjs ws://host:port 0xcontract   (NODE_PATH names the folder of viem)
"use strict";
const { createPublicClient, webSocket } = require("viem");

const [url, address] = process.argv.slice(2);
const say = (event) => process.stdout.write(JSON.stringify(event) + "\n");
const fail = (error) => {
  say({ failed: String(error) });
  process.exit(2);
};
const hex = (number) => "0x" + number.toString(16);

async function main() {
  const client = createPublicClient({ transport: webSocket(url, { reconnect: false }) });
  const { socket } = await client.transport.getRpcClient();
  socket.addEventListener("close", (event) => {
    say({ closed: `${event.code} ${event.reason}` });
    process.exit(3);
  });
  // viem gives its users the number of a block only: the header is taken from the subscription that stands below.
  await client.transport.subscribe({
    params: ["newHeads"],
    onData: ({ result: { hash, parentHash, number } }) => say({ head: { hash, parentHash, number } }),
    onError: fail,
  });
  client.watchBlockNumber({ onBlockNumber: (number) => say({ number: Number(number) }), onError: fail, poll: false });
  client.watchEvent({
    address,
    onLogs: (logs) => {
      for (const log of logs) {
        const place = { blockHash: log.blockHash, blockNumber: hex(log.blockNumber), logIndex: hex(log.logIndex) };
        say({ log: { ...place, removed: log.removed } });
      }
    },
    onError: fail,
    poll: false,
  });
}

main().catch(fail);
