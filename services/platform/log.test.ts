import { describe, expect, test } from '@jest/globals';
import { createLogger } from './log.ts';

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
