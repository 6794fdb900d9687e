import { create } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { describe, expect, test } from '@jest/globals';
import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { ErrorInfoSchema, ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { type Return, ReturnSchema } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { deadline } from '../../services/platform/process/deadlines.ts';
import { forCaller } from '../../services/platform/rpc/caller.ts';
import { until } from '../../test/kit/until.ts';
import type { Services } from '../services.ts';
import type { Reader } from './context.ts';
import { createReturnReader } from './returns.ts';

const KEY: Reader = { shopId: 1n, actor: { kind: Actor_Kind.API_KEY, id: 'k1', name: 'Key' } };
const ABSENT = 404n;

/** A fake service that finds all ids except `ABSENT`, and records its requests. */
function fakeReturns(o: { together?: (ids: bigint[]) => Promise<bigint[]> } = {}) {
  const together: { shopId: bigint; actorId: string; ids: bigint[] }[] = [];
  const alone: { id: bigint; timeoutMs: number }[] = [];
  const returnOf = (id: bigint): Return => create(ReturnSchema, { id });
  const idOf = (request: { selector?: { case?: string | undefined; value?: unknown } }): bigint =>
    typeof request.selector?.value === 'bigint' ? request.selector.value : 0n;
  const client: Pick<Services['returns'], 'findReturn' | 'findReturns'> = {
    async findReturn(request, options) {
      const id = idOf(request);
      alone.push({ id, timeoutMs: options?.timeoutMs ?? 0 });
      if (id === ABSENT) throw new ConnectError('no such return', Code.NotFound);
      return { $typeName: 'rms.returns.v1.FindReturnResponse', return: returnOf(id) };
    },
    async findReturns(request) {
      const ids = (request.selectors ?? []).map(idOf);
      together.push({
        shopId: BigInt(request.shopId ?? 0),
        actorId: request.actor?.id ?? '',
        ids,
      });
      const foundIds = o.together ? await o.together(ids) : ids.filter((id) => id !== ABSENT);
      return {
        $typeName: 'rms.returns.v1.FindReturnsResponse',
        found: foundIds.map((id) => ({
          $typeName: 'rms.returns.v1.FoundReturn',
          positions: ids.flatMap((requested, at) => (requested === id ? [at] : [])),
          return: returnOf(id),
        })),
      };
    },
  };
  return { client, together, alone };
}

function reads(client: Parameters<typeof createReturnReader>[0]) {
  const read = createReturnReader(client);
  return async (value: bigint, reader: Reader = KEY) =>
    (await read(reader, { case: 'returnId', value })).id;
}

describe('reading returns', () => {
  test('reads in one turn of the event loop are one batch, and each gets its own return', async () => {
    const { client, together, alone } = fakeReturns();
    const read = reads(client);
    expect(await Promise.all([read(7n), read(8n), read(7n)])).toEqual([7n, 8n, 7n]);
    expect(together).toEqual([{ shopId: 1n, actorId: 'k1', ids: [7n, 8n, 7n] }]);
    expect(alone).toEqual([]);
  });

  test('a single read is not a batch, and nothing is cached', async () => {
    const { client, together, alone } = fakeReturns();
    const read = reads(client);
    expect([await read(7n), await read(7n)]).toEqual([7n, 7n]);
    expect(together).toEqual([]);
    expect(alone.map(({ id }) => id)).toEqual([7n, 7n]);
  });

  test('reads of different shops or actors are not in one batch', async () => {
    const { client, together } = fakeReturns();
    const read = reads(client);
    const readers = [
      KEY,
      { ...KEY, shopId: 2n },
      { ...KEY, actor: { ...KEY.actor, id: 'k2' } },
      { ...KEY, actor: { ...KEY.actor, kind: Actor_Kind.USER } },
    ];
    await Promise.all(readers.flatMap((reader) => [read(1n, reader), read(2n, reader)]));
    expect(together.map(({ shopId, actorId, ids }) => [shopId, actorId, ids])).toEqual([
      [1n, 'k1', [1n, 2n]],
      [2n, 'k1', [1n, 2n]],
      [1n, 'k2', [1n, 2n]],
      [1n, 'k1', [1n, 2n]],
    ]);
  });

  test('a batch has at most 32 reads', async () => {
    const { client, together } = fakeReturns();
    const read = reads(client);
    const ids = Array.from({ length: 70 }, (_, at) => BigInt(at + 1));
    expect(await Promise.all(ids.map((id) => read(id)))).toEqual(ids);
    expect(together.map((call) => call.ids.length)).toEqual([32, 32, 6]);
  });

  test('a return that does not exist fails only its own read', async () => {
    const { client, alone } = fakeReturns();
    const read = reads(client);
    const [existing, absent] = await Promise.allSettled([read(7n), read(ABSENT)]);
    expect(existing).toMatchObject({ status: 'fulfilled', value: 7n });
    expect(absent).toMatchObject({ status: 'rejected', reason: { code: Code.NotFound } });
    expect(alone.map(({ id }) => id)).toEqual([ABSENT]);
  });

  test.each([Code.Internal, Code.Unimplemented, Code.ResourceExhausted])(
    'after a failed batch (%s), each return is read alone in the remaining time',
    async (code) => {
      const { client, alone } = fakeReturns({
        together: () => Promise.reject(new ConnectError('no', code)),
      });
      const read = reads(client);
      expect(await Promise.all([read(7n), read(8n)])).toEqual([7n, 8n]);
      expect(alone.map(({ id }) => id)).toEqual([7n, 8n]);
      for (const { timeoutMs } of alone) expect(timeoutMs).toBeLessThan(deadline(5_000));
    },
  );

  test.each([Code.Unavailable, Code.DeadlineExceeded])(
    'an unavailable service (%s) is not called again for each read',
    async (code) => {
      const { client, alone } = fakeReturns({
        together: () => Promise.reject(new ConnectError('unavailable', code)),
      });
      const read = reads(client);
      const results = await Promise.allSettled([read(7n), read(8n)]);
      for (const result of results) {
        expect(result).toMatchObject({ status: 'rejected', reason: { code } });
      }
      expect(alone).toEqual([]);
    },
  );

  const LARGE = 1n;

  /** Creates a reader whose large reads block until `release`. `shops` lists the shop of each large read that has begun. */
  function largeReads() {
    const blocked = Promise.withResolvers<void>();
    const shops: unknown[] = [];
    const { client } = fakeReturns({ together: async (ids) => ids.filter((id) => id !== LARGE) });
    const read = reads({
      ...client,
      async findReturn(request, options) {
        const isLarge = request.selector?.case === 'returnId' && request.selector.value === LARGE;
        if (!isLarge) return client.findReturn(request, options);
        if (request.maxBytes) throw tooLarge();
        shops.push(request.shopId);
        await blocked.promise;
        return client.findReturn(request, options);
      },
    });
    return { read, shops, release: blocked.resolve };
  }

  test('at most two large returns are in memory until their responses are sent; small ones are not limited', async () => {
    const { read, shops, release } = largeReads();
    const ends = Array.from({ length: 20 }, () => new AbortController());
    const all = ends.map((end, at) =>
      forCaller(end.signal, () => read(LARGE, { ...KEY, shopId: BigInt(at + 1) })),
    );
    const settled = Promise.allSettled(all);
    await until(() => shops.length === 2);
    expect(await read(7n)).toBe(7n);
    expect(shops.length).toBe(2);

    release();
    await all[0];
    // Its response is not ready yet, so its permit is still in use.
    await read(7n);
    expect(shops.length).toBe(2);
    ends[0]?.abort();
    await until(() => shops.length === 3);
    for (const end of ends) end.abort();
    await settled;
  });

  test('one shop reads one large return at a time, and does not block another shop', async () => {
    const { read, shops, release } = largeReads();
    const end = new AbortController();
    const readLarge = (shopId: bigint) =>
      forCaller(end.signal, () => read(LARGE, { ...KEY, shopId })).catch(() => {});
    const ofFirst = [1n, 1n, 1n, 1n].map(readLarge);
    await until(() => shops.length === 1);
    const other = readLarge(2n);
    await until(() => shops.length === 2);
    expect(shops).toEqual([1n, 2n]);
    release();
    end.abort();
    await Promise.all([...ofFirst, other]);
  });
});

function tooLarge(): ConnectError {
  const value = { reason: ErrorReason.ANSWER_TOO_LARGE };
  const details = [{ desc: ErrorInfoSchema, value }];
  return new ConnectError('too large', Code.ResourceExhausted, undefined, details);
}
