import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync, readSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { until } from '../../test/kit/until.ts';
import { createLogOutput } from './log-output.ts';

const MIB = 1024 * 1024;
const LINE = `${'x'.repeat(999)}\n`;

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rms-log-'));
});
afterEach(() => rm(folder, { recursive: true }));

/** Both ends of a pipe; neither blocks. */
function openPipe(): { readonly writer: number; read(): string; close(): void } {
  const path = join(folder, 'pipe');
  execFileSync('mkfifo', [path]);
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const writer = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
  const buffer = Buffer.alloc(MIB);
  return {
    writer,
    read() {
      try {
        return buffer.toString('utf8', 0, readSync(reader, buffer));
      } catch {
        return '';
      }
    },
    close() {
      closeSync(reader);
      closeSync(writer);
    },
  };
}

test('a line is written immediately', () => {
  const pipe = openPipe();
  createLogOutput(pipe.writer).write('one\n');
  expect(pipe.read()).toBe('one\n');
  pipe.close();
});

test('lines for a paused reader wait; the rest is dropped, counted and reported', async () => {
  const pipe = openPipe();
  const output = createLogOutput(pipe.writer);
  for (let n = 0; n < 2_000; n += 1) output.write(LINE);
  const dropped = output.dropped();
  expect(dropped).toBeGreaterThan(0);
  let text = '';
  await until(() => {
    text += pipe.read();
    return text.includes('dropped');
  });
  const lines = text.split('\n').slice(0, -1);
  const report = JSON.parse(lines.pop() ?? '');
  expect(report).toMatchObject({ level: 'warn', lines: dropped });
  expect(lines).toHaveLength(2_000 - dropped);
  expect(new Set(lines).size).toBe(1);
  // From now on a line is written immediately again, and the dropped lines are not reported a second time.
  output.write('after\n');
  expect(pipe.read()).toBe('after\n');
  pipe.close();
});

test('a full disk drops lines that do not fit into memory', () => {
  const full = openSync('/dev/full', 'w');
  const output = createLogOutput(full);
  for (let n = 0; n < 2_000; n += 1) output.write(LINE);
  expect(output.dropped()).toBeGreaterThanOrEqual(2_000 - Math.ceil(MIB / LINE.length));
  // The output keeps retrying, so the descriptor stays open.
});

test('the stop waits for the last lines, but not for ever', async () => {
  const pipe = openPipe();
  const output = createLogOutput(pipe.writer);
  for (let n = 0; n < 100; n += 1) output.write(LINE);
  await output.drain(0);
  const draining = output.drain(60_000);
  let text = '';
  await until(() => {
    text += pipe.read();
    return text.length === 100 * LINE.length;
  });
  await draining;
  pipe.close();
});

test('one error listener is added to a pipe, however often the module is loaded', () => {
  const code = `
    for (let n = 0; n < 12; n += 1) (await import(process.argv[1] + '?' + n)).standardOutput();
    process.stdout.write(String(process.stdout.listenerCount('error')));`;
  const module = new URL('log-output.ts', import.meta.url).href;
  const printed = execFileSync(process.execPath, ['--input-type=module', '-e', code, module]);
  expect(String(printed)).toBe('1');
});
