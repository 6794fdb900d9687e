import { checkEdge } from './check/edge.ts';

/**
 * `node deploy/check-edge.ts <address>` attacks your public address for half a minute, a weak one for a minute, with
 * hundreds of connections, and prints which limits are missing there. Exits with 1 if there is any, with 2 if it could
 * not try. Needs only this checkout.
 */
const [address] = process.argv.slice(2);
if (!address) {
  process.stderr.write('usage: node deploy/check-edge.ts https://returns.example.com\n');
  process.exit(2);
}
try {
  for await (const { name, isMet, advice } of checkEdge(address)) {
    process.stdout.write(isMet ? `ok: ${name}\n` : `missing: ${name}\n  ${advice}\n`);
    if (!isMet) process.exitCode = 1;
  }
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
  process.exitCode = 2;
}
// Connections that were left open end with the process.
process.exit();
