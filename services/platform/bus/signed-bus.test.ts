import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { pino } from 'pino';
import { until } from '../../../test/kit/until.ts';
import { newKeyringText, parseKeys } from '../security/keyring.ts';
import { startTelemetry, type Telemetry } from '../telemetry/telemetry.ts';
import type { BusRecord, EventBus, ReceivedRecord } from './event-bus.ts';
import {
  checkSignature,
  type EventSignatures,
  newEventSignatures,
  SIGNATURE_HEADER,
  signRecord,
} from './event-signature.ts';
import { createInProcessBus } from './in-process.ts';
import { signedBus, signingBus } from './signed-bus.ts';

const DAY_MS = 24 * 60 * 60 * 1_000;
const record = (text: string, key = '1:2'): BusRecord => ({
  key,
  value: Buffer.from(text),
  headers: { trigger: 'return.closed' },
});
const textOf = ({ value }: BusRecord) => Buffer.from(value).toString();

describe('the signature of a record', () => {
  const now = Date.UTC(2026, 10, 22);
  const signatures = newEventSignatures();
  const signed = signRecord('t', record('a'), { signatures, now });
  const judge = (change: Partial<ReceivedRecord>, o: { at?: number; by?: EventSignatures } = {}) =>
    checkSignature(
      { ...signed, topic: 't', position: '1', ...change },
      { signatures: o.by ?? signatures, now: o.at ?? now, maxAgeMs: 14 * DAY_MS },
    );
  const withSignature = (text: string) => judge({ headers: { [SIGNATURE_HEADER]: text } });

  test('is valid for its own topic, key and bytes only', () => {
    expect(judge({})).toBe('valid');
    expect(signed.headers).toMatchObject({ trigger: 'return.closed' });
    expect(judge({ topic: 'u' })).toBe('forged');
    expect(judge({ key: '1:3' })).toBe('forged');
    expect(judge({ value: Buffer.from('b') })).toBe('forged');
    expect(judge({ value: Buffer.from('a\n') })).toBe('forged');
    expect(judge({ headers: {} })).toBe('unsigned');
  });

  test('contains its time, which cannot be replaced', () => {
    const [, id = '', time = '', mac = ''] = signed.headers[SIGNATURE_HEADER]?.split(',') ?? [];
    expect(time).toBe(String(now));
    expect(withSignature(`v1,${id},${now + 1},${mac}`)).toBe('forged');
    expect(judge({}, { at: now + 14 * DAY_MS })).toBe('valid');
    // A copy cannot be published again after listeners have deleted the event's id.
    expect(judge({}, { at: now + 14 * DAY_MS + 1 })).toBe('expired');
  });

  test('is forged when it is not a signature at all', () => {
    for (const text of ['', 'v1', 'v2,k,1,x', `v1,k1,${now},${'A'.repeat(44)}`, 'v1,k1,1e3,=']) {
      expect(withSignature(text)).toBe('forged');
    }
  });

  test('keys rotate: the first signs, all verify, a removed key does not', () => {
    const [old, fresh] = [newKeyringText('old'), newKeyringText('new')];
    const ring = (text: string) => ({ keys: parseKeys(text) });
    const received = (by: EventSignatures) => ({
      ...signRecord('t', record('a'), { signatures: by, now }),
    });
    const before = received(ring(`${old},${fresh}`));
    expect(judge(before, { by: ring(`${fresh},${old}`) })).toBe('valid');
    expect(judge(received(ring(`${fresh},${old}`)), { by: ring(fresh) })).toBe('valid');
    expect(judge(before, { by: ring(fresh) })).toBe('unknown_key');
    // Another key with the same id.
    expect(judge(before, { by: ring(newKeyringText('old')) })).toBe('forged');
  });
});

describe('a bus whose records are signed', () => {
  let raw: EventBus;
  let telemetry: Telemetry;
  let logged: string[];
  beforeEach(async () => {
    raw = createInProcessBus({ backoff: () => 1 });
    telemetry = await startTelemetry({ service: 'test', metricsPort: 0 });
    logged = [];
  });
  afterEach(async () => {
    await raw.close();
    await telemetry.stop();
  });

  const signatures = newEventSignatures();
  const open = () =>
    signedBus({
      bus: raw,
      signatures,
      rememberMs: 14 * DAY_MS,
      meter: telemetry.meter,
      logger: pino({}, { write: (line: string) => void logged.push(line) }),
    });
  const metrics = async () => (await fetch(telemetry.metricsUrl)).text();

  async function receivedBy(bus: EventBus): Promise<string[]> {
    const received: string[] = [];
    const handle = async (records: readonly ReceivedRecord[]) => {
      received.push(...records.map(textOf));
    };
    await bus.subscribe({ group: 'g', topics: ['t'], handle });
    return received;
  }

  test('passes on its own records', async () => {
    const bus = open();
    const received = await receivedBy(bus);
    await bus.publish('t', [record('a'), record('b')]);
    expect(received).toEqual(['a', 'b']);
    expect(logged).toEqual([]);
  });

  test('passes on genuine records after the system clock was set a month ahead', async () => {
    const received = await receivedBy(open());
    const signed = signRecord('t', record('a'), { signatures, now: Date.now() });
    const { now } = Date;
    Date.now = () => now() + 30 * DAY_MS;
    try {
      await raw.publish('t', [signed]);
    } finally {
      Date.now = now;
    }
    expect(received).toEqual(['a']);
  });

  test('skips records without a valid signature, counts them, and continues with the same key', async () => {
    const bus = open();
    const received = await receivedBy(bus);
    await raw.publish('t', [record('forged'), record('forged too')]);
    await signingBus(raw, newEventSignatures()).publish('t', [record('of another key')]);
    await bus.publish('t', [record('a')]);
    expect(received).toEqual(['a']);
    const page = await metrics();
    expect(page).toContain('events_skipped_total{group="g",reason="unsigned"} 2');
    expect(page).toContain('events_skipped_total{group="g",reason="forged"} 1');
  });

  test('a flood is one line in the log, and each record is counted once', async () => {
    const bus = open();
    let failures = 0;
    await bus.subscribe({
      group: 'g',
      topics: ['t'],
      handle: async () => {
        failures += 1;
        if (failures < 3) throw new Error('the database is unavailable');
      },
    });
    const flood = Array.from({ length: 500 }, (_, n) => record(`forged ${n}`));
    await raw.publish('t', flood);
    const wrong = Array.from({ length: 3 }, () => record('forged'));
    const [good] = [signRecord('t', record('a'), { signatures, now: Date.now() })];
    await raw.publish('t', [...wrong, good]);
    await until(() => failures === 3);
    expect(logged).toHaveLength(1);
    expect(logged[0]).toMatch(/"reason":"unsigned".*records skipped/);
    expect(await metrics()).toContain('events_skipped_total{group="g",reason="unsigned"} 503');
  });
});
