import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { createEndpoint } from './endpoint.ts';
import { openLedger } from './ledger.ts';

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '4999' },
    ledger: { type: 'string', default: 'commerce-ledger.jsonl' },
    orders: { type: 'string' },
    secret: { type: 'string', multiple: true, default: [] },
  },
});
const { COMMERCE_SECRETS = '' } = process.env;
const secrets = values.secret.length > 0 ? values.secret : COMMERCE_SECRETS.split(',');
if (!secrets.every((secret) => /^whsec_[A-Za-z0-9+/]{43}=$/.test(secret))) {
  process.stderr.write(
    'Pass the secret that `commerce connect` printed: --secret whsec_…, or COMMERCE_SECRETS with commas. During a rotation pass both.\n',
  );
  process.exit(1);
}
const ledger = openLedger(values.ledger);
/** A list of orders, each as docs/commerce.md shows the answer to `order.find`. */
const orders = values.orders && JSON.parse(readFileSync(values.orders, 'utf8'));
const log = (line: string): void => void process.stdout.write(`${line}\n`);
const server = createEndpoint({ secrets, ledger, log, ...(orders && { orders }) }).listen(
  Number(values.port),
  '127.0.0.1',
  (error) => {
    if (error) throw error;
    log(`listening at http://127.0.0.1:${values.port}/, ledger in ${values.ledger}`);
  },
);
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => server.close());
