// Subscribes with ethers as its users do, and writes every event as a line of JSON:
// node ethers_client.cjs ws://host:port 0xcontract   (NODE_PATH names the folder of ethers)
"use strict";
const { SocketSubscriber, WebSocketProvider } = require("ethers");

const [url, address] = process.argv.slice(2);
const say = (event) => process.stdout.write(JSON.stringify(event) + "\n");

// ethers gives its users the number of a block only, and hides logs that are taken back from those who listen to logs:
// both are taken from subscriptions of its own kind.
class Headers extends SocketSubscriber {
  async _emit(_provider, { hash, parentHash, number }) {
    say({ head: { hash, parentHash, number } });
  }
}

class Logs extends SocketSubscriber {
  async _emit(_provider, { blockHash, blockNumber, logIndex, removed }) {
    say({ log: { blockHash, blockNumber, logIndex, removed } });
  }
}

async function main() {
  const provider = new WebSocketProvider(url);
  provider.websocket.onclose = (event) => {
    say({ closed: `${event.code} ${event.reason}` });
    process.exit(3);
  };
  await provider.getNetwork();
  new Headers(provider, ["newHeads"]).start();
  await provider.on("block", (number) => say({ number }));
  new Logs(provider, ["logs", { address }]).start();
  await provider.on({ address }, (log) => say({ event: [log.blockNumber, log.index] }));
}

main().catch((error) => {
  say({ failed: String(error) });
  process.exit(2);
});
