import { rm } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type Hook, type HookPartner, startPartner, verified } from '../kit/journeys/hooks.ts';
import { type Journey, startJourney } from '../kit/journeys/journey.ts';
import { temporaryFolder } from '../kit/postgres/temporary-folder.ts';
import type { Ref } from '../kit/stack.ts';
import { until } from '../kit/until.ts';

/** Number of returns that are being processed at the kill. */
const COUNT = 30;

/** Work in flight belongs to the killed process until its leases expire, after a minute or more. Milliseconds. */
const LEASE_MS = 120_000;

let folder: string;
let journey: Journey;
let partner: HookPartner;
beforeAll(async () => {
  folder = temporaryFolder();
  journey = await startJourney(['--data', folder]);
  partner = await startPartner(journey, journey.stack.shop);
}, 120_000);
afterAll(async () => {
  await partner?.stop();
  await journey?.stop();
  await rm(folder, { recursive: true, force: true });
}, 60_000);

const process = (id: number) =>
  journey.send({ method: 'POST', path: `/api/2026-10/warehouse/return/${id}/process` });

const stateOf = async (id: number) => {
  const path = `/api/2026-10/warehouse/return/details?return_id=${id}`;
  return ((await journey.send({ path })).body as { state?: string }).state;
};

interface Ledger {
  readonly refunds: readonly { readonly amount: string; readonly currency: string }[];
}

test('SIGKILL at any moment loses and duplicates nothing', async () => {
  const hook = await partner.subscribe('return', 'return.closed');
  const refs = await Promise.all(
    Array.from({ length: COUNT }, () => journey.stack.fixture('open')),
  );

  const asked = Promise.allSettled(refs.map(({ id }) => process(id)));
  await until((see) => see(partner.received(hook).length) >= 3);
  await journey.stack.kill();
  await asked;

  const before = journey.stack.file;
  await journey.stop();
  journey = await startJourney(['--data', folder]);
  // The stack has the same addresses, keys and ids as before.
  expect(journey.stack.file).toMatchObject({ base_url: before.base_url, grpc: before.grpc });
  expect(journey.stack.shop).toMatchObject({ id: 1, api_keys: before.shops[0]?.api_keys });
  expect(journey.stack.shop.fixtures).toEqual(before.shops[0]?.fixtures);
  // A signed-in assistant stays signed in: the key of its token and its grant still exist.
  expect(await assistantStatus(before.users[0]?.mcp_tokens['1'])).toBe(200);

  await Promise.all(refs.map(processUntilClosed));
  await until((see) => see(closedIds(hook).size) === COUNT, LEASE_MS);

  expect(closedIds(hook)).toEqual(new Set(refs.map(({ id }) => id)));
  for (const { id } of refs) {
    const ledger = await journey.stack.control<Ledger>('GET', `/commerce/orders?return_id=${id}`);
    expect(ledger).toMatchObject({
      orders: [],
      gift_cards: [],
      refunds: [{ amount: '87.00', currency: 'GBP' }],
    });
  }
  expect(idsOfEvents(hook)).toHaveLength(COUNT);
  await until(async () => Object.values(await outbox()).every((waiting) => waiting === 0));
}, 300_000);

async function assistantStatus(token = ''): Promise<number> {
  const answer = await fetch(journey.stack.file.mcp.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
  });
  await answer.arrayBuffer();
  return answer.status;
}

const outbox = () => journey.stack.control<Record<string, number>>('GET', '/outbox');

/** Repeats the call until the return is closed. A response lost in the kill does not show what was done. */
async function processUntilClosed({ id }: Ref): Promise<void> {
  const isClosed = async () => {
    if ((await stateOf(id)) === 'closed') return true;
    await process(id);
    return (await stateOf(id)) === 'closed';
  };
  await until(isClosed, 60_000, 500);
}

/** Returns whose return.closed arrived. Verifies each signature. */
function closedIds(hook: Hook): Set<unknown> {
  return new Set(partner.received(hook).map((received) => verified(hook, received).id));
}

/** Pairs of event and delivery. A repeated delivery keeps its id, so each event has one pair. */
function idsOfEvents(hook: Hook): string[] {
  const pairs = partner
    .received(hook)
    .map(({ headers }) => `${headers['x-service-event-id']} ${headers['webhook-id']}`);
  return [...new Set(pairs)];
}
