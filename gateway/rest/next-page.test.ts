import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { PARAMETERS } from '../../services/contract/ignored.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { FAKE } from '../../test/kit/gateway/fake-objects.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { nextPageLink } from './next-page.ts';

let under: TestGateway;
let send: (sent: Sent) => Promise<Received>;
beforeAll(async () => {
  under = await startTestGateway();
  send = restClient(under);
});
afterAll(() => under.stop());

/** The address of the next page in the `Link` of a response. */
function nextOf({ headers }: Received): string | undefined {
  return /<([^>]*)>; rel="next"/.exec(String(headers.link))?.[1];
}

const PAGED = OPERATIONS.filter(({ id }) => PARAMETERS[id]?.includes('cursor'));

test('three operations have pages', () => {
  expect(PAGED.map(({ id }) => id)).toEqual(['listDeliveries', 'listReplays', 'listReturns']);
});

describe.each(PAGED)('$id', ({ path }) => {
  const at = (version: string) => `/api/${version}${path.replace('{id}', `${FAKE.webhook}`)}`;

  test.each(['v1', '2026-10', 'unstable'])('links to its next page in %s', async (version) => {
    const first = await send({ path: `${at(version)}?limit=1` });
    const next = nextOf(first);
    expect(next).toBe(`${at(version)}?limit=1&cursor=${Object(first.body).next_cursor}`);
    expect((await send({ path: next ?? '' })).status).toBe(200);
    const head = await send({ method: 'HEAD', path: `${at(version)}?limit=1` });
    expect(nextOf(head)).toBe(next);
  });

  test('has no link on its last page', async () => {
    expect(nextOf(await send({ path: at('v1') }))).toBeUndefined();
  });
});

describe('the link', () => {
  const operation = { id: 'listReturns' } as const;
  const linkOf = (target: string, next_cursor: string | null = 'c.1') =>
    nextPageLink(operation, target, { returns: [], next_cursor });

  test('keeps the filters, as they were meant, and replaces the cursor', () => {
    expect(
      linkOf('/api/v1/warehouse/returns?query=%231001+%C3%A4&state=open%2Cclosed&cursor=b'),
    ).toBe(
      '</api/v1/warehouse/returns?query=%231001+%C3%A4&state=open%2Cclosed&cursor=c.1>; rel="next"',
    );
  });

  test('keeps lists that were sent with brackets, without which it would be a link to another list', () => {
    expect(linkOf('/api/v1/warehouse/returns?state[]=open&label_status[0]=error&limit[]=1')).toBe(
      '</api/v1/warehouse/returns?state%5B%5D=open&label_status%5B0%5D=error&cursor=c.1>; rel="next"',
    );
  });

  test('has no parameter that the operation does not know, and nothing that ends it early', () => {
    expect(linkOf('/api/v1/warehouse/returns?x=1&query=a>b"c')).toBe(
      '</api/v1/warehouse/returns?query=a%3Eb%22c&cursor=c.1>; rel="next"',
    );
  });

  test('is absent from the last page, from operations without pages, and when it is too long', () => {
    expect(linkOf(`/api/v1/warehouse/returns?state=open${',open'.repeat(1_500)}`)).toBeUndefined();
    expect(linkOf('/api/v1/warehouse/returns', null)).toBeUndefined();
    expect(nextPageLink({ id: 'listWebhooks' }, '/api/v1/webhooks', [])).toBeUndefined();
    const echo = { next_cursor: 'x' };
    expect(nextPageLink({ id: 'createCart' }, '/api/v1/cart', echo)).toBeUndefined();
  });
});
