import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync, readSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { until } from '../../../test/kit/until.ts';
import { createLogger } from './log.ts';
import { createLogOutput } from './log-output.ts';

function loggerWithLines() {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  return { logger: createLogger({ service: 'returns', level: 'debug', destination }), lines };
}

describe('log', () => {
  test('a line is a JSON object with time, level, service and fields', () => {
    const { logger, lines } = loggerWithLines();
    logger.info({ return_id: 7n }, 'queued');
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({
      level: 'info',
      service: 'returns',
      return_id: '7',
      msg: 'queued',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
    });
  });

  test('credentials, addresses and bodies are withheld by name, at any depth', () => {
    const { logger, lines } = loggerWithLines();
    logger.info({
      headers: {
        authorization: 'a-1',
        'X-Authorization': 'a-2',
        cookie: 'a-3',
        'set-cookie': 'a-4',
      },
      accessToken: 'a-5',
      api_key: 'a-6',
      list: [{ client_secret: 'a-7', password: 'a-8' }],
      customer: { email: 'a-9', first: 'kept' },
      body: { note: 'a-10' },
      request_body: 'a-11',
    });
    expect(lines[0]).not.toMatch(/a-\d/);
    expect(lines[0]).toContain('kept');
  });

  test.each([
    ['an API key', `rms_abcdefghij12_${'s'.repeat(46)}`],
    ['an API key of a sandbox shop', `rms_test_abcdefghij12_${'s'.repeat(46)}`],
    ['a webhook secret', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
    ['a bearer token', 'Bearer abc.def-ghi'],
    ['a JWT', 'eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl'],
    ['an e-mail address', 'jane.doe+x@example.co.uk'],
    ['a password in a URL', 'postgres://rms:hunter2@db/rms'],
  ])('%s inside a text is withheld', (_, secret) => {
    const { logger, lines } = loggerWithLines();
    logger.warn({ note: `saw ${secret} there` }, `message with ${secret}`);
    expect(lines[0]).toContain('[redacted]');
    expect(lines[0]).not.toContain(secret);
    expect(() => JSON.parse(lines[0] ?? '')).not.toThrow();
  });

  test('a long endless word costs no more than a short one', () => {
    const { logger, lines } = loggerWithLines();
    // Measured by the work, not by the clock: a backtracking pattern takes minutes for these.
    const before = process.cpuUsage();
    logger.info({ note: `${'a'.repeat(200_000)} ${'-eyJ'.repeat(50_000)}` });
    expect(process.cpuUsage(before).user).toBeLessThan(5_000_000);
    expect(lines[0]).toContain('aaa');
  });

  test('an error shows type, text, code, constraint and cause, but not the row that the driver quotes', () => {
    const { logger, lines } = loggerWithLines();
    const driver = Object.assign(new Error('duplicate key'), {
      code: '23505',
      constraint: 'carts_pkey',
      detail: 'Key (name)=(row value) already exists.',
    });
    logger.error({ err: new Error('outer', { cause: driver }) }, 'rpc failed');
    expect(JSON.parse(lines[0] ?? '').err).toMatchObject({
      message: 'outer',
      cause: { message: 'duplicate key', code: '23505', constraint: 'carts_pkey' },
    });
    expect(lines[0]).not.toContain('row value');
  });

  test('a field that contains itself is cut off', () => {
    const { logger, lines } = loggerWithLines();
    const ring: Record<string, unknown> = { name: 'ring' };
    ring.self = ring;
    logger.info({ ring });
    expect(lines[0]).toContain('"name":"ring"');
  });
});

describe('log output', () => {
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
});
