import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { ORDER } from '../../test/kit/services/look-up.ts';
import { onlyProvider } from '../../test/kit/services/processing.ts';
import { createEmbeddedCommerce } from './embedded.ts';
import { createOrderFinder, type OrderFinder } from './find-order.ts';
import { CommerceFailure, type CommerceProvider, NoLookUp } from './provider.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

type LookUp = NonNullable<CommerceProvider['lookUp']>;

/** A finder, and the questions that reach the provider. */
function finderOver(answer: LookUp): { finder: OrderFinder; asked: unknown[] } {
  const asked: unknown[] = [];
  const lookUp: LookUp = (order, signal) => {
    asked.push(order);
    return answer(order, signal);
  };
  const providers = onlyProvider({ ...createEmbeddedCommerce(db.pool), lookUp });
  return { finder: createOrderFinder({ pool: db.pool, providers }), asked };
}

describe('a finder of orders', () => {
  const name = '#1001';

  test('asks the provider once for many questions about one order', async () => {
    const { finder, asked } = finderOver(async () => ORDER);
    const all = await Promise.all(
      Array.from({ length: 50 }, () => finder.find({ shopId: 1n, name: ' #1001' })),
    );
    expect(all.every(({ order }) => order === ORDER)).toBe(true);
    await finder.find({ shopId: 1n, name });
    expect(asked).toEqual([{ shopId: 1n, name }]);
  });

  test('asks again when the answer is too old for the caller', async () => {
    const { finder, asked } = finderOver(async () => ORDER);
    await finder.find({ shopId: 1n, name });
    await finder.find({ shopId: 1n, name }, { maxAgeMs: -1 });
    expect(asked).toHaveLength(2);
  });

  test('answers no shop with the answer for another one, and no name with that for an id', async () => {
    const { finder, asked } = finderOver(async () => undefined);
    await finder.find({ shopId: 1n, name: '7' });
    await finder.find({ shopId: 2n, name: '7' });
    await finder.find({ shopId: 1n, id: 7n });
    expect(asked).toHaveLength(3);
  });

  test('keeps no failure', async () => {
    let fails = true;
    const { finder } = finderOver(async () => {
      if (fails) throw new CommerceFailure('passing', 'busy');
      return ORDER;
    });
    const find = () => finder.find({ shopId: 1n, name });
    await expect(find()).rejects.toMatchObject({ message: 'busy' });
    fails = false;
    expect(await find()).toMatchObject({ looksUp: true, order: ORDER });
  });

  test('keeps at most 200 answers of a provider', async () => {
    const { finder, asked } = finderOver(async () => undefined);
    for (let id = 1n; id <= 201n; id += 1n) await finder.find({ shopId: 1n, id });
    await finder.find({ shopId: 1n, id: 201n });
    expect(asked).toHaveLength(201);
    await finder.find({ shopId: 1n, id: 1n });
    expect(asked).toHaveLength(202);
  });

  test('fails while the connection of the shop cannot be used, instead of saying that nobody looks up', async () => {
    const unusable = new CommerceFailure('passing', 'cannot be used');
    const forLookUps = () => Promise.reject(unusable);
    const finder = createOrderFinder({ pool: db.pool, providers: { forLookUps } });
    const failed = { code: Code.Unavailable, reason: ErrorReason.COMMERCE_FAILED };
    await expect(finder.find({ shopId: 1n, name })).rejects.toMatchObject(failed);
  });

  test('says that a provider looks up no orders', async () => {
    const { finder } = finderOver(async () => {
      throw new NoLookUp('the endpoint answered 400');
    });
    expect(await finder.find({ shopId: 1n, name })).toMatchObject({ looksUp: false });
    const { lookUp: _, ...without } = createEmbeddedCommerce(db.pool);
    const other = createOrderFinder({ pool: db.pool, providers: onlyProvider(without) });
    expect(await other.find({ shopId: 1n, name })).toMatchObject({ looksUp: false });
  });
});
