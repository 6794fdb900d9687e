import { z } from 'zod';
import { CommerceFailure, type Effect, type EffectRequest, type RestockLine } from '../provider.ts';
import {
  gidOf,
  rejectUserErrors,
  required,
  textOf,
  timeOf,
  userErrors,
  uuidOf,
} from './answers.ts';
import { operation, type StoreSession } from './client.ts';

/**
 * How long this service relies on Shopify to recognize an idempotency key. Shopify does not say how long it keeps one;
 * a day is usual. Milliseconds.
 */
export const KEY_KEPT_MS = 12 * 3_600_000;
/** Maximum number of lines in a query. More would cost more points than Shopify allows. */
const MAX_LINES = 200;
/** The id of an effect that adjusted nothing, because Shopify does not count the stock of these goods. */
const NOT_COUNTED = 'not-counted';
const MAX_ID_LENGTH = 191;

export const STOCK_OF_LINES = operation(
  `
query StockOfLines($lines: [ID!]!) {
  nodes(ids: $lines) {
    ... on LineItem { id variant { inventoryItem { id tracked } } }
  }
}`,
  z.object({
    nodes: z.array(
      z
        .object({
          id: z.string(),
          variant: z
            .object({ inventoryItem: z.object({ id: z.string(), tracked: z.boolean() }) })
            .nullable(),
        })
        .nullable(),
    ),
  }),
);

/** The query for the primary location of the shop. Goods without a location of their own are restocked there. */
export const PRIMARY_LOCATION = operation(
  'query PrimaryLocation { location { id } }',
  z.object({ location: z.object({ id: z.string() }).nullable() }),
);

export const ADJUST_STOCK = operation(
  `
mutation AdjustStock($input: InventoryAdjustQuantitiesInput!, $key: String!) {
  inventoryAdjustQuantities(input: $input) @idempotent(key: $key) {
    inventoryAdjustmentGroup { id createdAt }
    userErrors { code field message }
  }
}`,
  z.object({
    inventoryAdjustQuantities: z
      .object({
        inventoryAdjustmentGroup: z.object({ id: z.string(), createdAt: z.string() }).nullable(),
        userErrors,
      })
      .nullable(),
  }),
);

/**
 * Finds nothing, because Shopify cannot find an adjustment by its key. A repeated request with the key gets the first
 * result.
 */
export async function findRestock(): Promise<undefined> {
  return undefined;
}

/**
 * Adds the goods to the available stock, each at its location, or else at the primary one. Goods whose variant was
 * deleted are left out. So are goods whose stock Shopify does not count.
 *
 * @throws CommerceFailure `final`, when Shopify rejects an adjustment, for example because the location does not stock
 *   the goods.
 */
export async function adjustStock(store: StoreSession, request: EffectRequest): Promise<Effect> {
  const { stock, key, returnId } = request;
  if (stock.length > MAX_LINES) {
    throw new CommerceFailure('final', `Shopify: more than ${MAX_LINES} lines to restock`);
  }
  const items = await countedItems(store, request);
  const counted = stock.filter((line) => items.has(line.providerLineItemId));
  if (counted.length === 0) return effectOf(request, { id: NOT_COUNTED, createdAt: null });
  const needsPrimary = counted.some(({ locationId }) => locationId === 0n);
  const primary = needsPrimary ? await primaryLocation(store) : '';
  const variables = {
    key: uuidOf(key),
    input: {
      name: 'available',
      reason: 'restock',
      referenceDocumentUri: `gid://returns-management-service/Return/${returnId}`,
      changes: changesOf(counted, { items, primary }),
    },
  };
  const made = await store.run(ADJUST_STOCK, variables);
  const payload = required(made.inventoryAdjustQuantities, 'inventoryAdjustQuantities');
  rejectUserErrors(payload.userErrors);
  return effectOf(request, required(payload.inventoryAdjustmentGroup, 'inventoryAdjustmentGroup'));
}

/** Returns the inventory items whose stock Shopify counts, by the provider's id of the order line. */
async function countedItems(
  store: StoreSession,
  request: EffectRequest,
): Promise<ReadonlyMap<bigint, string>> {
  const known = request.stock.filter(({ providerLineItemId }) => providerLineItemId > 0n);
  if (known.length === 0) return new Map();
  const lines = known.map(({ providerLineItemId }) => gidOf('LineItem', providerLineItemId));
  const { nodes } = await store.run(STOCK_OF_LINES, { lines });
  const itemOf = new Map(nodes.map((node) => [node?.id, node?.variant?.inventoryItem]));
  return new Map(
    known.flatMap(({ providerLineItemId: line }) => {
      const item = itemOf.get(gidOf('LineItem', line));
      return item?.tracked ? [[line, item.id] as const] : [];
    }),
  );
}

async function primaryLocation(store: StoreSession): Promise<string> {
  return required((await store.run(PRIMARY_LOCATION, {})).location, 'location').id;
}

/**
 * Returns one change for each item and location. The order is always the same, because a repeated key must come with
 * the same content.
 */
function changesOf(
  stock: readonly RestockLine[],
  { items, primary }: { readonly items: ReadonlyMap<bigint, string>; readonly primary: string },
) {
  const changes = new Map<string, { inventoryItemId: string; locationId: string; delta: number }>();
  for (const { providerLineItemId, locationId: own, quantity } of stock) {
    const inventoryItemId = items.get(providerLineItemId) ?? '';
    const locationId = own > 0n ? gidOf('Location', own) : primary;
    const name = `${inventoryItemId} ${locationId}`;
    const delta = (changes.get(name)?.delta ?? 0) + quantity;
    changes.set(name, { inventoryItemId, locationId, delta });
  }
  // The change has no expected quantity, because sales change the quantity at any time.
  return [...changes.entries()]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([, change]) => ({ ...change, changeFromQuantity: null }));
}

function effectOf(
  { currency }: EffectRequest,
  { id, createdAt }: { readonly id: string; readonly createdAt: string | null },
): Effect {
  const text = textOf(id.slice(id.lastIndexOf('/') + 1)).slice(0, MAX_ID_LENGTH);
  const nothing = { name: '', gateway: '', provider: '', amount: '0', currency };
  return { id: text, ...nothing, createdAt: timeOf(createdAt) };
}
