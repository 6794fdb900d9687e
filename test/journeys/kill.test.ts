import { rm } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { AutomaticProcessing_Moment as Moment } from '../../proto/gen/rms/returns/v1/policy_pb.ts';
import { type Hook, type StartedPartner, startPartner, verified } from '../kit/journeys/hooks.ts';
import { callIn, type StartedJourney, startJourney } from '../kit/journeys/journey.ts';
import { temporaryFolder } from '../kit/postgres/temporary-folder.ts';
import type { Ref } from '../kit/stack.ts';
import { until } from '../kit/until.ts';

/** Number of returns that are being processed at the kill. */
const COUNT = 30;
/** Number of returns that are being cancelled at the kill. */
const CANCELLED = 10;
/** Number of returns whose goods arrive at the kill. */
const ARRIVING = 10;

/** Number of orders of which a unit is submitted at the kill. */
const SUBMITTED = 10;
/** Number of returns that the policy processes because their goods arrive at the kill. */
const AUTOMATIC = 10;

/** Work in flight belongs to the killed process until its leases expire, after a minute or more. Milliseconds. */
const LEASE_MS = 120_000;

let folder: string;
let journey: StartedJourney;
let partner: StartedPartner;
beforeAll(async () => {
  folder = temporaryFolder();
  journey = await startJourney(['--data', folder]);
  partner = await startPartner(journey, journey.stack.shop);
});
afterAll(async () => {
  await partner?.stop();
  await journey?.stop();
  await rm(folder, { recursive: true, force: true });
});

const process = (id: number) =>
  journey.send({ method: 'POST', path: `/api/2026-10/warehouse/return/${id}/process` });

const cancel = (id: number) =>
  journey.send({ path: `/api/2026-10/returns/${id}/cancel`, json: { reason: 'Kept' } });

/** Records that one unit of a return arrived, with the same key each time. */
const receive = ({ id, line }: { readonly id: number; readonly line: number }) =>
  journey.send({
    path: '/api/2026-10/warehouse/arrivals',
    headers: { 'Idempotency-Key': `arrival of ${id}` },
    json: { return_id: id, items: [{ line_item_id: line, quantity: 1 }] },
  });

/** Submits one of the two mugs of a sample order, with the same key each time. */
const submit = (n: number) =>
  journey.send({
    path: '/api/2026-10/returns',
    headers: { 'Idempotency-Key': `submission ${n}` },
    json: { order_name: `#T10-${n}`, items: [{ sku: 'SAMPLE-MUG', quantity: 1 }] },
  });

/** A return, and its first line item. */
async function arriving({ id }: { readonly id: number }) {
  const path = `/api/2026-10/warehouse/return/details?return_id=${id}`;
  const { body } = await journey.send({ path });
  const { line_items } = body as { line_items: readonly { line_item_id: number }[] };
  return { id, line: line_items[0]?.line_item_id ?? 0 };
}

/** Submits a unit to a policy that processes it when it arrives. */
async function automatic(n: number) {
  const { status, body } = await submit(SUBMITTED + n);
  expect(status).toBe(201);
  return arriving(body as { id: number });
}

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

  const updates = await partner.subscribe('return', 'return.updated');
  const kept = await Promise.all(
    Array.from({ length: CANCELLED }, () => journey.stack.fixture('open')),
  );

  const arrived = await Promise.all(
    Array.from({ length: ARRIVING }, async () => arriving(await journey.stack.fixture('open'))),
  );

  await journey.services.returns.updatePolicy({
    ...callIn(journey.stack.shop),
    policy: { process: { moment: Moment.ARRIVED } },
  });
  const byPolicy = await Promise.all(Array.from({ length: AUTOMATIC }, (_, n) => automatic(n + 1)));

  const created = await partner.subscribe('return', 'return.created');
  const orders = Array.from({ length: SUBMITTED }, (_, n) => n + 1);

  const asked = Promise.allSettled([
    ...refs.map(({ id }) => process(id)),
    ...kept.map(({ id }) => cancel(id)),
    ...[...byPolicy, ...arrived].map(receive),
    ...orders.map(submit),
  ]);
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
  for (const one of byPolicy) expect([200, 201]).toContain((await receive(one)).status);
  await until((see) => see(closedIds(hook).size) === COUNT + AUTOMATIC, LEASE_MS);

  expect(closedIds(hook)).toEqual(new Set([...refs, ...byPolicy].map(({ id }) => id)));
  for (const { id } of refs) await expectRefundedOnce(id, '87.00');
  for (const { id } of byPolicy) await expectRefundedOnce(id, '12.00');
  expect(idsOfEvents(hook)).toHaveLength(COUNT + AUTOMATIC);
  for (const { id } of kept) await expectCancelledOnce(id, updates);
  for (const of of arrived) await expectArrivedOnce(of, updates);
  for (const n of orders) await expectSubmittedOnce(n, created);
  await until(async () => Object.values(await outbox()).every((waiting) => waiting === 0));
});

