import express, { type Express } from 'express';
import { Webhook } from 'standardwebhooks';
import type { Ledger, LedgerEffect } from './ledger.ts';

// An endpoint for the protocol of docs/commerce.md. Copy it, and replace the ledger with your platform.

export interface EndpointOptions {
  /** The secrets of the connection, `whsec_…`. During a rotation there are two. */
  readonly secrets: readonly string[];
  readonly ledger: Ledger;
  /** The orders that `order.find` finds, in the form of its answer. Without them it is rejected. */
  readonly orders?: readonly PlatformOrder[] | undefined;
  /** Makes an effect for every request, as if keys were not kept. Only for tests. */
  readonly forgets?: boolean | undefined;
  /** Gets a line for each answer. */
  readonly log?: (line: string) => void;
}

/** An order of your platform, as docs/commerce.md shows it, before refunds. */
export interface PlatformOrder {
  readonly id: number;
  readonly name: string;
  readonly lines: readonly {
    readonly line_item_id: number;
    readonly returnable: number;
    readonly left?: Left | undefined;
  }[];
}

/** What is left of an order line. */
interface Left {
  readonly units: number;
  readonly total: { readonly shop: string; readonly presentment: string };
}

/** The units of a line of a restock or refund. A refund has amounts, of which `shipping` is not for the goods. */
interface Refunded {
  readonly quantity: number;
  readonly refund?: string;
  readonly shipping?: string;
}

interface Data {
  readonly key: string;
  readonly kind?: string;
  readonly return_id: number;
  readonly order: { readonly id: number };
  /** The name in `order.find`. */
  readonly name?: string;
  /** The order that `order.cancel` is about. */
  readonly exchange_order?: { readonly id: number };
  /** A restock has lines, and neither amount nor currency. A cancellation has none of them. */
  readonly amount?: string;
  readonly currency?: string;
  /** What the shopper must still pay of an exchange order. */
  readonly due?: string;
  readonly lines?: readonly (Refunded & { readonly line_item_id: number })[];
  /** The period and page of `effect.list`. The times are in UTC, so that their texts are in order. */
  readonly from?: string;
  readonly to?: string;
  readonly cursor?: string;
}

interface Message {
  readonly type: string;
  readonly shop_id: number;
  readonly sandbox: boolean;
  readonly data: Data;
}

/** Maximum number of effects in an answer to `effect.list`. */
const PAGE_SIZE = 500;

/** What each type of request makes, and the prefix of its names. */
const KINDS: ReadonlyMap<string, readonly [kind: string, prefix: string]> = new Map([
  ['exchange_order.create', ['exchange_order', '#EX']],
  ['gift_card.create', ['gift_card', '#GC']],
  ['refund.create', ['refund', '']],
  ['inventory.restock', ['restock', '']],
  ['order.cancel', ['order_cancel', '']],
]);

/** Creates the endpoint: `POST /` takes requests, `GET /effects` shows the ledger. */
export function createEndpoint({
  secrets,
  ledger,
  orders,
  forgets,
  log,
}: EndpointOptions): Express {
  const webhooks = secrets.map((secret) => new Webhook(secret));
  const app = express().disable('x-powered-by');
  app.get('/effects', (_request, response) => void response.json({ effects: ledger.all() }));
  // The signature is over the bytes of the body, so it is not parsed here.
  app.post('/', express.raw({ type: () => true, limit: '1mb' }), (request, response) => {
    const body = String(request.body);
    const message = verified(webhooks, body, request.headers as Record<string, string>);
    const [status, json] = message
      ? answerTo(message, { ledger, orders, forgets })
      : refusal(401, 'the signature is not valid, or older than 30 s');
    log?.(`${message?.type ?? '-'} ${message?.data.key ?? ''} ${status}`);
    response.status(status).json(json);
  });
  return app;
}

/**
 * A request that is older may have been repeated, or is about to be, so no work may begin on it. Milliseconds.
 */
const BEGINS_WITHIN_MS = 30_000;

/** The message, if one of the secrets has signed it within the last 30 seconds. */
function verified(
  webhooks: readonly Webhook[],
  body: string,
  headers: Record<string, string>,
): Message | undefined {
  if (Date.now() - Number(headers['webhook-timestamp']) * 1_000 > BEGINS_WITHIN_MS)
    return undefined;
  for (const webhook of webhooks) {
    try {
      return webhook.verify(body, headers) as Message;
    } catch {
      // Another secret may fit.
    }
  }
  return undefined;
}

type Answer = readonly [status: number, body: object];

