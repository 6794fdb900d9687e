import { createHmac } from 'node:crypto';
import { z } from 'zod';
import { CommerceFailure, type Effect, type EffectRequest } from '../provider.ts';
import {
  gidOf,
  money,
  numberOf,
  rejectUserErrors,
  required,
  textOf,
  timeOf,
  userErrors,
} from './answers.ts';
import { operation, type StoreSession } from './client.ts';

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

export const SHOPPER = operation(
  'query Shopper($order: ID!) { order(id: $order) { customer { id } } }',
  z.object({
    order: z.object({ customer: z.object({ id: z.string() }).nullable() }).nullable(),
  }),
);

export const FIND_GIFT_CARDS = operation(
  `
query FindGiftCards($query: String!) {
  giftCards(first: ${MAX_CARDS}, sortKey: ID, reverse: true, query: $query) {
    nodes { ...GiftCardParts }
  }
}
${GIFT_CARD}`,
  z.object({ giftCards: z.object({ nodes: z.array(giftCard) }) }),
);

export const CREATE_GIFT_CARD = operation(
  `
mutation CreateGiftCard($input: GiftCardCreateInput!) {
  giftCardCreate(input: $input) {
    giftCard { ...GiftCardParts }
    userErrors { field message code }
  }
}
${GIFT_CARD}`,
  z.object({
    giftCardCreate: z.object({ giftCard: giftCard.nullable(), userErrors }).nullable(),
  }),
);

/**
 * Finds the gift card that has the key in its note. Searches by the code of the card, and among all cards of the
 * shopper. The card has another code when the secret was deleted after the request, because the shop was redacted or
 * disconnected.
 */
export async function findGiftCard(
  store: StoreSession,
  request: EffectRequest,
): Promise<Effect | undefined> {
  const customer = await shopperOf(store, request);
  return search(store, request, customer);
}

/**
 * Makes a gift card for the shopper of the order. Its code is derived from the key, and codes are unique at Shopify. So
 * Shopify rejects a second card for the same key, even while its search does not find the first one.
 */
export async function createGiftCard(store: StoreSession, request: EffectRequest): Promise<Effect> {
  const customer = await shopperOf(store, request);
  const known = await search(store, request, customer);
  if (known) return known;
  const variables = {
    input: {
      code: codeOf(store, request.key),
      initialAmount: { amount: request.amount, currencyCode: request.currency },
      note: `Return ${request.returnId} (${request.key})`,
      ...(customer !== undefined && { customerId: customer }),
    },
  };
  const made = await store.run(CREATE_GIFT_CARD, variables);
  const payload = required(made.giftCardCreate, 'giftCardCreate');
  if (payload.userErrors.some(({ code }) => code === 'TAKEN')) {
    const first = await search(store, request, customer);
    if (first) return first;
    throw new CommerceFailure('passing', 'Shopify: the gift card exists, and is not found yet');
  }
  rejectUserErrors(payload.userErrors);
  return effectOf(required(payload.giftCard, 'giftCard'));
}

/** Returns the global id of the shopper; undefined when the order has none. */
async function shopperOf(store: StoreSession, request: EffectRequest): Promise<string | undefined> {
  const asked = { order: gidOf('Order', request.providerOrderId) };
  const { order } = await store.run(SHOPPER, asked);
  return order?.customer?.id;
}

async function search(
  store: StoreSession,
  request: EffectRequest,
  customer: string | undefined,
): Promise<Effect | undefined> {
  const code = codeOf(store, request.key);
  const query = customer === undefined ? code : `${code} OR customer_id:${numberOf(customer)}`;
  const { giftCards } = await store.run(FIND_GIFT_CARDS, { query });
  const found = giftCards.nodes.find(({ note }) => note?.includes(`(${request.key})`));
  return found && effectOf(found);
}

/**
 * Returns the code for a key. Nobody can guess it without the secret, and it is the same for each request with the key.
 */
function codeOf({ codeSecret }: StoreSession, key: string): string {
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
