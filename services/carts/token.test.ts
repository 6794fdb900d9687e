import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { CartsService } from '../../proto/gen/rms/carts/v1/carts_pb.ts';
import {
  actor,
  newShop,
  type RunningTestService,
  refusal,
  runService,
} from '../../test/kit/services/running-service.ts';
import { createCart as createIn } from './create.ts';
import { startCarts } from './start.ts';
import { hashLeftTokens } from './store.ts';
import { hashOf } from './token.ts';

let service: RunningTestService<typeof CartsService>;
beforeAll(async () => {
  service = await runService({ schema: 'carts', service: CartsService, start: startCarts });
});
afterAll(() => service.stop());

const NO_CART = { code: Code.NotFound, reason: 'CART_NOT_FOUND', field: undefined };

describe('the stored token', () => {
  const rowsOf = async (shopId: bigint) =>
    (await service.db.pool.query('select * from carts where shop_id = $1', [shopId])).rows;

  test.each([[undefined], ['a key']])(
    'is a hash, which does not give access: key %s',
    async (key) => {
      const shopId = newShop();
      const { cart } = await service.client.createCart({
        shopId,
        actor,
        entries: [{ variantId: 1n }],
        ...(key !== undefined && { idempotencyKey: key }),
      });
      if (!cart) throw new Error('no cart in the response');
      const [row] = await rowsOf(shopId);
      expect(row).toMatchObject({ token: hashOf(cart.token), token_hashed: true });
      expect(
        JSON.stringify(row, (_, value) => (typeof value === 'bigint' ? `${value}` : value)),
      ).not.toContain(cart.token);
      const stolen = service.client.getCart({ shopId, actor, token: row.token });
      expect(await refusal(stolen)).toEqual(NO_CART);
    },
  );

  test('of a repeat is derived with the key of the keyring with which the cart was created', async () => {
    const shopId = newShop();
    const { pool } = service.db;
    const [older, newer] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];
    const cart = {
      shopId,
      actor,
      entries: [{ variantId: 1n, objectJson: '' }],
      shopifyNull: false,
      shopify: undefined,
      idempotencyKey: 'k',
    };
    const made = await createIn({ pool, tokenKeys: new Map([['1', older]]) }, cart);
    const rotated = new Map([
      ['2', newer],
      ['1', older],
    ]);
    expect((await createIn({ pool, tokenKeys: rotated }, cart)).token).toBe(made.token);
    const gone = createIn({ pool, tokenKeys: new Map([['2', newer]]) }, cart);
    await expect(gone).rejects.toMatchObject({ code: Code.AlreadyExists });
  });

  test('of a cart that the previous release inserted with a key is returned to a repeat', async () => {
    const shopId = newShop();
    const cart = { shopId, actor, entries: [{ variantId: 1n }], idempotencyKey: 'k' };
    await service.client.createCart(cart);
    const token = 'k'.repeat(43);
    await service.db.pool.query(
      'update carts set token = $2, token_hashed = false where shop_id = $1',
      [shopId, token],
    );
    expect((await service.client.createCart(cart)).cart).toMatchObject({ token });
    expect(await rowsOf(shopId)).toHaveLength(1);
  });

  test('of a cart that the previous release inserted is found, and hashed an hour later', async () => {
    const shopId = newShop();
    const token = 't'.repeat(43);
    await service.db.pool.query(
      `insert into carts (shop_id, token, variant_ids, object_texts, shopify_null)
       values ($1, $2, '{1}', '{""}', false)`,
      [shopId, token],
    );
    const read = async () => (await service.client.getCart({ shopId, actor, token })).cart;
    expect(await read()).toMatchObject({ token });
    await hashLeftTokens(service.db.pool);
    expect(await rowsOf(shopId)).toMatchObject([{ token }]);
    await service.db.pool.query(
      `update carts set created_at = now() - interval '2 hours' where shop_id = $1`,
      [shopId],
    );
    await hashLeftTokens(service.db.pool);
    expect(await rowsOf(shopId)).toMatchObject([{ token: hashOf(token), token_hashed: true }]);
    expect(await read()).toMatchObject({ token });
  });
});
