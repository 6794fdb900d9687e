import { randomInt, randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { Outcome, type Return } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  DETAILS_BYTES_MAX,
  DISPOSITION_ITEMS_MAX,
  NOTE_MAX,
} from '../../services/contract/limits.ts';
import { detailsBytes } from '../../services/returns/store/details-size.ts';
import { startPartner, verified } from '../kit/journeys/hooks.ts';
import { callIn, journeyForTests } from '../kit/journeys/journey.ts';
import type { StackShop } from '../kit/stack.ts';
import { until } from '../kit/until.ts';

const journey = journeyForTests();

/** A character of four bytes, both in the database and in JSON. */
const BOX = '\u{1f4e6}';
const FULL_NOTE = BOX.repeat(NOTE_MAX);
/** With so many full notes the details would exceed 24 MiB. */
const LINES = 100;

const newId = () => BigInt(randomInt(1, 2 ** 47));

async function submitted(shop: StackShop): Promise<Return> {
  const { return: made } = await journey.services.returns.submitReturn({
    ...callIn(shop),
    idempotencyKey: randomUUID(),
    order: { providerOrderId: newId(), name: '#large' },
    currency: shop.currency,
    outcome: Outcome.REFUND,
    lines: Array.from({ length: LINES }, () => ({
      providerLineItemId: newId(),
      lineItemTitle: 'Scarf',
      quantity: 1,
      price: { shop: '20.00' },
    })),
  });
  if (!made) throw new Error('no return was made');
  return made;
}

/** A note of this many bytes. */
const noteOf = (bytes: number) => `${BOX.repeat(Math.floor(bytes / 4))}${'x'.repeat(bytes % 4)}`;

describe.each([
  [0, '2026-07'],
  [1, '2026-10'],
])('the largest return of shop %i, payloads of %s', (at, version) => {
  let shop: StackShop;
  let id: bigint;
  /** The next line without an assessment, and the longest note that it may have. */
  let last: { readonly line: number; readonly bytes: number };
  const key = () => shop.api_keys.all ?? '';

  const assess = (items: readonly object[]) =>
    journey.send({ path: '/api/2026-10/dispositioning/assess', json: { items }, key: key() });
  /** The call of the gateway, without the rate limit of a key. */
  const fill = async (notes: readonly (readonly [line: number, note: string])[]) => {
    const items = notes.map(([line, note]) => ({ lineItemId: BigInt(line), note }));
    const call = { ...callIn(shop), items };
    await journey.services.dispositions.assess(call, { timeoutMs: 60_000 });
  };
  /** On a busy machine this may take longer than the time limit of a read. */
  const details = (asked: string) =>
    until(async () => {
      const path = `/api/${asked}/warehouse/return/details?return_id=${id}`;
      const answer = await journey.send({ path, key: key() });
      return answer.status !== 503 && answer;
    });
  const measured = async () => {
    const call = { ...callIn(shop), returnIds: [id] };
    const [now] = (await journey.services.returns.getReturns(call)).returns;
    if (!now) throw new Error('the return is gone');
    return detailsBytes(now);
  };

  beforeAll(async () => {
    const found = journey.stack.file.shops[at];
    if (!found) throw new Error(`there is no shop ${at}`);
    shop = found;
    expect(shop.payload_version).toBe(version);
    const made = await submitted(shop);
    id = made.id;
    const [first = 0, ...lines] = made.lineItems.map(({ lineItemId }) => Number(lineItemId));
    const blank = await measured();
    await fill([[first, 'x']]);
    /** Bytes of an assessment in addition to its note. */
    const frame = (await measured()) - blank - 1;
    let room = DETAILS_BYTES_MAX - blank - frame - 1;
    while (room > 2 * (frame + 4 * NOTE_MAX)) {
      const fitting = Math.floor(room / (frame + 4 * NOTE_MAX)) - 1;
      const some = lines.splice(0, Math.min(fitting, DISPOSITION_ITEMS_MAX));
      await fill(some.map((line) => [line, FULL_NOTE]));
      room -= some.length * (frame + 4 * NOTE_MAX);
    }
    const half = Math.floor(room / 2) - frame;
    await fill([[lines.shift() ?? 0, noteOf(half)]]);
    last = { line: lines.shift() ?? 0, bytes: room - (half + frame) - frame };
  });

  test('one byte more than 24 MiB is rejected with the limit, and nothing is recorded', async () => {
    const { line, bytes } = last;
    const refused = await assess([{ line_item_id: line, note: noteOf(bytes + 1) }]);
    expect(refused).toMatchObject({
      status: 422,
      body: { message: expect.stringContaining('24 MiB'), errors: {} },
    });
    const { items } = await journey.services.dispositions.getDispositions({
      ...callIn(shop),
      lineItemIds: [BigInt(line)],
    });
    expect(items).toEqual([]);
    const accepted = await assess([{ line_item_id: line, note: noteOf(bytes) }]);
    expect(accepted.status).toBe(200);
  });

  test('a return of 24 MiB can be read in both versions, processed and delivered', async () => {
    for (const asked of ['2026-07', '2026-10']) {
      const answer = await details(asked);
      expect(answer).toMatchObject({ status: 200, body: { id: Number(id), state: 'open' } });
      const bytes = Buffer.byteLength(answer.text);
      expect(bytes).toBeLessThanOrEqual(DETAILS_BYTES_MAX);
      expect(bytes).toBeGreaterThan(0.99 * DETAILS_BYTES_MAX);
    }
    const partner = await startPartner(journey, shop);
    try {
      const hook = await partner.subscribe('return', 'return.closed');
      const path = `/api/2026-10/warehouse/return/${id}/process`;
      const processed = await journey.send({ method: 'POST', path, key: key() });
      expect(processed).toMatchObject({ status: 200, body: true });
      await until((see) => see(partner.received(hook).length) > 0, 120_000);
      const received = await partner.nth(hook, 1);
      expect(received.headers['x-service-api-version']).toBe(version);
      expect(verified(hook, received)).toMatchObject({ id: Number(id), state: 'closed' });
      expect((await details('2026-10')).body).toMatchObject({ state: 'closed' });
    } finally {
      await partner.stop();
    }
  });
});
