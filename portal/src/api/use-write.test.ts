import { Code, ConnectError, createRouterTransport } from '@connectrpc/connect';
import { afterEach, expect, test } from '@jest/globals';
import { onlineManager, QueryObserver } from '@tanstack/react-query';
import { ReturnsService } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { WebhooksService } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { sayOnLine } from '../../../test/kit/portal/on-line.ts';
import { createCache } from './client.ts';
import { NoAnswer } from './errors.ts';
import { sendWrite } from './use-write.ts';

/** What a browser keeps for a tab. */
const stored = new Map<string, string>();
Object.assign(globalThis, {
  sessionStorage: {
    getItem: (key: string) => stored.get(key) ?? null,
    setItem: (key: string, value: string) => stored.set(key, value),
    removeItem: (key: string) => stored.delete(key),
  },
});
sayOnLine(true);

afterEach(() => onlineManager.setOnline(true));

/** Adds notes. The service answers with these codes, one after the other; undefined is a success. */
function notes(answers: readonly (Code | undefined)[]) {
  const keys: string[] = [];
  const transport = createRouterTransport(({ rpc }) => {
    rpc(ReturnsService.method.addNote, ({ idempotencyKey }) => {
      keys.push(idempotencyKey);
      const code = answers[keys.length - 1];
      if (code !== undefined) throw new ConnectError('No.', code);
      return {};
    });
  });
  const send = (
    returnId: string,
    o: { readonly key?: string; readonly shopId?: string; readonly userId?: string } = {},
  ) =>
    sendWrite(
      { ...transport, shopId: o.shopId ?? '1', userId: o.userId ?? '1' },
      ReturnsService.method.addNote,
      {
        input: { returnId: BigInt(returnId), text: 'A note' },
        hasDialog: true,
        key: o.key,
      },
    );
  return { keys, send };
}

test('a read of an offline browser fails at once', () => {
  onlineManager.setOnline(false);
  const read = new QueryObserver(createCache(), {
    queryKey: ['a read'],
    queryFn: () => Promise.reject(new ConnectError('no network', Code.Unknown)),
  });
  const end = read.subscribe(() => {});
  expect(read.getCurrentResult().fetchStatus).toBe('fetching');
  end();
});

test('a repeat of a write without an answer has the same idempotency key', async () => {
  const { keys, send } = notes([
    ...[Code.Unavailable, Code.DeadlineExceeded, Code.Unavailable, Code.Unavailable],
    // Rejected before the method: says nothing of the first try.
    ...[Code.ResourceExhausted, Code.Unauthenticated, Code.Unimplemented],
    ...[undefined, undefined],
  ]);
  await expect(send('1')).rejects.toBeInstanceOf(NoAnswer);
  // Another return is another action, and so is that of another shop or of another user of the tab.
  await expect(send('2')).rejects.toBeInstanceOf(NoAnswer);
  await expect(send('1', { shopId: '2' })).rejects.toBeInstanceOf(NoAnswer);
  await expect(send('1', { userId: '2' })).rejects.toBeInstanceOf(NoAnswer);
  await expect(send('1')).rejects.toMatchObject({ code: Code.ResourceExhausted });
  await expect(send('1')).rejects.toMatchObject({ code: Code.Unauthenticated });
  await expect(send('1')).rejects.toMatchObject({ code: Code.Unimplemented });
  expect(await send('1')).toMatchObject({ isOnce: true });
  // After an answer the same note is a new action.
  expect(await send('1')).toMatchObject({ isOnce: false });
  expect(keys.slice(4, 8)).toEqual([keys[0], keys[0], keys[0], keys[0]]);
  expect(new Set(keys).size).toBe(5);
});

test('a write that was only rejected does not count as an earlier try', async () => {
  const { keys, send } = notes([Code.ResourceExhausted, undefined]);
  await expect(send('4')).rejects.toMatchObject({ code: Code.ResourceExhausted });
  expect(await send('4')).toMatchObject({ isOnce: false });
  expect(keys[0]).not.toBe(keys[1]);
});

test('an open dialog repeats with its key, however late, and another dialog does not after ten minutes', async () => {
  const { keys, send } = notes([Code.Unavailable, Code.Unavailable, undefined]);
  const age = () => {
    for (const [target, value] of stored) {
      const kept = JSON.parse(value);
      stored.set(target, JSON.stringify({ ...kept, keptAt: kept.keptAt - 601_000 }));
    }
  };
  const failure = await send('5').catch((error: unknown) => error);
  if (!(failure instanceof NoAnswer)) throw failure;
  age();
  await expect(send('5', { key: failure.key })).rejects.toBeInstanceOf(NoAnswer);
  age();
  expect(await send('5')).toMatchObject({ isOnce: false });
  expect(keys).toEqual([failure.key, failure.key, expect.anything()]);
  expect(keys[2]).not.toBe(failure.key);
});

test('what a repeat finds deleted was deleted by the first try', async () => {
  const answers = [Code.NotFound, Code.Unavailable, Code.NotFound];
  const transport = createRouterTransport(({ rpc }) => {
    rpc(WebhooksService.method.deleteSubscription, () => {
      throw new ConnectError('No.', answers.shift());
    });
  });
  const remove = () =>
    sendWrite(transport, WebhooksService.method.deleteSubscription, {
      input: { subscriptionId: 6n },
      hasDialog: true,
    });
  await expect(remove()).rejects.toMatchObject({ code: Code.NotFound });
  await expect(remove()).rejects.toBeInstanceOf(NoAnswer);
  expect(await remove()).toMatchObject({ isOnce: false });
});

test.each([Code.InvalidArgument, Code.NotFound, Code.FailedPrecondition, Code.AlreadyExists])(
  'an answer of the service with code %s ends the action',
  async (code) => {
    const { keys, send } = notes([Code.Unavailable, code, undefined]);
    await expect(send('3')).rejects.toBeInstanceOf(NoAnswer);
    await expect(send('3')).rejects.toMatchObject({ code });
    await send('3');
    expect(new Set(keys).size).toBe(2);
  },
);
