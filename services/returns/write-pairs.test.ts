import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { LabelStatus, type Return } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { line } from '../../test/kit/builders.ts';
import { outcomesOfPair, pairsOf } from '../../test/kit/postgres/raced.ts';
import {
  firstLine,
  type ReturnsBench,
  startReturnsBench,
} from '../../test/kit/services/returns-bench.ts';
import { actor } from '../../test/kit/services/running-service.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

const by = ({ shopId, id: returnId }: Return) => ({ shopId, actor, returnId });

/** Writes of a return. Each returns the state after it. */
const WRITES: Readonly<Record<string, (of: Return) => Promise<unknown>>> = {
  cancel: async (of) => (await bench.client.cancelReturn(by(of))).return?.state,
  flag: async (of) =>
    (await bench.client.flagReturn({ ...by(of), reasons: ['odd'] })).return?.state,
  unflag: async (of) => (await bench.client.unflagReturn(by(of))).return?.state,
  edit: async (of) => {
    const changes = [{ lineItemId: firstLine(of), quantity: 2 }];
    const edit = { ...by(of), expectedRevision: of.revision, changes };
    return (await bench.client.editReturn(edit)).return?.lineItems[0]?.quantity;
  },
  label: async (of) => {
    const label = { ...by(of), carrier: 'Post', status: LabelStatus.IN_TRANSIT };
    await bench.client.recordLabel({ ...label, idempotencyKey: `${of.id}` });
  },
  arrival: async (of) => {
    const arrival = { shopId: of.shopId, actor, lineItemIds: [firstLine(of)] };
    return (await bench.client.recordArrival(arrival)).return?.state;
  },
  'instant refund': async (of) => {
    await bench.client.openInstantRefund({
      ...by(of),
      amount: '1.00',
      chargeReference: 'c',
      idempotencyKey: `${of.id}`,
    });
  },
  redact: async ({ shopId }) =>
    (await bench.client.redactCustomer({ shopId, actor, email: 'ann@example.com' })).returns,
};

async function stored({ shopId, id }: Return): Promise<unknown> {
  const { rows } = await bench.db.pool.query(
    `select r.state, r.flag_reasons, r.revision, r.customer_email,
            (select array_agg(l.quantity) from return_lines l where l.shop_id = r.shop_id and l.return_id = r.id) as units,
            (select array_agg(t.kind order by t.kind) from timeline t where t.shop_id = r.shop_id and t.return_id = r.id) as kinds,
            (select array_agg(e.trigger order by e.trigger) from events e where e.shop_id = r.shop_id and e.key = concat(r.shop_id, ':', r.id)) as triggers
       from returns r where r.shop_id = $1 and r.id = $2`,
    [shopId, id],
  );
  return rows;
}

const text = 'select from returns where shop_id = $1 and id = $2 for update';

describe('two writes of one return at the same time have the outcome of one after the other', () => {
  // Two redactions at the same time record two redactions. The second one removes nothing.
  const pairs = pairsOf(Object.keys(WRITES)).filter((pair) => pair.join() !== 'redact,redact');

  test.each(pairs)('%s, then %s', async (...pair) => {
    const { together, serial } = await outcomesOfPair(
      {
        pool: bench.db.pool,
        make: async () => {
          const lines = [line({ quantity: 1, orderedQuantity: 5 })];
          return bench.submit(await bench.shop(), {
            lines,
            customer: { email: 'ann@example.com' },
          });
        },
        lock: ({ shopId, id }) => ({ text, values: [shopId, id] }),
        writes: WRITES,
        stored,
      },
      pair,
    );
    expect(together).toEqual(serial);
  });
});
