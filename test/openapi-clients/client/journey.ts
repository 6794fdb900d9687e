import { randomUUID } from 'node:crypto';
import createClient from 'openapi-fetch';
import type { paths } from '../generated/2026-10.d.ts';

// A journey of a partner with the generated client. It compiles strictly, and runs against a stack with
// BASE_URL and API_KEY.

const client = createClient<paths>({
  baseUrl: `${process.env.BASE_URL}/api/2026-10`,
  headers: { 'X-Authorization': process.env.API_KEY ?? '' },
});

/** The data of a response; a generated type per operation. */
function dataOf<T>({ data, error }: { readonly data?: T; readonly error?: unknown }): T {
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data;
}

const query = { state: ['open' as const], sort: '-updated_at' as const, limit: 10 };
const page = dataOf(await client.GET('/warehouse/returns', { params: { query } }));
const [first] = page.returns;
if (!first) throw new Error('the shop has no open return');
const details = dataOf(
  await client.GET('/warehouse/return/details', { params: { query: { return_id: first.id } } }),
);
if (details.order_name !== first.order_name) throw new Error('details of another return');

const { destinations } = dataOf(await client.GET('/destinations'));
const named = destinations.map(({ id, name }) => `${id} ${name}`);

const params = { header: { 'Idempotency-Key': randomUUID() } };
const create = () => client.POST('/cart', { params, body: { cart: [1, { variant_id: 2 }] } });
const [cart, repeat] = [dataOf(await create()), dataOf(await create())];
if (cart.token !== repeat.token) throw new Error('the repeat made another cart');

const wrong = await client.POST('/returns/{id}/fraud-report', {
  params: { path: { id: first.id } },
  body: { category: 'other' },
});
if (wrong.response.status !== 422) throw new Error('a missing comment was accepted');

process.stdout.write(`${first.order_name} of ${page.returns.length}; ${named.join(', ')}\n`);