function answerTo(
  { type, shop_id, sandbox, data }: Message,
  { ledger, orders, forgets }: Pick<EndpointOptions, 'ledger' | 'orders' | 'forgets'>,
): Answer {
  if (type === 'effect.find') {
    const found = ledger.find({ shop_id, sandbox, kind: String(data.kind), key: data.key });
    return [200, { effect: found ? shown(found) : null }];
  }
  if (type === 'effect.list') return [200, pageOf(ledger, { shop_id, sandbox }, data)];
  if (type === 'order.find' && orders) {
    const order = orders.find(({ name }) => name === data.name);
    return [200, { order: order ? refunded(order, ledger, { shop_id, sandbox }) : null }];
  }
  const [kind, prefix] = KINDS.get(type) ?? [];
  if (kind === undefined) return refusal(400, `unknown type ${type}`);
  // First of all: a key has one effect, and a repeat gets the first answer.
  const known = forgets ? undefined : ledger.find({ shop_id, sandbox, kind, key: data.key });
  if (known) return [200, { effect: shown(known) }];
  if (!data.key) return refusal(422, 'data.key is required');
  const problem = problemOf(kind, data, ledger);
  if (problem) return refusal(422, problem);
  const { key, return_id, amount, currency, due } = data;
  const name = prefix === '' ? '' : `${prefix}${return_id}`;
  const made = ledger.add({
    key,
    kind,
    name,
    amount,
    currency,
    // Your platform sends the shopper an invoice for this. If it cannot, reject a request with an amount above zero.
    ...(kind === 'exchange_order' && { due }),
    shop_id,
    sandbox,
    return_id,
    data,
  });
  return [200, { effect: shown(made) }];
}

/** The order with the units, and with what was paid for goods, that were not refunded. */
function refunded(
  order: PlatformOrder,
  ledger: Ledger,
  shop: Pick<Message, 'shop_id' | 'sandbox'>,
): PlatformOrder {
  const units = ledger
    .all()
    .filter((one) => one.shop_id === shop.shop_id && one.sandbox === shop.sandbox)
    .flatMap(({ kind, data }) => (kind === 'refund' ? [data as Data] : []))
    .flatMap((data) => (data.order.id === order.id ? (data.lines ?? []) : []));
  const lines = order.lines.map((line) => {
    const refunds = units.filter((one) => one.line_item_id === line.line_item_id);
    const count = refunds.reduce((sum, { quantity }) => sum + quantity, 0);
    const returnable = Math.max(0, line.returnable - count);
    return { ...line, returnable, ...(line.left && { left: refunds.reduce(lowered, line.left) }) };
  });
  return { ...order, lines };
}

/**
 * Lowers what is left by a refund of goods. The refund is in the currency that the shopper paid in, so the total in
 * the shop's currency loses the same share.
 */
function lowered(
  { units, total }: Left,
  { quantity, refund = '0', shipping = '0' }: Refunded,
): Left {
  const before = minor(total.presentment);
  const after = before - minor(refund) + minor(shipping);
  const rest = after > 0n ? after : 0n;
  const shop = before === 0n ? minor(total.shop) : (minor(total.shop) * rest) / before;
  return {
    units: Math.max(0, units - quantity),
    total: {
      shop: decimal(shop, total.shop),
      presentment: decimal(rest, total.presentment),
    },
  };
}

/** Parses an amount. All currencies get four decimals, because floating point loses cents. */
function minor(amount: string): bigint {
  const [units, fraction = ''] = amount.split('.');
  return BigInt(`${units}${fraction.padEnd(4, '0')}`);
}

/** Formats an amount with as many decimals as another amount of its currency has. Rounds up. */
function decimal(value: bigint, like: string): string {
  const { length } = like.split('.')[1] ?? '';
  const unit = 10n ** BigInt(4 - length);
  const text = String((value + unit - 1n) / unit).padStart(length + 1, '0');
  const at = text.length - length;
  return length === 0 ? text : `${text.slice(0, at)}.${text.slice(at)}`;
}

function problemOf(
  kind: string,
  { amount = '', lines = [], exchange_order }: Data,
  ledger: Ledger,
): string | undefined {
  if (kind === 'order_cancel') {
    // Your platform also rejects an order that was shipped.
    const order = ledger
      .all()
      .find((one) => one.kind === 'exchange_order' && one.id === exchange_order?.id);
    return order ? undefined : 'data.exchange_order does not exist';
  }
  if (kind === 'restock') return lines.length > 0 ? undefined : 'data.lines has no line';
  // As text: floating point loses cents.
  const isAmount = /^\d+(\.\d+)?$/.test(amount) && /[1-9]/.test(amount);
  return isAmount ? undefined : 'data.amount must be a decimal number above zero';
}

function pageOf(
  ledger: Ledger,
  shop: Pick<Message, 'shop_id' | 'sandbox'>,
  { from = '', to = '', cursor }: Data,
) {
  const isIn = ({ created_at, shop_id, sandbox }: LedgerEffect) =>
    shop_id === shop.shop_id && sandbox === shop.sandbox && created_at >= from && created_at < to;
  const after = Number(cursor || '0');
  const found = ledger.all().filter((one) => isIn(one) && one.id > after);
  const page = found.slice(0, PAGE_SIZE);
  const effects = page.map((one) => ({ ...shown(one), kind: one.kind, key: one.key }));
  const isLast = page.length === found.length;
  return { effects, next_cursor: isLast ? null : String(page.at(-1)?.id) };
}

function shown({ id, name, amount, currency, due, created_at, kind }: LedgerEffect) {
  const gateway = kind === 'refund' ? 'card' : undefined;
  return { id, name, amount, currency, due, created_at, gateway };
}

/** 400 and 422 say: nothing was made, and nothing will be. Everything else is tried again. */
function refusal(status: number, message: string): Answer {
  return [status, { error: { message } }];
}
