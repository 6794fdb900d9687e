import { Code, ConnectError } from '@connectrpc/connect';
import { expect, test } from '@jest/globals';
import { repeatCall } from './repeat-call.ts';

const failingAtFirst = (times: number, code: Code) => {
  const calls: number[] = [];
  const call = async ({ timeoutMs }: { timeoutMs: number }): Promise<string> => {
    calls.push(timeoutMs);
    if (calls.length <= times) throw new ConnectError('no', code);
    return 'yes';
  };
  return { call, calls };
};

test('repeats a call without a response', async () => {
  const logged: string[] = [];
  const say = (text: string): void => void logged.push(text);
  const { call, calls } = failingAtFirst(2, Code.DeadlineExceeded);
  await expect(repeatCall({ say }, 'asking', call)).resolves.toBe('yes');
  expect(calls).toHaveLength(3);
  expect(logged).toEqual(Array(2).fill(expect.stringContaining('asking: no response')));
});

test('does not repeat a call that failed with an error, and names it', async () => {
  const { call, calls } = failingAtFirst(2, Code.InvalidArgument);
  await expect(repeatCall({ say: () => {} }, 'asking', call)).rejects.toThrow('asking: refused');
  expect(calls).toHaveLength(1);
});
