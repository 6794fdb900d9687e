import { readFileSync } from 'node:fs';
import { buildSchema, GraphQLError, type GraphQLResolveInfo, getDirectiveValues } from 'graphql';
import { formatAmount, minorOf } from '../../../../services/platform/values/money.ts';
import { draftMutationsOf, type MoneyInput } from './drafts.ts';
import {
  type DraftsOrder,
  GATEWAY,
  leftOf,
  type Made,
  type MadeGiftCard,
  type MadeRefund,
  makerOf,
  refundableOf,
  type Shop,
  type ShopOrder,
} from './shop.ts';
import {
  adjustmentView,
  draftsOrderView,
  draftView,
  giftCardView,
  locationView,
  nodeView,
  numberOf,
  orderView,
  refundView,
} from './views.ts';

const read = (name: string) => readFileSync(new URL(`schema/${name}`, import.meta.url), 'utf8');

/** The part of Shopify's schema that is in use. */
export const schema = buildSchema(
  ['queries', 'orders', 'mutations'].map((name) => read(`${name}.graphql`)).join('\n'),
);

interface RefundInput {
  readonly orderId: string;
  readonly currency: string;
  readonly note: string;
  readonly refundLineItems: readonly { readonly lineItemId: string; readonly quantity: number }[];
  readonly transactions: readonly {
    readonly amount: string;
    readonly gateway: string;
    readonly parentId: string;
  }[];
}

interface GiftCardInput {
  readonly code: string;
  readonly customerId?: string;
  readonly initialAmount: MoneyInput;
  readonly note: string;
}

interface StockInput {
  readonly referenceDocumentUri: string;
  readonly changes: readonly {
    readonly inventoryItemId: string;
    readonly locationId: string;
    readonly delta: number;
  }[];
}

interface OrderCancel {
  readonly orderId: string;
  readonly refundMethod: { readonly originalPaymentMethodsRefund: boolean };
}

interface ResolverOptions {
  /** How late the search of the shop shows what was made. Milliseconds. */
  readonly lagMs: number;
  readonly forgets: boolean;
}

/** The resolvers of a shop. */
export function resolversOf(shop: Shop, o: ResolverOptions) {
  return {
    ...queriesOf(shop),
    ...mutationsOf(shop, o),
    ...draftMutationsOf(shop, o.lagMs),
    ...goodsMutationsOf(shop, o),
  };
}

function queriesOf(shop: Shop) {
  const isShown = ({ shownAt }: Made) => performance.now() >= shownAt;
  return {
    shop: { plan: () => ({ partnerDevelopment: shop.isDevelopment }) },
    order({ id }: { id: string }) {
      const made = draftsOrder(shop, id);
      return made ? draftsOrderView(made) : orderView(shop, shop.orders.get(numberOf(id)));
    },
    orders({ query }: { query: string }) {
      const [, name] = /^name:"(.*)"$/.exec(query) ?? [];
      const found = [...shop.orders.values()].filter((order) => order.name.startsWith(name ?? ''));
      return { nodes: found.map((order) => orderView(shop, order)) };
    },
    nodes: ({ ids }: { ids: readonly string[] }) => ids.map((id) => nodeView(shop, id)),
    location: () => (shop.locations[0] === undefined ? null : locationView(shop.locations[0])),
    refund({ id }: { id: string }) {
      const found = shop.refunds.find((refund) => refund.id === numberOf(id));
      return found ? refundView(shop, found) : null;
    },
    draftOrder({ id }: { id: string }) {
      const found = shop.drafts.find((draft) => draft.id === numberOf(id));
      return found ? draftView(found) : null;
    },
    draftOrders({ query }: { query: string }) {
      const found = shop.drafts.filter(
        (draft) => isShown(draft) && draft.tags.includes(query.replace(/^tag:/, '')),
      );
      return { nodes: found.map(draftView) };
    },
    giftCards({ query }: { query: string }) {
      const terms = query.split(' OR ');
      const found = shop.giftCards.filter(
        (card) =>
          isShown(card) &&
          (terms.includes(card.code) || terms.includes(`customer_id:${card.customerId}`)),
      );
      return { nodes: found.toReversed().map(giftCardView) };
    },
  };
}

