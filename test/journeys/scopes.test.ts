import { expect, test } from '@jest/globals';
import type { Received, Sent } from '../kit/gateway/rest-client.ts';
import { journeyForTests } from '../kit/journeys/journey.ts';

// The scopes of parts of `returns`, with the real services.

const journey = journeyForTests();

const keyOf = (name: string): Partial<Sent> => ({
  key: journey.stack.shop.api_keys[name] ?? '',
});

const token = (name: string): Partial<Sent> => ({
  key: null,
  headers: { authorization: `Bearer ${journey.stack.shop.partner_tokens[name]}` },
});

const details = (id: number, credential: Partial<Sent>): Promise<Received> =>
  journey.send({ path: `/api/2026-10/warehouse/return/details?return_id=${id}`, ...credential });
const cancel = (id: number, credential: Partial<Sent>, json: object = {}): Promise<Received> =>
  journey.send({ path: `/api/2026-10/returns/${id}/cancel`, json, ...credential });

async function kindsOf(id: number): Promise<string[]> {
  const path = `/api/2026-10/returns/${id}/timeline?limit=100`;
  const { status, body } = await journey.send({ path, ...keyOf('returns:read') });
  expect(status).toBe(200);
  return (body as { timeline: { kind: string }[] }).timeline.map(({ kind }) => kind);
}

test('many cancellations at once cancel once, and all are answered with the cancelled return', async () => {
  const { id } = await journey.stack.fixture('open');
  const all = await Promise.all(
    Array.from({ length: 12 }, () => cancel(id, keyOf('returns'), { reason: 'Kept' })),
  );
  expect(all.map(({ status }) => status)).toEqual(Array(12).fill(200));
  for (const { body } of all) expect(body).toMatchObject({ id, state: 'cancelled' });
  const kinds = await kindsOf(id);
  expect(kinds.filter((kind) => kind === 'return.cancelled')).toHaveLength(1);
  expect(kinds.at(-1)).toBe('return.submitted');
});

test('a repeated key cancels once, and with another reason it is refused', async () => {
  const { id } = await journey.stack.fixture('open');
  const keyed = { ...keyOf('returns'), headers: { 'idempotency-key': `cancel-${id}` } };
  expect((await cancel(id, keyed, { reason: 'Kept' })).status).toBe(200);
  expect((await cancel(id, keyed, { reason: 'Kept' })).status).toBe(200);
  expect((await cancel(id, keyed, { reason: 'Lost' })).status).toBe(422);
});

test('a closed return cannot be cancelled', async () => {
  const [closed] = journey.stack.shop.fixtures.returns.closed ?? [];
  expect(await cancel(closed?.id ?? 0, keyOf('returns'))).toMatchObject({
    status: 409,
    body: { errors: { code: 'NOT_CANCELLABLE', message: expect.stringMatching(/closed/) } },
  });
});

test('a return that no storefront submitted does not exist for returns:submit', async () => {
  const { id } = await journey.stack.fixture('open');
  const nobodys = 987_654_321;
  for (const credential of [keyOf('returns:submit'), token('returns:submit')]) {
    for (const ask of [details, cancel]) {
      const [theirs, none] = [await ask(id, credential), await ask(nobodys, credential)];
      expect([theirs.status, theirs.text]).toEqual([404, none.text]);
    }
  }
  expect((await details(id, keyOf('returns'))).body).toMatchObject({ state: 'open' });
});

test('a warehouse sees a return without its customer, over a key and a token', async () => {
  const { id } = await journey.stack.fixture('open');
  const whole = await details(id, keyOf('returns:read'));
  const { customer_email: email } = whole.body as { customer_email: string };
  expect(email).toMatch(/@/);
  for (const credential of [keyOf('warehouse'), token('warehouse')]) {
    const { status, body, text } = await details(id, credential);
    expect([status, Object.keys(body ?? {})]).toEqual([200, Object.keys(whole.body ?? {})]);
    expect(text).not.toContain(email);
    expect(body).toMatchObject({
      ...{ customer: null, customer_email: null, status_page_url: null },
      ...{ customer_first_name: null, customer_last_name: null },
    });
  }
});
