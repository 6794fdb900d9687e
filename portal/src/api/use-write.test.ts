import { Code, ConnectError, createRouterTransport } from '@connectrpc/connect';
import { afterEach, expect, test } from '@jest/globals';
import { onlineManager, QueryObserver } from '@tanstack/react-query';
import { ReturnsService } from '../../../proto/gen/rms/portal/v1/returns_pb.ts';
import { createCache } from './client.ts';
import { NoAnswer } from './errors.ts';
import { sendWrite } from './use-write.ts';

afterEach(() => onlineManager.setOnline(true));

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
  const keys: string[] = [];
  const answers = [
    ...[Code.Unavailable, Code.DeadlineExceeded],
    // Rejected before the method: says nothing of the first try.
    ...[Code.ResourceExhausted, Code.Unauthenticated],
    ...[undefined, undefined],
  ];
  const transport = createRouterTransport(({ rpc }) => {
    rpc(ReturnsService.method.addNote, ({ idempotencyKey }) => {
      keys.push(idempotencyKey);
      const code = answers[keys.length - 1];
      if (code !== undefined) throw new ConnectError('', code);
      return {};
    });
  });
  const send = (returnId: string) =>
    sendWrite(transport, ReturnsService.method.addNote, {
      input: { returnId, text: 'A note' },
      hasDialog: true,
    });
  await expect(send('1')).rejects.toBeInstanceOf(NoAnswer);
  // Another return is another action.
  await expect(send('2')).rejects.toBeInstanceOf(NoAnswer);
  await expect(send('1')).rejects.toMatchObject({ code: Code.ResourceExhausted });
  await expect(send('1')).rejects.toMatchObject({ code: Code.Unauthenticated });
  await send('1');
  // After an answer the same note is a new action.
  await send('1');
  expect(keys.slice(2, 5)).toEqual([keys[0], keys[0], keys[0]]);
  expect(new Set(keys).size).toBe(3);
});

test.each([Code.InvalidArgument, Code.NotFound, Code.FailedPrecondition, Code.AlreadyExists])(
  'an answer of the service with code %s ends the action',
  async (code) => {
    const keys: string[] = [];
    const transport = createRouterTransport(({ rpc }) => {
      rpc(ReturnsService.method.addNote, ({ idempotencyKey }) => {
        keys.push(idempotencyKey);
        throw new ConnectError('No.', code);
      });
    });
    const note = { input: { returnId: '3', text: 'A note' }, hasDialog: true };
    for (let time = 0; time < 2; time += 1) {
      const call = sendWrite(transport, ReturnsService.method.addNote, note);
      await expect(call).rejects.toMatchObject({ code });
    }
    expect(new Set(keys).size).toBe(2);
  },
);
