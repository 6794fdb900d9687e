import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type Journey, startJourney } from '../kit/journeys/journey.ts';

// A repeat with the same `Idempotency-Key`, through the gateway and the real services.

let journey: Journey;
beforeAll(async () => {
  journey = await startJourney();
}, 120_000);
afterAll(() => journey?.stop(), 60_000);

async function twice(path: string, json: object, other: object) {
  const key = `"${randomUUID()}"`;
  const post = (body: object) =>
    journey.send({
      path: `/api/2026-10${path}`,
      json: body,
      headers: { 'idempotency-key': key },
    });
  const [first, second] = await Promise.all([post(json), post(json)]);
  const later = await post(json);
  const conflict = await post(other);
  expect([second.status, second.body]).toEqual([first.status, first.body]);
  expect([later.status, later.body]).toEqual([first.status, first.body]);
  expect(conflict).toMatchObject({
    status: 422,
    body: {
      message:
        'Idempotency-Key was used with other content: send a new key, or the same content as before.',
      errors: {},
    },
  });
  return first;
}

const ids = async (path: string) => {
  const { body } = await journey.send({ path: `/api/2026-10${path}` });
  return (body as { id: number }[]).map(({ id }) => id);
};

describe('a repeat with the same key', () => {
  test('returns the same cart', async () => {
    const { status, body } = await twice('/cart', { cart: [1] }, { cart: [2] });
    expect([status, body]).toMatchObject([200, { token: expect.any(String) }]);
  });

  test('returns the same webhook with its secret', async () => {
    const url = `https://hooks.example.com/${randomUUID()}`;
    const hook = { topic: 'return', trigger: 'return.closed', url, status: 'inactive' };
    const before = await ids('/webhooks');
    const { status, body } = await twice('/webhooks', hook, { ...hook, status: 'active' });
    expect([status, body]).toMatchObject([201, { secret: expect.stringMatching(/^whsec_/), url }]);
    expect(await ids('/webhooks')).toHaveLength(before.length + 1);
  });

  test('returns the same fraud report', async () => {
    const { id } = await journey.stack.fixture('open');
    const report = { category: 'other', comment: 'odd' };
    const path = `/returns/${id}/fraud-report`;
    const { status, body } = await twice(path, report, { ...report, comment: 'x' });
    expect([status, body]).toMatchObject([201, { return_id: id, ...report }]);
  });

  test('returns the same assessments and gradings', async () => {
    const { line_item_ids } = await journey.stack.fixture('open');
    const items = line_item_ids.map((line_item_id) => ({ line_item_id }));
    const assessed = items.map((item) => ({ ...item, disposition_outcome: 'donate' }));
    const recycled = items.map((item) => ({ ...item, disposition_outcome: 'recycle' }));
    const assess = '/dispositioning/assess';
    expect((await twice(assess, { items: assessed }, { items: recycled })).status).toBe(200);
    const graded = items.map((item) => ({ ...item, category: 'grade_b' }));
    const junk = items.map((item) => ({ ...item, category: 'junk' }));
    const grade = '/dispositioning/grade';
    expect((await twice(grade, { items: graded }, { items: junk })).status).toBe(200);
  });

  test('returns the same label', async () => {
    const { id } = await journey.stack.fixture('no_label');
    const path = `/returns/${id}/labels`;
    const { status } = await twice(path, { carrier: 'Evri' }, { carrier: 'DHL' });
    expect(status).toBe(201);
  });

  test('queues a return once', async () => {
    const { id } = await journey.stack.fixture('open');
    const path = `/warehouse/return/${id}/process`;
    const { status, body } = await twice(path, { note: 'x' }, { note: 'y' });
    expect([status, body]).toEqual([200, true]);
  });
});
