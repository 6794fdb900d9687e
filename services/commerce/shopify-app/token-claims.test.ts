import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { createNoopMeter } from '@opentelemetry/api';
import { advanceClock } from '../../../test/kit/clock.ts';
import {
  SHOPIFY_CLIENT_ID,
  SHOPIFY_CLIENT_SECRET,
} from '../../../test/kit/commerce/fake-shopify-app.ts';
import {
  type InstallBench,
  startInstallBench,
  type TestStore,
} from '../../../test/kit/commerce/install-bench.ts';
import { raced } from '../../../test/kit/postgres/raced.ts';
import { silent } from '../../../test/kit/services/processing.ts';
import { newKeyringText, parseKeyring } from '../../platform/security/keyring.ts';
import type { CommerceClient } from '../http/client.ts';
import { createAccessTokens } from './access-tokens.ts';

// Of several processes one refreshes the token of a store, whatever the clock of the database does.

const keyring = parseKeyring(newKeyringText());
const app = { clientId: SHOPIFY_CLIENT_ID, clientSecret: SHOPIFY_CLIENT_SECRET, extraScopes: [] };
const meter = createNoopMeter();

let under: InstallBench;
let client: CommerceClient;
let store: TestStore;
beforeAll(async () => {
  under = await startInstallBench({ COMMERCE_KEYRING: keyring });
  client = under.shopify.openClient();
});
afterAll(async () => {
  await client?.close();
  await under?.stop();
});
/** The token of the store expires at once. Later ones are valid for an hour. */
beforeEach(async () => {
  under.shopify.reset();
  store = await under.newStore();
  under.shopify.tokens.expiresIn = 5;
  await under.install(store);
  under.shopify.tokens.expiresIn = 3_600;
});

function newProcess() {
  const { pool } = under.bench.db;
  return createAccessTokens({ pool, client, app, keyring, meter, logger: silent });
}

const setClaim = (until: string) =>
  under.bench.db.pool.query(
    `update shopify_tokens set refreshing_until = ${until} where shop_id = $1`,
    [store.shopId],
  );
const isValid = (token: string) => under.shopify.tokens.isValid(store.shopDomain, token);

test('of processes that claim a token at the same time one refreshes it', async () => {
  const { received } = under.shopify.receiver;
  received.length = 0;
  const text = 'select from shopify_tokens where shop_id = $1 for update';
  const processes = [newProcess(), newProcess(), newProcess()];
  // Each process has read that nobody refreshes the token, and waits to claim it.
  const calls = processes.map((one) => () => one.of(store));
  await raced(under.bench.db.pool, { text, values: [store.shopId] }, calls);
  expect(received).toHaveLength(1);
  const all = await Promise.all(processes.map((one) => one.of(store)));
  expect(all.map(({ accessToken }) => isValid(accessToken))).toEqual([true, true, true]);
});

test.each([
  ['forward', '-'],
  ['back', '+'],
])(
  'a token is refreshed by one process, although the clock of the database is set an hour %s',
  async (_, sign) => {
    const { answer, received } = under.shopify.receiver;
    const other = newProcess();
    received.length = 0;
    under.shopify.receiver.answer = async (...request) => {
      await setClaim(`refreshing_until ${sign} interval '1 hour'`);
      await expect(other.of(store)).rejects.toThrow('has expired');
      await answer(...request);
    };
    expect(isValid((await newProcess().of(store)).accessToken)).toBe(true);
    expect(received).toHaveLength(1);
  },
);

test('the claim of a dead process ends 15 seconds after another saw it, although the clock was set back', async () => {
  await setClaim("now() + interval '1 hour'");
  const tokens = newProcess();
  await expect(tokens.of(store)).rejects.toThrow('has expired');
  advanceClock(15_000);
  expect(isValid((await tokens.of(store)).accessToken)).toBe(true);
});
