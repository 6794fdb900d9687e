import { Code } from '@connectrpc/connect';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import {
  actor,
  cart,
  failure,
  type RpcBench,
  startRpcBench,
} from '../../../test/kit/services/rpc-bench.ts';
import { DomainError, fieldOf, invalidField, isUnavailable, reasonOf } from '../errors.ts';

let bench: RpcBench;
beforeEach(async () => {
  bench = await startRpcBench();
});
afterEach(() => bench.close());

describe('errors over gRPC', () => {
  test('a DomainError keeps its code, text, reason and field', async () => {
    const server = await bench.serve({
      getCart: () => {
        throw new DomainError(Code.NotFound, ErrorReason.CART_NOT_FOUND, 'no cart – “x”');
      },
      createCart: () => {
        throw invalidField('cart[0]', 'must be an id');
      },
    });
    const absent = await failure(bench.clientOf(server).getCart(cart));
    expect([absent.code, absent.rawMessage]).toEqual([Code.NotFound, 'no cart – “x”']);
    expect([reasonOf(absent), fieldOf(absent)]).toEqual([ErrorReason.CART_NOT_FOUND, undefined]);
    const invalid = await failure(bench.clientOf(server).createCart({ shopId: 1n, actor }));
    expect([invalid.code, fieldOf(invalid)]).toEqual([Code.InvalidArgument, 'cart[0]']);
    expect(bench.logged).toEqual([]);
  });

  test('any other error is INTERNAL; its text is logged and not returned to the caller', async () => {
    const server = await bench.serve({
      getCart: () => {
        throw new TypeError('row of table carts');
      },
    });
    const error = await failure(bench.clientOf(server).getCart(cart));
    expect([error.code, error.rawMessage]).toEqual([Code.Internal, 'internal error']);
    expect(bench.logged.join()).toContain('row of table carts');
  });

  test('an unavailable database is UNAVAILABLE, without text', async () => {
    const server = await bench.serve({
      createCart: () => {
        throw Object.assign(new Error('connect db:5432'), { code: 'ECONNREFUSED' });
      },
    });
    const error = await failure(bench.clientOf(server).createCart({ shopId: 1n, actor }));
    expect([error.code, error.rawMessage]).toEqual([Code.Unavailable, 'unavailable']);
    expect(isUnavailable(error)).toBe(true);
  });

  test('a DomainError of another service passes unchanged, its outage without text', async () => {
    const down = await bench.serve({
      getCart: () => {
        throw new DomainError(Code.NotFound, ErrorReason.CART_NOT_FOUND, 'no cart');
      },
    });
    const middle = await bench.serve({
      getCart: () => bench.clientOf(down).getCart(cart),
      createCart: async () => {
        await bench.clientOf({ port: 1 }).getCart(cart);
        return {};
      },
    });
    expect(reasonOf(await failure(bench.clientOf(middle).getCart(cart)))).toBe(
      ErrorReason.CART_NOT_FOUND,
    );
    const outage = await failure(bench.clientOf(middle).createCart({ shopId: 1n, actor }));
    expect([outage.code, outage.rawMessage]).toEqual([Code.Unavailable, 'unavailable']);
  });

  test('a service that rejects our token is an internal error for the caller', async () => {
    const down = await bench.serve({});
    const middle = await bench.serve({
      getCart: () => bench.clientOf(down, { token: 'u'.repeat(32) }).getCart(cart),
    });
    expect((await failure(bench.clientOf(middle).getCart(cart))).code).toBe(Code.Internal);
  });
});