async function expectRefundedOnce(id: number, amount: string): Promise<void> {
  const ledger = await journey.stack.control<Ledger>('GET', `/commerce/orders?return_id=${id}`);
  const refunds = [{ amount, currency: 'GBP' }];
  expect(ledger).toMatchObject({ orders: [], gift_cards: [], refunds });
}

/** Repeats a cancellation whose response may be lost. One entry and one event are the proof of one cancellation. */
async function expectCancelledOnce(id: number, updates: Hook): Promise<void> {
  expect(await cancel(id)).toMatchObject({ status: 200, body: { state: 'cancelled' } });
  await expectOnce(id, updates, {
    kind: 'return.cancelled',
    isOf: ({ state }) => state === 'cancelled',
  });
}

/** The same for an arrival. */
async function expectArrivedOnce(of: { id: number; line: number }, updates: Hook): Promise<void> {
  const { status, body } = await receive(of);
  expect([200, 201]).toContain(status);
  expect(body).toMatchObject({
    return_id: of.id,
    items: [{ quantity: 1, unexpected_quantity: 0 }],
  });
  await expectOnce(of.id, updates, {
    kind: 'return.arrived',
    // A label of the return was an update before.
    isOf: ({ line_items = [] }: Payload) => line_items.some((one) => one.returned_at !== null),
  });
}

/** The same for a submission: its order has one return. */
async function expectSubmittedOnce(n: number, created: Hook): Promise<void> {
  const { status, body } = await submit(n);
  expect([200, 201]).toContain(status);
  const { id } = body as { id: number };
  await expectOnce(id, created, { kind: 'return.submitted', isOf: () => true });
  const path = `/api/2026-10/orders/eligibility?order_name=${encodeURIComponent(`#T10-${n}`)}`;
  const { lines } = (await journey.send({ path })).body as { lines: readonly object[] };
  expect(lines[0]).toMatchObject({ returnable_quantity: 1 });
}

interface Payload {
  readonly state?: unknown;
  readonly line_items?: readonly { readonly returned_at: unknown }[];
}

/** Expects one entry of a kind in the timeline of a return, and one event of this kind. */
async function expectOnce(
  id: number,
  updates: Hook,
  o: { readonly kind: string; readonly isOf: (payload: Payload) => boolean },
): Promise<void> {
  const { body } = await journey.send({ path: `/api/2026-10/returns/${id}/timeline` });
  const { timeline } = body as { timeline: readonly { kind: string }[] };
  expect(timeline.filter(({ kind }) => kind === o.kind)).toHaveLength(1);
  const eventsOf = () => {
    const ofReturn = partner.received(updates).filter((one) => {
      const payload = verified(updates, one);
      return payload.id === id && o.isOf(payload as Payload);
    });
    return new Set(ofReturn.map(({ headers }) => headers['x-service-event-id']));
  };
  await until((see) => see(eventsOf().size) >= 1, LEASE_MS);
  expect(eventsOf().size).toBe(1);
}

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
