import { describe, expect, test } from '@jest/globals';
import { createLogger } from '../log.ts';
import { createSessionTime, isSessionRejection } from './kafka-session-time.ts';

function sessionTime() {
  const lines: string[] = [];
  const destination = { write: (line: string) => lines.push(line) };
  const logger = createLogger({ service: 'test', level: 'warn', destination });
  return { lines, time: createSessionTime(logger) };
}

describe('session time', () => {
  test('is short until brokers reject that, which is logged once', () => {
    const { time, lines } = sessionTime();
    const tried = time.ms();
    expect(tried).toBe(2_000);
    // Two listeners of one process.
    expect([time.rejected(tried), time.rejected(tried)]).toEqual([true, true]);
    expect(time.ms()).toBe(6_000);
    expect(time.rejected(6_000)).toBe(false);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain('group.min.session.timeout.ms=2000');
  });

  test('a rejection is recognised by its type, also as a cause', () => {
    const refusal = Object.assign(new Error('no'), { type: 'INVALID_SESSION_TIMEOUT' });
    expect(isSessionRejection(new Error('outer', { cause: refusal }))).toBe(true);
    expect(isSessionRejection(new Error('other'))).toBe(false);
  });
});
