import { createHash, createSecretKey } from 'node:crypto';
import { timestampDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { CartsService } from '../../proto/gen/rms/carts/v1/carts_pb.ts';
import {
  actor,
  newShop,
  type RunningTestService,
  refusal,
  runService,
} from '../../test/kit/services/running-service.ts';
import { hashOf } from './cart.ts';
import { createCart as createIn, purgeCarts, startCarts } from './service.ts';

let service: RunningTestService<typeof CartsService>;
beforeAll(async () => {
  service = await runService({ schema: 'carts', service: CartsService, start: startCarts });
});
afterAll(() => service.stop());

const NO_CART = { code: Code.NotFound, reason: 'CART_NOT_FOUND', field: undefined };

const bare = (variantId: bigint) => ({ variantId });

async function createCart(shopId: bigint, request: object) {
  const { cart } = await service.client.createCart({ shopId, actor, ...request });
  if (!cart) throw new Error('no cart in the response');
  return cart;
}

/** Moves the creation of a cart into the past. */
async function age(token: string, days: number): Promise<void> {
  await service.db.pool.query(
    'update carts set created_at = now() - make_interval(days => $2) where token_hash = $1',
    [hashOf(token), days],
  );
}

describe('create cart', () => {
  test('returns what was sent, with a token of 32 bytes', async () => {
    const objectJson = '{ "quantity":2, "variant_id": 7.0, "note":"\\u0000 é", "variant_id":8 }';
    const entries = [bare(5n), { variantId: 8n, objectJson }];
    const cart = await createCart(newShop(), { entries, shopify: 'YQ' });
    expect(cart).toMatchObject({
      entries: [
        { variantId: 5n, objectJson: '' },
        { variantId: 8n, objectJson },
      ],
      shopify: 'YQ',
      shopifyNull: false,
    });
    expect(cart.token).toMatch(/^[\w-]{43}$/);
    expect(Buffer.from(cart.token, 'base64url')).toHaveLength(32);
    expect(cart.createdAt && timestampDate(cart.createdAt).getTime()).toBeGreaterThan(0);
  });

  test('distinguishes an absent shopify from null', async () => {
    const absent = await createCart(newShop(), { entries: [bare(1n)] });
    expect([absent.shopify, absent.shopifyNull]).toEqual([undefined, false]);
    const none = await createCart(newShop(), { entries: [bare(1n)], shopifyNull: true });
    expect([none.shopify, none.shopifyNull]).toEqual([undefined, true]);
  });

  test('gives every cart a different token', async () => {
    const shopId = newShop();
    const carts = await Promise.all(
      Array.from({ length: 10 }, () => createCart(shopId, { entries: [bare(1n)] })),
    );
    expect(new Set(carts.map(({ token }) => token)).size).toBe(10);
  });

  test('publishes an event about the cart, without shopify and token', async () => {
    const shopId = newShop();
    const { token } = await createCart(shopId, {
      entries: [bare(1n), bare(2n)],
      shopify: 'c2VjcmV0',
    });
    const hash = createHash('sha256').update(token).digest('hex');
    expect(await service.events(shopId)).toMatchObject([
      {
        trigger: 'cart.created',
        shopId,
        actor,
        detail: { case: 'cart', value: { token: hash, entries: 2 } },
      },
    ]);
    const { rows } = await service.db.pool.query<{ value: Buffer }>(
      'select value from events where shop_id = $1',
      [shopId],
    );
    expect(rows[0]?.value.includes('c2VjcmV0')).toBe(false);
    expect(rows[0]?.value.includes(token)).toBe(false);
    const { rows: keyed } = await service.db.pool.query<{ key: string }>(
      'select key from events where shop_id = $1',
      [shopId],
    );
    expect(keyed).toEqual([{ key: `${shopId}:${hash}` }]);
  });

  test.each(['', 'YQ', 'YQ==', 'YWI=', 'YWI', 'YWJj', '+/+/'])(
    'accepts %j as Base64',
    async (shopify) => {
      expect((await createCart(newShop(), { entries: [bare(1n)], shopify })).shopify).toBe(shopify);
    },
  );

  test('accepts 500 entries and the largest variant id', async () => {
    const entries = Array.from({ length: 500 }, () => bare(2n ** 53n - 1n));
    expect((await createCart(newShop(), { entries })).entries).toHaveLength(500);
  });

  test.each([
    ['no entries', { entries: [] }, 'entries'],
    ['501 entries', { entries: Array.from({ length: 501 }, () => bare(1n)) }, 'entries'],
    ['a variant id of zero', { entries: [bare(1n), bare(0n)] }, 'entries[1].variant_id'],
    ['a variant id above 2^53-1', { entries: [bare(2n ** 53n)] }, 'entries[0].variant_id'],
    ['an entry that is not JSON', entry('{'), 'entries[0].object_json'],
    ['an entry that is a list', entry('[1]'), 'entries[0].object_json'],
    ['an entry without variant id', entry('{"id":1}'), 'entries[0].object_json'],
    ['an entry with another variant id', entry('{"variant_id":2}'), 'entries[0].object_json'],
    [
      'a variant id that is no integer',
      entry('{"variant_id":1.00000000000000001}'),
      'entries[0].object_json',
    ],
    ['a variant id that is a text', entry('{"variant_id":"1"}'), 'entries[0].object_json'],
    ['shopify that is no Base64', { entries: [bare(1n)], shopify: 'a*b=' }, 'shopify'],
    ['shopify with wrong padding', { entries: [bare(1n)], shopify: 'YQ=' }, 'shopify'],
    ['shopify of an impossible length', { entries: [bare(1n)], shopify: 'YWJjZ' }, 'shopify'],
    [
      'shopify both as a value and as null',
      { entries: [bare(1n)], shopify: '', shopifyNull: true },
      'shopify_null',
    ],
  ])('rejects %s', async (_, request, field) => {
    const shopId = newShop();
    expect(await refusal(createCart(shopId, request))).toEqual({
      code: Code.InvalidArgument,
      reason: 'INVALID_FIELD',
      field,
    });
    expect(await service.events(shopId)).toEqual([]);
  });
});

describe('create cart with an idempotency key', () => {
  const entries = [bare(1n), { variantId: 2n, objectJson: '{"variant_id":2}' }];

  test('a repeat returns the first cart, and one event is published', async () => {
    const shopId = newShop();
    const request = { entries, shopify: 'YQ', idempotencyKey: 'k' };
    const first = await createCart(shopId, request);
    const another = { kind: actor.kind, id: 'another', name: 'Another' };
    expect(await createCart(shopId, { ...request, actor: another })).toEqual(first);
    expect(await service.events(shopId)).toHaveLength(1);
    expect((await createCart(newShop(), request)).token).not.toBe(first.token);
  });

  test('one of ten concurrent calls stores a cart', async () => {
    const shopId = newShop();
    const request = { entries, idempotencyKey: 'k'.repeat(200) };
    const carts = await Promise.all(Array.from({ length: 10 }, () => createCart(shopId, request)));
    expect(new Set(carts.map(({ token }) => token)).size).toBe(1);
    const { rowCount } = await service.db.pool.query('select from carts where shop_id = $1', [
      shopId,
    ]);
    expect(rowCount).toBe(1);
    expect(await service.events(shopId)).toHaveLength(1);
  });

  test.each([
    ['entries', { entries: [bare(1n)] }],
    ['an entry as it was written', { entries: [bare(1n), bare(2n)] }],
    ['shopify', { entries, shopify: 'YQ' }],
    ['a null shopify', { entries, shopifyNull: true }],
  ])('is rejected with other content: %s', async (_, other) => {
    const shopId = newShop();
    await createCart(shopId, { entries, idempotencyKey: 'k' });
    expect(await refusal(createCart(shopId, { ...other, idempotencyKey: 'k' }))).toEqual({
      code: Code.AlreadyExists,
      reason: 'IDEMPOTENCY_CONFLICT',
      field: 'idempotency_key',
    });
  });

  test('of more than 200 characters is rejected', async () => {
    const request = { entries, idempotencyKey: 'k'.repeat(201) };
    expect(await refusal(createCart(newShop(), request))).toMatchObject({
      field: 'idempotency_key',
    });
  });
});

function entry(objectJson: string) {
  return { entries: [{ variantId: 1n, objectJson }] };
}

describe('get cart', () => {
  test('reads a cart by its token, only in its shop', async () => {
    const shopId = newShop();
    const cart = await createCart(shopId, { entries: [bare(3n)], shopify: 'YQ==' });
    const { token } = cart;
    expect((await service.client.getCart({ shopId, actor, token })).cart).toEqual(cart);
    const elsewhere = service.client.getCart({ shopId: newShop(), actor, token });
    expect(await refusal(elsewhere)).toEqual(NO_CART);
  });

  test.each(['', 'unknown', 'a\0b', 'x'.repeat(100_000)])(
    'finds no cart for another token',
    async (token) => {
      const call = service.client.getCart({ shopId: newShop(), actor, token });
      expect(await refusal(call)).toEqual(NO_CART);
    },
  );

  test('does not find a cart after 30 days', async () => {
    const shopId = newShop();
    const { token } = await createCart(shopId, { entries: [bare(3n)] });
    await age(token, 29);
    await service.client.getCart({ shopId, actor, token });
    await age(token, 30);
    expect(await refusal(service.client.getCart({ shopId, actor, token }))).toEqual(NO_CART);
  });
});

describe('purge', () => {
  test('deletes only carts older than 30 days', async () => {
    const shopId = newShop();
    const young = await createCart(shopId, { entries: [bare(1n)] });
    const old = await createCart(shopId, { entries: [bare(1n)] });
    await age(young.token, 29);
    await age(old.token, 31);
    expect(await purgeCarts(service.db.pool)).toBe(false);
    const { rows } = await service.db.pool.query(
      'select token_hash from carts where shop_id = $1',
      [shopId],
    );
    expect(rows).toEqual([{ token_hash: hashOf(young.token) }]);
  });

  test('two concurrent purges do not block each other', async () => {
    const { token } = await createCart(newShop(), { entries: [bare(1n)] });
    await age(token, 31);
    const other = new pg.Client({ connectionString: service.db.url });
    await other.connect();
    await other.query('begin');
    await other.query('select from carts where token_hash = $1 for update', [hashOf(token)]);
    expect(await purgeCarts(service.db.pool)).toBe(false);
    await other.query('rollback');
    await other.end();
  });
});

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
      expect(row).toMatchObject({ token_hash: hashOf(cart.token) });
      expect(
        JSON.stringify(row, (_, value) => (typeof value === 'bigint' ? `${value}` : value)),
      ).not.toContain(cart.token);
      const stolen = service.client.getCart({ shopId, actor, token: row.token_hash });
      expect(await refusal(stolen)).toEqual(NO_CART);
    },
  );

  test('of a repeat is derived with the key of the keyring with which the cart was created', async () => {
    const shopId = newShop();
    const { pool } = service.db;
    const [older, newer] = [1, 2].map((byte) => createSecretKey(Buffer.alloc(32, byte)));
    if (!older || !newer) throw new Error('two keys were made');
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
});
