import type { MessageInitShape } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type {
  FindReturnRequest,
  FindReturnsRequest,
  FoundReturnSchema,
  GetReturnsRequest,
  GetSnapshotRequest,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { DomainError, invalidField } from '../../platform/values/errors.ts';
import { callerShape, id, parseInput } from '../../platform/values/input.ts';
import { returnNotFound } from '../errors.ts';
import { submitterText } from '../policy/submitter.ts';
import type { ReturnReader } from '../store/return-reader.ts';

interface FindDeps {
  readonly pool: pg.Pool;
  readonly reader: ReturnReader;
}

/** Maximum number of selectors in one call of FindReturns. */
const MAX_FOUND = 32;

const batch = z.object({
  ...callerShape,
  returnIds: z.array(id).min(1, 'must hold at least one id').max(100, 'must hold at most 100 ids'),
});

/**
 * Reads several returns in the order of the request, each once. Returns that the shop does not have are left out.
 * Always returns the first return, and stops before the first return that does not fit into the response. The caller
 * must request the others again.
 *
 * @throws DomainError INVALID_ARGUMENT.
 */
export async function getReturns(
  reader: ReturnReader,
  request: GetReturnsRequest,
): Promise<readonly Return[]> {
  const { shopId, returnIds } = parseInput(batch, request);
  return reader.page(shopId, returnIds);
}

/**
 * Reads the newest return with this return id, order name or order id. An order id is first searched among this
 * service's own ids, and only then among those of the commerce provider. Waits for a permit when the return is large.
 *
 * @throws DomainError INVALID_ARGUMENT when the selector is absent; RETURN_NOT_FOUND; ANSWER_TOO_LARGE.
 */
export async function findReturn(
  { pool, reader }: FindDeps,
  request: FindReturnRequest,
): Promise<Return> {
  const { shopId, selector, maxBytes } = request;
  if (selector.case === undefined) throw invalidField('selector', 'is required');
  if (maxBytes < 0) throw invalidField('max_bytes', 'must not be negative');
  const submitter = submitterText(request.submitter);
  const [id] = await selectReturns(pool, shopId, [selector], submitter);
  if (id === undefined) throw returnNotFound();
  const found = await reader.one(shopId, id, { maxBytes });
  if (!found) throw returnNotFound();
  if (submitter !== null && submitterText(found.submitter) !== submitter) throw returnNotFound();
  return found;
}

const selectorInput = z.custom<Selector>(
  (one) => typeof one === 'object' && one !== null && 'case' in one && one.case !== undefined,
  'is required',
);

const selection = z.object({
  ...callerShape,
  selectors: z
    .array(z.object({ selector: selectorInput }))
    .min(1, 'must hold at least one')
    .max(MAX_FOUND, `must hold at most ${MAX_FOUND}`),
});

/**
 * Finds several returns as {@link findReturn} does, each once, usually with one statement. Returns that the shop does
 * not have, or that do not fit into the response, are left out.
 *
 * @throws DomainError INVALID_ARGUMENT when a selector is absent, or when there are more than 32.
 */
export async function findReturns(
  { pool, reader }: FindDeps,
  request: FindReturnsRequest,
): Promise<MessageInitShape<typeof FoundReturnSchema>[]> {
  const { shopId, selectors } = parseInput(selection, request);
  const selectedIds = await selectReturns(
    pool,
    shopId,
    selectors.map((one) => one.selector),
  );
  const positions = new Map<bigint, number[]>();
  selectedIds.forEach((returnId, position) => {
    if (returnId === undefined) return;
    const earlier = positions.get(returnId);
    if (earlier) earlier.push(position);
    else positions.set(returnId, [position]);
  });
  const found = await reader.small(shopId, [...positions.keys()]);
  return found.map((ret) => ({ positions: positions.get(ret.id) ?? [], return: ret }));
}

const snapshotInput = z.object({ ...callerShape, returnId: id, revision: id });

/**
 * Reads a return at the revision of an event that has no snapshot. The current revision always exists. Older revisions
 * exist as long as their events.
 *
 * @throws DomainError INVALID_ARGUMENT; RETURN_NOT_FOUND.
 */
export async function getSnapshot(
  reader: ReturnReader,
  request: GetSnapshotRequest,
): Promise<Return> {
  const { shopId, returnId, revision } = parseInput(snapshotInput, request);
  const found = await reader.atRevision({ shopId, returnId, revision });
  if (!found) throw returnNotFound();
  if (found.revision === revision) return found;
  throw new DomainError(
    Code.NotFound,
    ErrorReason.RETURN_NOT_FOUND,
    `revision ${revision} of the return is not stored`,
  );
}

/** Selects one return. It has the form of the `oneof` in the requests. */
export type Selector =
  | { readonly case: 'returnId' | 'orderId' | 'providerOrderId'; readonly value: bigint }
  | { readonly case: 'orderName'; readonly value: string };

/**
 * Returns for each selector the id of its return; undefined when the shop has none. When an order has several returns,
 * this is the id of the newest return. Order names are compared in their normal form. Runs one statement for each kind
 * of selector.
 *
 * @param submitter value of the column; null for returns of every submitter.
 *
 * A return id is not checked here. The read that follows finds whether the return exists.
 */
export async function selectReturns(
  db: Queryable,
  shopId: bigint,
  selectors: readonly Selector[],
  submitter: string | null = null,
): Promise<(bigint | undefined)[]> {
  const orderIds = new Set<bigint>();
  const providerOrderIds = new Set<bigint>();
  const names = new Set<string>();
  for (const selector of selectors) {
    if (selector.case === 'orderId') orderIds.add(selector.value);
    if (selector.case === 'providerOrderId') providerOrderIds.add(selector.value);
    // Skip names with NUL. PostgreSQL rejects such texts, and no stored name has one.
    if (selector.case === 'orderName' && !selector.value.includes('\0')) names.add(selector.value);
  }
  const byOrder = await newestOfOrders(db, shopId, {
    ids: [...orderIds],
    byProviderId: false,
    submitter,
  });
  const byProviderOrder = await newestOfOrders(db, shopId, {
    ids: [...providerOrderIds],
    byProviderId: true,
    submitter,
  });
  const byName = await newestNamed(db, shopId, { names: [...names], submitter });
  return selectors.map((selector) => {
    switch (selector.case) {
      case 'returnId':
        return selector.value;
      case 'orderId':
        return byOrder.get(selector.value);
      case 'providerOrderId':
        return byProviderOrder.get(selector.value);
      case 'orderName':
        return byName.get(selector.value);
      default:
        return selector satisfies never;
    }
  });
}

const BY_PROVIDER_ID = `(select o.id from orders o
                               where o.shop_id = $1 and o.provider_order_id = selected.order_id)`;
// First this service's own id, which is order_id in the details. The provider's id counts only when no own id matches.
const BY_ID = `coalesce(
                             (select o.id from orders o
                               where o.shop_id = $1 and o.id = selected.order_id),
                             ${BY_PROVIDER_ID})`;
const newestOf = (orderId: string) => `
select selected.order_id, newest.id
  from unnest($2::bigint[]) as selected (order_id)
 cross join lateral (
         select r.id
           from returns r
          where r.shop_id = $1 and r.order_id = ${orderId}
            and ($3::text is null or r.submitter = $3)
          order by r.created_at desc, r.id desc limit 1) newest`;

async function newestOfOrders(
  db: Queryable,
  shopId: bigint,
  orders: {
    readonly ids: readonly bigint[];
    readonly byProviderId: boolean;
    readonly submitter: string | null;
  },
): Promise<Map<bigint, bigint>> {
  if (orders.ids.length === 0) return new Map();
  const { rows } = await db.query<{ order_id: bigint; id: bigint }>({
    name: orders.byProviderId ? 'find-by-provider-order-ids' : 'find-by-order-ids',
    text: newestOf(orders.byProviderId ? BY_PROVIDER_ID : BY_ID),
    values: [shopId, orders.ids, orders.submitter],
  });
  return new Map(rows.map((row) => [row.order_id, row.id]));
}

async function newestNamed(
  db: Queryable,
  shopId: bigint,
  { names, submitter }: { readonly names: readonly string[]; readonly submitter: string | null },
): Promise<Map<string, bigint>> {
  if (names.length === 0) return new Map();
  const { rows } = await db.query<{ name: string; id: bigint }>({
    name: 'find-by-order-names',
    text: `select selected.name, newest.id
             from unnest($2::text[]) as selected (name)
            cross join lateral (
                    select r.id from returns r
                     where r.shop_id = $1 and normal_form(r.order_name) = normal_form(selected.name)
                       and ($3::text is null or r.submitter = $3)
                     order by r.created_at desc, r.id desc limit 1) newest`,
    values: [shopId, names, submitter],
  });
  return new Map(rows.map((row) => [row.name, row.id]));
}
