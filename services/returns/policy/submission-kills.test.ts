import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { UpdatePolicyRequestSchema } from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import { PolicyUse } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { returnRequest, submission } from '../../../test/kit/builders.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { actor, newLine, newShop, submitDeps } from '../../../test/kit/services/processing.ts';
import { type Kill, poolOf, simulateProcess, WHENS } from '../../../test/kit/simulated-process.ts';
import { submitReturn } from '../submit/submit.ts';
import { updatePolicy } from './change-policy.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

const COUNTS = `
select (select count(*)::int from returns where shop_id = $1) as returns,
       (select count(*)::int from events where shop_id = $1) as events,
       (select count(*)::int from timeline where shop_id = $1 and kind = 'return.flagged') as flagged`;

test('a submission that is killed anywhere and repeated makes one return, in review, and one event', async () => {
  const run = async (kill: Kill | undefined) => {
    const shopId = await newShop(db.pool);
    const policy = { review: { valueAbove: '1.00', returnsAbove: 1, returnsDays: 1 } };
    await updatePolicy(db.pool, create(UpdatePolicyRequestSchema, { shopId, actor, policy }));
    const request = submission(
      returnRequest(shopId, {
        lines: [newLine()],
        customer: { email: 'ann@example.com' },
        policy: PolicyUse.APPLY,
      }),
    );
    const submit = (pool = db.pool) => submitReturn(submitDeps(pool), request);
    const simulated = simulateProcess(kill);
    const first = submit(poolOf(simulated, db.pool));
    await (kill ? first.catch(() => {}) : first);
    await simulated.finished();
    const { return: submitted } = await submit();
    // A repeat does not count itself: the e-mail address has one return.
    expect(submitted.flagReasons).toEqual(['The goods are worth more than 1.00 GBP']);
    const { rows } = await db.pool.query(COUNTS, [shopId]);
    expect([kill, rows]).toEqual([kill, [{ returns: 1, events: 1, flagged: 1 }]]);
    return simulated.steps;
  };
  const steps = await run(undefined);
  expect(steps).toBeGreaterThan(5);
  for (let at = 1; at <= steps; at += 1) {
    for (const when of WHENS) await run({ at, when });
  }
}, 60_000);
