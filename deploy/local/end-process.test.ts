import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterEach, describe, expect, test } from '@jest/globals';
import { alive, endProcess } from './end-process.ts';

/** Time limit for a process that ignores signals. Milliseconds. */
const TIMEOUT_MS = 4_000;

const started: ChildProcess[] = [];
afterEach(() => {
  for (const child of started.splice(0)) child.kill('SIGKILL');
});

/** Starts a process that ignores these signals. It prints a line when it is ready. */
async function startIgnoring(...signals: string[]): Promise<ChildProcess & { pid: number }> {
  const traps = signals.map((signal) => `process.on('${signal}', () => {});`).join('');
  const script = `${traps} setInterval(() => {}, 1_000); console.log('ready');`;
  const child = spawn(process.execPath, ['-e', script], {
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { PATH: process.env.PATH ?? '' },
  });
  started.push(child);
  await once(child.stdout, 'data');
  const { pid } = child;
  if (pid === undefined) throw new Error('no process was started');
  return Object.assign(child, { pid });
}

describe('endProcess', () => {
  test('ends a process with SIGINT, or with SIGQUIT if it ignores SIGINT, and accepts a process that has exited', async () => {
    for (const child of [await startIgnoring(), await startIgnoring('SIGINT')]) {
      await endProcess(child.pid, TIMEOUT_MS);
      expect(alive(child.pid)).toBe(false);
      await endProcess(child.pid, TIMEOUT_MS);
    }
  });

  test('rejects after the time limit when the process does not exit', async () => {
    const child = await startIgnoring('SIGINT', 'SIGQUIT');
    await expect(endProcess(child.pid, 100)).rejects.toThrow(`process ${child.pid} does not end`);
  });
});
