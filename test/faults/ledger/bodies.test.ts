import { describe, expect, test } from '@jest/globals';
import { sampleEvent } from '../../../services/contract/sample-event.ts';
import { shapeBody } from '../../../services/webhooks/fan-out/shape.ts';
import { aboutOf } from '../sink/about.ts';
import { differenceFrom } from './bodies.ts';

const VERSION = '2026-10';
const event = sampleEvent('return.closed', 7n);

/** A request with the headers of {@link event} and the body of another event. */
function bringing(of: typeof event) {
  const body = shapeBody(of, { topic: 'return', version: VERSION, isRedacted: false });
  const about = aboutOf(Buffer.from(body ?? []).toString('utf8'));
  return { webhookId: 'msg_1', path: '/a', trigger: 'return.closed', sequence: 3, about };
}

describe('a body', () => {
  test('that belongs to its event is accepted', () => {
    expect(differenceFrom(bringing(event), event)).toBeUndefined();
  });

  test.each([
    ['another return', 'returnId', { ...event.snapshot, id: 99n }],
    ['another revision', 'updatedAt', { ...event.snapshot, updatedAt: { seconds: 1n, nanos: 0 } }],
    ['another revision, by its labels', 'labels', { ...event.snapshot, labels: [] }],
  ])('with %s is reported', (_name, field, snapshot) => {
    const other = { ...event, snapshot } as typeof event;
    expect(differenceFrom(bringing(other), event)).toContain(field);
  });

  test('that is not an object is reported', () => {
    expect(differenceFrom({ ...bringing(event), about: aboutOf('[') }, event)).toContain(
      'returnId',
    );
  });

  test.each([
    ['trigger', { trigger: 'return.updated' }],
    ['sequence', { sequence: 2 }],
  ])('that matches, with another header %s, is reported', (_name, header) => {
    expect(differenceFrom({ ...bringing(event), ...header }, event)).toBeDefined();
  });
});
