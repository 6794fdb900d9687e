import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { expectError, MESSAGE } from '../kit/journeys/expected-errors.ts';
import { firstOf, type Journey, startJourney } from '../kit/journeys/journey.ts';

let journey: Journey;
beforeAll(async () => {
  journey = await startJourney(['--calendar', '2026-11-20']);
}, 120_000);
afterAll(() => journey?.stop(), 60_000);

/** Sends a GET to the listener whose version calendar has this date, by default to the stack's own gateway. */
function ask(path: string, day?: string) {
  const baseUrl = day === undefined ? journey.stack.file.base_url : at(day);
  return journey.send({ path, baseUrl });
}

function at(day: string): string {
  const url = journey.stack.file.base_url_at[day];
  if (!url) throw new Error(`the stack has no listener at ${day}`);
  return url;
}

const details = () =>
  `/warehouse/return/details?return_id=${firstOf(journey.stack.shop, 'graded').id}`;

interface Graded {
  readonly line_items: readonly { readonly condition: { readonly condition_category: unknown } }[];
}
const categories = (body: unknown) =>
  (body as Graded).line_items.map(({ condition }) => condition.condition_category);

const WORDS = ['grade_b', 'incorrect_item'];
const OBJECTS = [
  {
    subject: 'item',
    title: expect.any(String),
    grade: 'b',
    category_name: null,
    category_parent: null,
  },
  {
    subject: 'item',
    title: expect.any(String),
    grade: null,
    category_name: 'incorrect_item',
    category_parent: null,
  },
];

describe('the condition category', () => {
  test.each([
    ['/v1', WORDS],
    ['/2026-07', WORDS],
    ['', WORDS],
    ['/2026-10', OBJECTS],
    ['/unstable', OBJECTS],
  ])('/api%s', async (segment, expected) => {
    const { status, body } = await ask(`/api${segment}${details()}`);
    expect(status).toBe(200);
    expect(categories(body)).toEqual(expected);
  });

  test('is the only difference between the released versions', async () => {
    const [older, newer] = [
      await ask(`/api/2026-07${details()}`),
      await ask(`/api/2026-10${details()}`),
    ];
    const without = (body: unknown) =>
      JSON.parse(
        JSON.stringify(body, (key, value) => (key === 'condition_category' ? null : value)),
      );
    expect(without(older.body)).toEqual(without(newer.body));
    expect(older.body).not.toEqual(newer.body);
  });
});

describe('an active version', () => {
  test('has the version header, and no deprecation headers', async () => {
    const { headers } = await ask(`/api/2026-07${details()}`);
    expect(headers['x-service-api-version']).toBe('2026-07');
    for (const name of ['sunset', 'deprecation', 'link', 'x-service-api-warning']) {
      expect(headers).not.toHaveProperty(name);
    }
  });

  test('an unknown version is 404 with the list of versions, with or without a key', async () => {
    const path = '/api/2026-08/webhooks';
    for (const sent of [{ path }, { path, key: null }, { path: '/api/v2/cart' }]) {
      const answer = await journey.send(sent);
      expect(answer).toMatchObject({ status: 404, headers: { 'cache-control': 'no-store' } });
      expect(answer.body).toEqual({
        message: expect.stringMatching(/2026-07.*2026-10/),
        errors: {},
      });
    }
  });
});

describe('in August 2027', () => {
  const SUNSET = {
    sunset: 'Fri, 01 Oct 2027 00:00:00 GMT',
    deprecation: `@${Date.UTC(2027, 6, 1) / 1000}`,
    link: expect.stringMatching(/^<[^>]+>; rel="[a-z]+"/),
  };

  test.each(['/v1', '/2026-07', ''])('/api%s is deprecated, errors included', async (segment) => {
    for (const path of [details(), '/webhooks', '/warehouse/return/details', '/nothing']) {
      const { headers } = await ask(`/api${segment}${path}`, '2027-08-01');
      expect(headers).toMatchObject({ ...SUNSET, 'x-service-api-version': '2026-07' });
    }
  });

  test('2026-10 is active', async () => {
    const { headers } = await ask(`/api/2026-10${details()}`, '2027-08-01');
    expect(headers).not.toHaveProperty('sunset');
    expect(headers).not.toHaveProperty('deprecation');
  });
});

describe('in November 2027', () => {
  test('2026-07 is served by 2026-10, as the header says', async () => {
    const { status, headers, body } = await ask(`/api/2026-07${details()}`, '2027-11-01');
    expect(status).toBe(200);
    expect(categories(body)).toEqual(OBJECTS);
    expect(headers['x-service-api-version']).toBe('2026-10');
    expect(headers.link).toMatch(
      /<\/api\/2026-10\/warehouse\/return\/details>; rel="successor-version"/,
    );
  });

  test('v1 is retired', async () => {
    const answer = await ask('/api/v1/webhooks', '2027-11-01');
    expect(answer).toMatchObject({ status: 404 });
    expect(answer.body).toEqual({ message: expect.stringContaining('2026-10'), errors: {} });
  });

  test('a path without a version uses 2026-10, the oldest supported version', async () => {
    const { headers, body } = await ask(`/api${details()}`, '2027-11-01');
    expect(headers['x-service-api-version']).toBe('2026-10');
    expect(categories(body)).toEqual(OBJECTS);
  });

  test('error responses have the headers too', async () => {
    const answer = await ask('/api/2026-07/warehouse/return/details', '2027-11-01');
    expectError(answer, '2026-10', {
      status: 422,
      body: MESSAGE,
      code: 'VALIDATION_FAILED',
      headers: { link: expect.stringContaining('rel="successor-version"') },
    });
  });
});

describe('in February 2028, without a newer release', () => {
  test('2026-10 stays deprecated and keeps its sunset day', async () => {
    for (const segment of ['/2026-10', '']) {
      const answer = await ask(`/api${segment}${details()}`, '2028-02-01');
      expect(answer).toMatchObject({
        status: 200,
        headers: {
          'x-service-api-version': '2026-10',
          sunset: 'Sat, 01 Jan 2028 00:00:00 GMT',
          deprecation: `@${Date.UTC(2027, 9, 1) / 1000}`,
        },
      });
    }
  });

  test('2026-07 is still served by it', async () => {
    const { headers } = await ask(`/api/2026-07${details()}`, '2028-02-01');
    expect(headers['x-service-api-version']).toBe('2026-10');
    expect(headers.link).toContain('rel="successor-version"');
  });
});

test('unstable has a warning in every response, on every date', async () => {
  for (const day of [undefined, '2027-08-01', '2027-11-01', '2028-02-01']) {
    for (const path of [details(), '/nothing', '/warehouse/return/details']) {
      const { headers } = await ask(`/api/unstable${path}`, day);
      expect(headers).toMatchObject({
        'x-service-api-version': 'unstable',
        'x-service-api-warning': expect.stringContaining('must not be used in production'),
      });
    }
  }
});
