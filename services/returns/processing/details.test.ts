import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  exchangeWith,
  newReturn,
  newShop,
  requestProcessing,
  runDeps,
  runDue,
  timelineOf,
} from '../../../test/kit/services/processing.ts';
import { createEmbeddedCommerce } from '../commerce/embedded.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

test.each(['1.10', '12345678901234567890', '-0', '1E+2', '7'])(
  'the number %s reaches orders and timeline as it was sent',
  async (number) => {
    const commerce = createEmbeddedCommerce(db.pool);
    const submitted = await newReturn(db.pool, await newShop(db.pool), exchangeWith('gift card'));
    const details = { n: { value: { case: 'number' as const, value: number } } };
    await requestProcessing(db.pool, submitted, { details });
    await runDue(runDeps(db.pool, commerce));
    const { orders, giftCards } = await commerce.ordersOf(submitted.id);
    const written = [...orders, ...giftCards].map((one) => JSON.stringify(one.additionalDetails));
    expect(written).toEqual([`{"n":${number}}`, `{"n":${number}}`]);
    const queued = (await timelineOf(db.pool, submitted)).find((one) =>
      one.kind.endsWith('queued'),
    );
    expect(queued?.facts).toEqual({ n: number });
  },
);
