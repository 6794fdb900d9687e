import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { LabelStatus, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  SearchReturnsRequest_Archived as Archived,
  SearchReturnsRequest_Sort as Sort,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';

let under: TestGateway;
let send: (sent: Sent) => Promise<Received>;

beforeAll(async () => {
  under = await startTestGateway();
  send = restClient(under);
});
afterEach(() => under.resetServices());
afterAll(() => under.stop());

const VERSIONS = ['v1', '2026-07', '2026-10', 'unstable'];

describe('the list of returns', () => {
  test.each(VERSIONS)('has summaries without personal data in %s', async (version) => {
    const response = await send({ path: `/api/${version}/warehouse/returns` });
    expect([response.status, response.body]).toEqual([
      200,
      {
        returns: [
          expect.objectContaining({
            id: 11,
            order_name: '#1001',
            state: 'open',
            currency: 'GBP',
            total: '10.00',
            label_status: null,
            label_updated_at: null,
            destination_id: 31,
            presentment: {
              currency: expect.any(String),
              total: '10.00',
              refund: '10.00',
              return_credit_total: '0.00',
              handling_fee: '0.00',
            },
            created_at: expect.stringMatching(/\+00:00$/),
          }),
        ],
        next_cursor: null,
      },
    ]);
    expect(response.text).not.toMatch(/customer|@/);
  });

  test('passes its filters on', async () => {
    const requests: object[] = [];
    const fake = under.services.returns.searchReturns;
    under.services.returns.searchReturns = (request, context) => {
      requests.push(request);
      if (!fake) throw new Error('no fake');
      return fake(request, context);
    };
    const query = new URLSearchParams({
      state: 'open,closed',
      label_status: 'error',
      archived: 'include',
      destination_id: '31',
      query: '#1001',
      sort: 'updated_at',
      limit: '1',
      created_to: '2026-11-21T00:00:00Z',
      updated_from: '2026-11-20T10:00:00+01:00',
    });
    const first = await send({ path: `/api/v1/warehouse/returns?${query}` });
    expect(first.body).toMatchObject({ next_cursor: 'next' });
    expect((await send({ path: '/api/v1/warehouse/returns?cursor=next' })).status).toBe(200);
    expect(requests).toMatchObject([
      {
        summaries: true,
        states: [ReturnState.OPEN, ReturnState.CLOSED],
        query: '#1001',
        labelStatuses: [LabelStatus.ERROR],
        archived: Archived.INCLUDE,
        destinationId: 31n,
        sort: Sort.UPDATED_ASC,
        pageSize: 1,
        cursor: '',
        createdTo: { seconds: BigInt(Date.UTC(2026, 10, 21) / 1000) },
        updatedFrom: { seconds: BigInt(Date.UTC(2026, 10, 20, 9) / 1000) },
      },
      { summaries: true, sort: Sort.CREATED_DESC, pageSize: 50, cursor: 'next', states: [] },
    ]);
  });

  test.each([
    ['state=lost', /^state must be a list, separated by commas, of open, /],
    ['sort=x', /^sort must be one of -created_at, /],
    ['cursor=x', /^cursor must be a cursor returned by this service\.$/],
  ])('returns?%s is 422 and names the field', async (query, message) => {
    for (const version of VERSIONS) {
      const { status, body } = await send({ path: `/api/${version}/warehouse/returns?${query}` });
      const text = expect.stringMatching(message);
      expect({ status, body }).toMatchObject({
        status: 422,
        body: version === 'unstable' ? { detail: text } : { message: text, errors: {} },
      });
    }
  });
});