function mutationsOf(shop: Shop, o: ResolverOptions) {
  const make = makerOf(shop, o.lagMs);
  return {
    refundCreate({ input }: { input: RefundInput }, _: unknown, info: GraphQLResolveInfo) {
      return once(shop, { info, content: input, forgets: o.forgets }, () => {
        const order = shop.orders.get(numberOf(input.orderId));
        const problem = order ? refundProblem(shop, order, input) : 'Order does not exist';
        if (problem || !order) return { refund: null, userErrors: [{ message: problem }] };
        const sum = input.transactions.reduce(
          (minor, { amount }) => minor + minorOf(amount, order.currency),
          0n,
        );
        const { currency } = order;
        const refund: MadeRefund = {
          ...make({ note: input.note, amount: formatAmount(sum, currency), currency }),
          orderId: order.id,
          gateway: GATEWAY,
          lines: input.refundLineItems.map((line) => ({
            id: numberOf(line.lineItemId),
            quantity: line.quantity,
          })),
          status: 'SUCCESS',
        };
        shop.refunds.push(refund);
        return { refund: refundView(shop, refund), userErrors: [] };
      });
    },
    giftCardCreate({ input }: { input: GiftCardInput }) {
      if (!/^[a-z0-9]{8,20}$/i.test(input.code)) return giftCardError('INVALID');
      if (shop.giftCards.some(({ code }) => code === input.code)) return giftCardError('TAKEN');
      const { amount, currencyCode: currency } = input.initialAmount;
      const card: MadeGiftCard = {
        ...make({ note: input.note, amount, currency }),
        code: input.code,
        customerId: input.customerId === undefined ? undefined : numberOf(input.customerId),
      };
      shop.giftCards.push(card);
      return { giftCard: giftCardView(card), userErrors: [] };
    },
  };
}

/** The mutations that move goods and no money. */
function goodsMutationsOf(shop: Shop, o: ResolverOptions) {
  return {
    inventoryAdjustQuantities(
      { input }: { input: StockInput },
      _: unknown,
      info: GraphQLResolveInfo,
    ) {
      return once(shop, { info, content: input, forgets: o.forgets }, () => {
        const changes = input.changes.map(({ inventoryItemId, locationId, delta }) => ({
          item: numberOf(inventoryItemId),
          location: numberOf(locationId),
          delta,
        }));
        if (changes.some(({ location }) => !shop.locations.includes(location))) {
          return stockError('ITEM_NOT_STOCKED_AT_LOCATION', 'The item is not stocked there');
        }
        const made = { id: shop.nextId++, reference: input.referenceDocumentUri, changes };
        shop.adjustments.push(made);
        return { inventoryAdjustmentGroup: adjustmentView(made), userErrors: [] };
      });
    },
    orderCancel({ orderId, refundMethod }: OrderCancel) {
      const order = draftsOrder(shop, orderId);
      if (!order) return orderCancelError('NOT_FOUND', 'Order does not exist');
      if (order.cancelledAt) return orderCancelError('INVALID', 'Order has already been cancelled');
      if (order.isShipped) return orderCancelError('INVALID', 'Cannot cancel a fulfilled order');
      const cancel = () => {
        order.cancelledAt ??= new Date();
        order.isRefunded = refundMethod.originalPaymentMethodsRefund;
      };
      // Shopify cancels in the background.
      if (o.lagMs > 0) setTimeout(cancel, o.lagMs);
      else cancel();
      return { job: { id: 'gid://shopify/Job/1', done: false }, orderCancelUserErrors: [] };
    },
  };
}

/** The order that a draft has become; undefined for other ids. */
function draftsOrder(shop: Shop, gid: string): DraftsOrder | undefined {
  return shop.drafts.find(({ order }) => order?.id === numberOf(gid))?.order;
}

function orderCancelError(code: string, message: string) {
  return { job: null, orderCancelUserErrors: [{ code, field: ['orderId'], message }] };
}

function stockError(code: string, message: string) {
  return { inventoryAdjustmentGroup: null, userErrors: [{ code, field: ['input'], message }] };
}

/** The rules of `@idempotent`: it must be there, and a key has one result and one content. */
function once<T>(
  shop: Shop,
  o: { readonly info: GraphQLResolveInfo; readonly content: unknown; readonly forgets: boolean },
  work: () => T,
): T | object {
  const directive = schema.getDirective('idempotent');
  const [node] = o.info.fieldNodes;
  const values = directive && node && getDirectiveValues(directive, node, o.info.variableValues);
  if (!values) throw new GraphQLError('The @idempotent directive is required for this mutation');
  const key = String(values.key);
  const content = JSON.stringify(o.content);
  const known = o.forgets ? undefined : shop.keys.get(key);
  if (!known) {
    const result = work();
    shop.keys.set(key, { content, result });
    return result;
  }
  if (known.content === content) return known.result as T;
  const message = 'The same idempotency key cannot be used with different operation parameters.';
  return { refund: null, userErrors: [{ message }] };
}

function refundProblem(shop: Shop, order: ShopOrder, input: RefundInput): string | undefined {
  if (input.currency !== order.currency) return 'Currency must be the presentment currency';
  const wrong = input.transactions.find(
    ({ parentId, gateway }) => numberOf(parentId) !== order.id || gateway !== GATEWAY,
  );
  if (wrong) return 'Parent transaction does not exist';
  for (const { lineItemId, quantity } of input.refundLineItems) {
    const line = order.lines.find(({ id }) => id === numberOf(lineItemId));
    if (!line || refundableOf(shop, line) < quantity) return 'Refund quantity is too large';
  }
  const sum = input.transactions.reduce(
    (minor, { amount }) => minor + minorOf(amount, order.currency),
    0n,
  );
  return sum > leftOf(shop, order) ? 'Refund amount is greater than what is left' : undefined;
}

function giftCardError(code: string) {
  return { giftCard: null, userErrors: [{ code, field: ['code'], message: `Code is ${code}` }] };
}
