import { createHmac } from 'node:crypto';
import { z } from 'zod';
import { CommerceFailure, type Effect, type EffectRequest } from '../provider.ts';
import { rejectUserErrors, required } from './answers.ts';
import type { Operation, ShopifyClient, ShopifyShop } from './client.ts';
import { gidOf, numberOf } from './ids.ts';
import { money, textOf, timeOf, userErrors } from './shapes.ts';

/** Maximum number of a shopper's gift cards that are read, newest first. More since the request are not expected. */
const MAX_CARDS = 50;
/** Length of a code. Shopify allows 8 to 20 characters: letters a to z, and digits. */
const CODE_LENGTH = 20;

const GIFT_CARD = `
fragment GiftCardParts on GiftCard {
  id
  createdAt
  note
  maskedCode
  initialValue { amount currencyCode }
}`;

const giftCard = z.object({
  id: z.string(),
  createdAt: z.string(),
  note: z.string().nullable(),
  maskedCode: z.string(),
  initialValue: money,
});

export const SHOPPER = {
  name: 'Shopper',
  text: 'query Shopper($order: ID!) { order(id: $order) { customer { id } } }',
  data: z.object({
    order: z.object({ customer: z.object({ id: z.string() }).nullable() }).nullable(),
  }),
} satisfies Operation<z.ZodType>;

export const FIND_GIFT_CARDS = {
  name: 'FindGiftCards',
  text: `
query FindGiftCards($query: String!) {
  giftCards(first: ${MAX_CARDS}, sortKey: ID, reverse: true, query: $query) {
    nodes { ...GiftCardParts }
  }
}
${GIFT_CARD}`,
  data: z.object({ giftCards: z.object({ nodes: z.array(giftCard) }) }),
} satisfies Operation<z.ZodType>;

export const CREATE_GIFT_CARD = {
  name: 'CreateGiftCard',
  text: `
mutation CreateGiftCard($input: GiftCardCreateInput!) {
  giftCardCreate(input: $input) {
    giftCard { ...GiftCardParts }
    userErrors { field message code }
  }
}
${GIFT_CARD}`,
  data: z.object({
    giftCardCreate: z.object({ giftCard: giftCard.nullable(), userErrors }).nullable(),
  }),
} satisfies Operation<z.ZodType>;

interface Asked {
  readonly request: EffectRequest;
  readonly signal: AbortSignal;
}

/**
 * Finds the gift card that has the key in its note. Searches by the code of the card, and among all cards of the
 * shopper. The card has another code when the secret was deleted after the request, because the shop was redacted or
 * disconnected.
 */
export async function findGiftCard(
  client: ShopifyClient,
  shop: ShopifyShop,
  { request, signal }: Asked,
): Promise<Effect | undefined> {
  const customer = await shopperOf(client, shop, { request, signal });
  return search(client, shop, { request, signal, customer });
}

/**
 * Makes a gift card for the shopper of the order. Its code is derived from the key, and codes are unique at Shopify. So
 * Shopify rejects a second card for the same key, even while its search does not find the first one.
 */
export async function createGiftCard(
  client: ShopifyClient,
  shop: ShopifyShop,
  { request, signal }: Asked,
): Promise<Effect> {
  const customer = await shopperOf(client, shop, { request, signal });
  const known = await search(client, shop, { request, signal, customer });
  if (known) return known;
  const variables = {
    input: {
      code: codeOf(shop, request.key),
      initialAmount: { amount: request.amount, currencyCode: request.currency },
      note: `Return ${request.returnId} (${request.key})`,
      ...(customer !== undefined && { customerId: customer }),
    },
  };
  const made = await client.run({ shop, operation: CREATE_GIFT_CARD, variables, signal });
  const payload = required(made.giftCardCreate, 'giftCardCreate');
  if (payload.userErrors.some(({ code }) => code === 'TAKEN')) {
    const first = await search(client, shop, { request, signal, customer });
    if (first) return first;
    throw new CommerceFailure('passing', 'Shopify: the gift card exists, and is not found yet');
  }
  rejectUserErrors(payload.userErrors);
  return effectOf(required(payload.giftCard, 'giftCard'));
}

/** Returns the global id of the shopper; undefined when the order has none. */
async function shopperOf(
  client: ShopifyClient,
  shop: ShopifyShop,
  { request, signal }: Asked,
): Promise<string | undefined> {
  const variables = { order: gidOf('Order', request.providerOrderId) };
  const { order } = await client.run({ shop, operation: SHOPPER, variables, signal });
  return order?.customer?.id;
}

async function search(
  client: ShopifyClient,
  shop: ShopifyShop,
  { request, signal, customer }: Asked & { readonly customer: string | undefined },
): Promise<Effect | undefined> {
  const code = codeOf(shop, request.key);
  const query = customer === undefined ? code : `${code} OR customer_id:${numberOf(customer)}`;
  const operation = FIND_GIFT_CARDS;
  const { giftCards } = await client.run({ shop, operation, variables: { query }, signal });
  const found = giftCards.nodes.find(({ note }) => note?.includes(`(${request.key})`));
  return found && effectOf(found);
}

/**
 * Returns the code for a key. Nobody can guess it without the secret, and it is the same for each request with the key.
 */
function codeOf({ codeSecret }: ShopifyShop, key: string): string {
  const digest = createHmac('sha256', codeSecret).update(`gift-card ${key}`).digest('hex');
  return BigInt(`0x${digest}`).toString(36).slice(-CODE_LENGTH).padStart(CODE_LENGTH, '0');
}

function effectOf(made: z.infer<typeof giftCard>): Effect {
  return {
    id: numberOf(made.id),
    name: textOf(made.maskedCode),
    gateway: '',
    provider: '',
    amount: made.initialValue.amount,
    currency: made.initialValue.currencyCode,
    createdAt: timeOf(made.createdAt),
  };
}
