import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  EXAMPLES,
  LOGISTICS_EXAMPLES,
  RETURN_EXAMPLES,
} from '../../services/contract/examples/examples.ts';
import { RECEIVER_URL } from '../../services/contract/examples/story.ts';
import type { OperationId } from '../../services/contract/operation.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { startTestStack, type TestStack } from '../kit/stack.ts';

// The examples of the OpenAPI documents, sent to the demo shop that they are about.

let stack: TestStack;
beforeAll(async () => {
  stack = await startTestStack();
});
afterAll(() => stack?.stop());

/** The ids in the examples are those of the first objects of the demo shop. */
const FIRST = '1';

async function send(id: OperationId, o: { query?: string; token?: string; url?: string } = {}) {
  const operation = OPERATIONS.find((one) => one.id === id);
  if (!operation) throw new Error(`no operation ${id}`);
  const path = operation.path.replace('{id}', FIRST).replace('{token}', o.token ?? '');
  const body = JSON.stringify(EXAMPLES[id].request)?.replaceAll(RECEIVER_URL, o.url ?? '');
  const response = await fetch(`${stack.file.base_url}/api/2026-10${path}?${o.query ?? ''}`, {
    method: operation.method,
    headers: {
      'X-Authorization': stack.shop.api_keys.all ?? '',
      ...(body && { 'Content-Type': 'application/json' }),
      ...(operation.keyed === 'required' && { 'Idempotency-Key': id }),
    },
    ...(body && { body }),
  });
  const text = await response.text();
  const got = { id, status: response.status, text };
  expect(got).toEqual({ ...got, status: operation.success.status });
  return text === '' ? undefined : JSON.parse(text);
}

test('the documented return is the first one of the demo, with the same ids, names and amounts', async () => {
  const query = 'return_id=1';
  const { response } = RETURN_EXAMPLES.getReturnDetails;
  const details = await send('getReturnDetails', { query });
  const { line_items, presentment, order_id, order_name, total, refund } = response;
  expect(details).toMatchObject({ presentment, order_id, order_name, total, refund });
  const expected = line_items.map(({ line_item_id, title, sku, refund: amount }) => ({
    line_item_id,
    title,
    sku,
    refund: amount,
  }));
  expect(details.line_items).toMatchObject(expected);
  expect(await send('listDestinations')).toEqual(LOGISTICS_EXAMPLES.listDestinations.response);
  expect(await send('getDestination')).toEqual(LOGISTICS_EXAMPLES.getDestination.response);
  expect(await send('updateDestination')).toEqual(LOGISTICS_EXAMPLES.updateDestination.response);
});

test('the demo shop accepts every documented request on the way of the return', async () => {
  const [known] = await send('listWebhooks');
  // Nothing may be sent to an address outside of this machine.
  const { url } = known;
  for (const id of ['createWebhook', 'updateWebhook'] as const) await send(id, { url });
  for (const id of ['getWebhook', 'testWebhook', 'listDeliveries'] as const) await send(id);
  await send('retryDeliveries');
  for (const id of ['rotateWebhookSecret', 'getWebhookSecret'] as const) await send(id);
  await send('endEarlierSecrets');
  for (const id of ['previewReplay', 'startReplay', 'listReplays'] as const) await send(id);
  for (const id of ['getReplay', 'cancelReplay'] as const) await send(id);

  for (const id of ['recordLabel', 'updateLabel', 'createFraudReport'] as const) await send(id);
  await send('listExpected');
  expect(await send('recordArrival')).toEqual(EXAMPLES.recordArrival.response);
  expect(await send('gradeItems')).toEqual(EXAMPLES.gradeItems.response);
  expect(await send('assessDispositions')).toEqual(EXAMPLES.assessDispositions.response);
  const { condition, disposition } = RETURN_EXAMPLES.getReturnDetails.response.line_items[1] ?? {};
  const details = await send('getReturnDetails', { query: 'return_id=1' });
  expect(details.line_items[1]).toMatchObject({ condition, disposition });
  await send('getPolicy');
  await send('listReturns');
  expect(await send('processReturn')).toBe(true);
  await send('getEligibility', { query: 'order_name=%23T10' });
  await send('submitReturn');
  await send('listEffects');
  await send('getReturnTimeline');

  const { token, data } = await send('createCart');
  expect(data).toEqual(EXAMPLES.createCart.request);
  expect(await send('getCart', { token })).toEqual({ token, data });
});

test('a destination that was read can be sent back, also without a country', async () => {
  const url = `${stack.file.base_url}/api/2026-10/destinations/${stack.shop.fixtures.destinations.unlinked}`;
  const headers = { 'X-Authorization': stack.shop.api_keys.all ?? '' };
  const put = async (destination: unknown) => {
    const sent = { ...headers, 'Content-Type': 'application/json' };
    const body = JSON.stringify(destination);
    return (await fetch(url, { method: 'PUT', headers: sent, body })).json();
  };
  const changed = await put({ name: 'Depot', address: { city: 'Leeds' } });
  expect(changed).toMatchObject({ address: { city: 'Leeds', country: '', country_code: '' } });
  const read = await (await fetch(url, { headers })).json();
  expect(read).toEqual(changed);
  expect(await put(read)).toEqual(read);
});
