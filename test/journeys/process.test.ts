import { describe, expect, test } from '@jest/globals';
import { callIn, type Journey, journeyForTests, untilState } from '../kit/journeys/journey.ts';
import { until } from '../kit/until.ts';

// Processing from the REST request to the ledger of the embedded platform. services/returns/processing has the rules.

const journey = journeyForTests();

const ledgerOf = ({ stack }: Journey, id: number) =>
  stack.control<Record<string, readonly object[]>>('GET', `/commerce/orders?return_id=${id}`);
const process = (id: number, json?: object) =>
  journey.send({
    method: 'POST',
    path: `/api/2026-10/warehouse/return/${id}/process`,
    ...(json && { json }),
  });

/** Published events of one return with this trigger. */
async function eventsOf(id: number, trigger: string) {
  // An event is written together with its change. An empty outbox means that it was published.
  await until(async () => {
    const waiting = await journey.stack.control<Record<string, number>>('GET', '/outbox');
    return waiting.returns === 0;
  });
  const events = await journey.stack.control<{ event: Readonly<Record<string, unknown>> }[]>(
    'GET',
    '/events?after=0',
  );
  return events
    .map(({ event }) => event)
    .filter((event) => event.returnId === String(id) && event.trigger === trigger);
}

test('makes a refund once, in the presentment currency', async () => {
  const { id } = await journey.stack.fixture('two_currencies');
  await process(id);
  const body = await untilState(journey, id, 'closed');
  const { refund: amount } = body.presentment as { refund: string };
  const ledger = await ledgerOf(journey, id);
  expect(ledger).toMatchObject({
    orders: [],
    gift_cards: [],
    refunds: [{ amount, currency: 'USD', calls: 1 }],
  });
  const refund = { amount, currency: 'USD', gateway: 'embedded', provider: 'embedded' };
  const provider_refund_id = Object(ledger.refunds?.[0]).id;
  expect(body).toMatchObject({
    refund: amount,
    refunds: [{ ...refund, provider_refund_id: String(provider_refund_id) }],
    provider_refund_object: [{ return_id: id, provider_refund_id }],
    presentment: { refund_breakdown: [refund] },
  });
});

test('after passing failures creates one exchange order, with the details of the request as they were sent', async () => {
  const { id } = await journey.stack.fixture('exchange');
  const failure = { return_id: id, kind: 'passing', times: 2 };
  await journey.stack.control('POST', '/commerce/fail', failure);
  await journey.send({
    path: `/api/2026-10/warehouse/return/${id}/process`,
    raw: '{"weight":1.10,"ref":12345678901234567890,"note":"With care","express":true,"nothing":null}',
    headers: { 'content-type': 'application/json' },
  });
  const body = await untilState(journey, id, 'closed');
  const ledger = await ledgerOf(journey, id);
  expect(ledger).toMatchObject({
    gift_cards: [],
    refunds: [],
    orders: [{ amount: '87.00', currency: 'GBP', calls: 1 }],
  });
  expect(body).toMatchObject({
    exchange_order_id: [Object(ledger.orders?.[0]).id],
    exchange_order_name: [`#EX${id}`],
    refunds: [],
  });
  const { entries } = await journey.services.returns.getTimeline({
    ...callIn(journey.stack.shop),
    returnId: BigInt(id),
  });
  expect(entries.find(({ kind }) => kind === 'return.processing.queued')?.facts).toEqual({
    weight: '1.10',
    ref: '12345678901234567890',
    note: 'With care',
    express: 'true',
    nothing: 'null',
  });
  expect(await eventsOf(id, 'return.closed')).toHaveLength(1);
  expect(await eventsOf(id, 'return.processing.failed')).toEqual([]);
});

describe('a return whose goods did not come', () => {
  test('is not paid without a word: assess and process name the missing lines', async () => {
    const { id, line_item_ids } = await journey.stack.fixture('open');
    const [missing, back] = line_item_ids;
    const items = [
      { line_item_id: missing, disposition_outcome: 'missing' },
      { line_item_id: back, disposition_outcome: 'back_to_stock' },
    ];
    const path = '/api/2026-10/dispositioning/assess';
    const assessed = await journey.send({ method: 'POST', path, json: { items } });
    const hint = `line item ${missing} is recorded as missing, but processing pays for the whole return: if it must not, put the return into review or take what is missing out of it before it is processed`;
    expect([assessed.status, assessed.headers['x-service-hint']]).toEqual([200, hint]);
    const processed = await process(id);
    expect([processed.body, processed.headers['x-service-hint']]).toEqual([true, hint]);
  });

  test('gets no hint when nothing is missing', async () => {
    const { id } = await journey.stack.fixture('open');
    expect((await process(id)).headers['x-service-hint']).toBeUndefined();
  });
});
