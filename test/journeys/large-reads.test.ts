import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { request } from 'undici';
import { restClient } from '../kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../kit/gateway/test-gateway.ts';
import { firstLine, type ReturnsBench, startReturnsBench } from '../kit/services/returns-bench.ts';
import { until } from '../kit/until.ts';

const MEBIBYTE = 2 ** 20;
/** The maximum size of a return. Bytes. */
const SIZE = 24 * MEBIBYTE;
const READERS = 20;
/** The deadline of the gateway's calls. A rejection arrives much earlier. */
const CALL_DEADLINE_MS = 5_000;

let returns: ReturnsBench;
let under: TestGateway;
beforeAll(async () => {
  returns = await startReturnsBench();
  const { target } = returns;
  under = await startTestGateway({ RETURNS_TARGET: target });
}, 60_000);
afterAll(() => Promise.all([under.stop(), returns.stop()]), 60_000);

const pathOf = (id: bigint) => `/api/2026-10/warehouse/return/details?return_id=${id}`;

test('20 clients that read the largest return or disconnect early do not disturb another shop', async () => {
  const send = restClient(under);
  // The gateway's first shop has the same id as the first shop of the service.
  const large = await returns.submit(await returns.shop());
  const url = `https://x.example/${'x'.repeat(2_000)}`;
  await returns.db.pool.query(
    `insert into uploads (shop_id, return_id, line_item_id, kind, url)
     select $1, $2, $3, 'image', $4 from generate_series(1, $5)`,
    [large.shopId, large.id, firstLine(large), url, Math.ceil(SIZE / url.length)],
  );
  const other = await returns.submit(await returns.shop());
  const key = await under.newKey({ shopId: await under.newShop() });
  const readOther = () => send({ path: pathOf(other.id), key });
  expect((await readOther()).status).toBe(200);

  const state = { isOver: false };
  const readers = Array.from({ length: READERS }, (_, nth) => leaveOrRead(large.id, nth % 2 === 0));
  const reading = Promise.all(readers).finally(() => {
    state.isOver = true;
  });
  const statuses = new Set<number>();
  do {
    const askedAt = performance.now();
    const { status } = await readOther();
    // Gateway, service and clients share one event loop here, so a call may reach its deadline.
    if (status !== 503 || performance.now() - askedAt < CALL_DEADLINE_MS) statuses.add(status);
  } while (!state.isOver);

  for (const { status, retryAfter } of await reading) {
    if (status === 503) expect(Number(retryAfter)).toBeGreaterThanOrEqual(1);
    else expect(status).toBe(200);
  }
  expect([...statuses]).toEqual([200]);
  // Calls of disconnected clients may still use the shop's permit. Then the status is 503 and the client retries.
  const whole = await until(async () => {
    const answer = await send({ path: pathOf(large.id) });
    expect([200, 503]).toContain(answer.status);
    return answer.status === 200 && answer;
  });
  expect(whole.text.length).toBeGreaterThan(SIZE);
}, 300_000);

/** A client that disconnects at the first bytes of the response, or reads all of it. */
async function leaveOrRead(id: bigint, leaves: boolean) {
  const { statusCode, headers, body } = await request(`${under.gateway.baseUrl}${pathOf(id)}`, {
    headers: { 'x-authorization': under.key },
  });
  if (leaves) body.on('error', () => {}).destroy();
  else await body.dump({ limit: Number.MAX_SAFE_INTEGER });
  return { status: statusCode, retryAfter: headers['retry-after'] };
}
