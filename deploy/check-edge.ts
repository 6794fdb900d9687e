import { checkEdge } from './check/edge.ts';

/**
 * `node deploy/check-edge.ts <address>` attacks your public address for half a minute, with hundreds of connections, and
 * prints which limits are missing there. Exits with 1 if there is any. Needs only this checkout.
 */
const [address] = process.argv.slice(2);
if (!address) {
  process.stderr.write('usage: node deploy/check-edge.ts https://returns.example.com\n');
  process.exitCode = 2;
} else {
  for (const { name, isMet, advice } of await checkEdge(address)) {
    process.stdout.write(isMet ? `ok: ${name}\n` : `missing: ${name}\n  ${advice}\n`);
    if (!isMet) process.exitCode = 1;
  }
  // Connections that were left open end with the process.
  process.exit();
}
