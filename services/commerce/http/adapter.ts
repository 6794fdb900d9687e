import { type KeyObject, randomUUID } from 'node:crypto';
import { z } from 'zod';
import { AddressNotAllowed, describeFailure } from '../../platform/outbound/failure.ts';
import { sign } from '../../platform/outbound/signature.ts';
import { jsonOf, normalForm, printable } from '../../platform/values/text.ts';
import {
  CommerceFailure,
  type CommerceProvider,
  type Effect,
  type EffectKind,
  type EffectRequest,
  type FailureKind,
  isDue,
  isOrder,
  movesMoney,
  NoLookUp,
  type OrderSelector,
  problemOfKind,
} from '../provider.ts';
import { type Answer, type CommerceClient, NotConnected, pauseOf } from './client.ts';
import { type AnsweredOrder, foundOrder, problemsOfOrder } from './order.ts';
import {
  createdAnswer,
  foundAnswer,
  listAnswer,
  orderAnswer,
  PROTOCOL_VERSION,
  type ProtocolEffect,
  type ProtocolRequest,
  type RequestData,
  type RequestType,
  TYPE_OF,
} from './protocol.ts';

const USER_AGENT = 'Returns-Management-Service/1 (commerce)';
/** The provider that refunds name. */
const PROVIDER = 'http';
/**
 * After this time, an effect that `effect.find` does not know was not made. An endpoint must show an effect within 60 s
 * of `webhook-timestamp`, or never make it. In addition, the clocks of endpoint and service may differ by some seconds.
 * Milliseconds.
 */
const SETTLED_AFTER_MS = 75_000;
/** With a reason in the body, these statuses say that the request had no effect and never will. */
const REFUSED: ReadonlySet<number> = new Set([400, 422]);
/** A reason. Only the message counts: a reason in an unusual form must not leave the outcome unknown. */
const reason = z.object({ error: z.object({ message: z.string() }) });
const REASON_MAX = 2_000;
/** These statuses say that the endpoint has no such look-up, also without a reason. */
const NO_LOOK_UP: ReadonlySet<number> = new Set([404, 501]);
/** Times before this one, and times more than a day in the future, are mistakes of the endpoint. */
const FIRST_TIME = new Date('2000-01-01');
const DAY_MS = 86_400_000;

export interface HttpCommerceOptions {
  readonly client: CommerceClient;
  readonly url: string;
  /** The keys that sign requests: the newest first, then earlier ones during their overlap. */
  readonly keys: readonly KeyObject[];
  readonly sandbox: boolean;
}

/** Creates the provider for an endpoint of the merchant. It uses the protocol of docs/commerce.md. */
export function createHttpCommerce(o: HttpCommerceOptions): CommerceProvider {
  return {
    settledAfterMs: SETTLED_AFTER_MS,
    async create(request, signal) {
      const type = TYPE_OF[request.kind];
      const answer = await send(o, { type, request, data: dataOf(request), signal });
      if (isRefusal(answer)) throw new CommerceFailure('final', refusalOf(answer));
      return effectOf(request, read(answer, createdAnswer).effect);
    },
    async find(request, signal) {
      const { kind } = request;
      const data = { ...aboutOf(request), kind };
      const answer = await send(o, { type: 'effect.find', request, data, signal });
      const { effect } = read(answer, foundAnswer);
      return effect === null ? undefined : effectOf(request, effect);
    },
    async lookUp(asked, signal) {
      const { shopId } = asked;
      const data = 'name' in asked ? { name: asked.name } : { id: Number(asked.id) };
      const answer = await send(o, { type: 'order.find', request: { shopId }, data, signal });
      if (REFUSED.has(answer.status) || NO_LOOK_UP.has(answer.status)) {
        throw new NoLookUp(refusalOf(answer));
      }
      const { order } = read(answer, orderAnswer, 'final');
      if (order === null) return undefined;
      const [problem] = [...mistaken(order, asked), ...problemsOfOrder(order)];
      if (problem === undefined) return foundOrder(order);
      throw new CommerceFailure('final', printable(`the answer of the endpoint: ${problem}`));
    },
    async list({ shopId, from, to, cursor }, signal) {
      const data = { from: from.toISOString(), to: to.toISOString(), cursor };
      const answer = await send(o, { type: 'effect.list', request: { shopId }, data, signal });
      if (isRefusal(answer)) return undefined;
      const { effects, next_cursor } = read(answer, listAnswer);
      const made = effects.map((one) => ({ ...effectOf(one, one), kind: one.kind, key: one.key }));
      return { effects: made, cursor: next_cursor ?? '' };
    },
  };
}

/** Returns why an order is not the one that was asked for. */
function mistaken(order: AnsweredOrder, asked: OrderSelector): string[] {
  if ('id' in asked) {
    const isIt = BigInt(order.id) === asked.id;
    return isIt ? [] : [`asked for the order with the id ${asked.id}, found ${order.id}`];
  }
  if (normalForm(order.name) === normalForm(asked.name)) return [];
  return [`asked for the order ${asked.name}, found ${order.name}; compare the whole name`];
}

interface Sending<T extends RequestType> {
  readonly type: T;
  readonly request: Pick<EffectRequest, 'shopId' | 'recordedAtMs'> & { readonly key?: string };
  readonly data: RequestData<T>;
  readonly signal: AbortSignal;
}

async function send<T extends RequestType>(
  { client, url, keys, sandbox }: HttpCommerceOptions,
  { type, request, data, signal }: Sending<T>,
): Promise<Answer> {
  const now = new Date(request.recordedAtMs ?? Date.now());
  const message: ProtocolRequest<T> = {
    type,
    version: PROTOCOL_VERSION,
    sent_at: now.toISOString(),
    shop_id: Number(request.shopId),
    sandbox,
    data,
  };
  const body = JSON.stringify(message);
  const id = `req_${randomUUID()}`;
  const timestamp = Math.floor(now.getTime() / 1_000);
  const headers = {
    'content-type': 'application/json',
    'user-agent': USER_AGENT,
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': sign(keys, { id, timestamp, body: Buffer.from(body) }),
    ...(request.key !== undefined && { 'idempotency-key': request.key }),
  };
  try {
    return await client.post({ url, headers, body, signal });
  } catch (error) {
    const isUnsent = error instanceof NotConnected || error instanceof AddressNotAllowed;
    const cause = error instanceof NotConnected ? error.cause : error;
    throw new CommerceFailure('passing', `the endpoint: ${describeFailure(cause)}`, {
      cause,
      isUnsent,
    });
  }
}

/**
 * Returns the content of a successful answer.
 *
 * @param kind of the failure for JSON that breaks the schema; a repeated look-up gets the same answer.
 * @throws CommerceFailure; for any other answer it is `passing`.
 */
function read<S extends z.ZodType>(
  answer: Answer,
  schema: S,
  kind: FailureKind = 'passing',
): z.infer<S> {
  if (answer.status < 200 || answer.status > 299) {
    throw new CommerceFailure('passing', refusalOf(answer), { retryAfterMs: pauseOf(answer) });
  }
  const json = jsonOf(answer.body);
  const parsed = schema.safeParse(json);
  if (parsed.success) return parsed.data;
  if (json === undefined) throw invalidAnswer('it is not JSON');
  if (reason.safeParse(json).success) {
    throw invalidAnswer(`${refusalOf(answer)}; an endpoint that rejects answers 400 or 422`, kind);
  }
  const [issue] = parsed.error.issues;
  throw invalidAnswer(`${issue?.path.join('.') || 'it'}: ${issue?.message ?? 'is invalid'}`, kind);
}

function invalidAnswer(why: string, kind: FailureKind = 'passing'): CommerceFailure {
  return new CommerceFailure(kind, `the answer of the endpoint is not valid: ${why}`);
}

/** Whether the endpoint rejected the request. Proxies also answer 400, so only an answer with a reason counts. */
function isRefusal({ status, body }: Answer): boolean {
  return REFUSED.has(status) && reason.safeParse(jsonOf(body)).success;
}

function refusalOf({ status, body }: Answer): string {
  const { data } = reason.safeParse(jsonOf(body));
  const why = data ? `: ${printable(data.error.message, REASON_MAX)}` : '';
  return `the endpoint answered ${status}${why}`;
}

function aboutOf({ key, returnId, providerOrderId, orderName }: EffectRequest) {
  return {
    key,
    return_id: Number(returnId),
    order: { id: Number(providerOrderId), name: orderName },
  };
}

function dataOf(request: EffectRequest): RequestData<(typeof TYPE_OF)[EffectRequest['kind']]> {
  const { amount, currency, items, lines, stock } = request;
  const asked = { ...aboutOf(request), amount, currency };
  const details = request.details as Record<string, string>;
  switch (request.kind) {
    case 'exchange_order':
      return { ...asked, ...paymentOf(request), items: items.map(itemOf), details };
    case 'gift_card':
      return { ...asked, details };
    case 'refund':
      return { ...asked, lines: lines.map(lineOf) };
    case 'restock':
      return { ...aboutOf(request), lines: stock.map(stockOf) };
    case 'order_cancel':
      return {
        ...aboutOf(request),
        exchange_order: cancelledOf(request),
        ...(isDue(request.funding) && { due: request.funding.due }),
      };
    default:
      return request.kind satisfies never;
  }
}

function paymentOf({ amount, funding }: EffectRequest) {
  const { paidByReturn = amount, due = '0', paymentReference = '' } = funding ?? {};
  return {
    paid_by_return: paidByReturn,
    due,
    ...(paymentReference !== '' && { payment_reference: paymentReference }),
  };
}

function cancelledOf({ orderToCancel }: EffectRequest) {
  if (!orderToCancel) throw new Error('a cancellation has no order');
  return { id: Number(orderToCancel.id), name: orderToCancel.name };
}

function itemOf({ productId, variantId, ...rest }: EffectRequest['items'][number]) {
  return { product_id: Number(productId), variant_id: Number(variantId), ...rest };
}

function lineOf({ providerLineItemId, ...rest }: EffectRequest['lines'][number]) {
  return { line_item_id: Number(providerLineItemId), ...rest };
}

function stockOf(line: EffectRequest['stock'][number]) {
  return {
    line_item_id: Number(line.providerLineItemId),
    variant_id: Number(line.variantId),
    sku: line.sku,
    quantity: line.quantity,
    location_id: Number(line.locationId),
  };
}

/** Reads the effect in an answer. An effect that moves no money gets the currency of the request. */
function effectOf(
  { kind, currency = '' }: { readonly kind: EffectKind; readonly currency?: string | undefined },
  made: ProtocolEffect,
): Effect {
  const problem = problemOfKind(kind, made);
  if (problem !== undefined) throw invalidAnswer(problem);
  const isRefund = kind === 'refund';
  // The effect was made and must be recorded, so make its texts storable.
  return {
    id: made.id,
    name: isOrder(kind) ? printable(made.name ?? '') : '',
    gateway: isRefund ? printable(made.gateway ?? PROVIDER) : '',
    provider: isRefund ? PROVIDER : '',
    ...(movesMoney(kind)
      ? { amount: made.amount ?? '', currency: made.currency ?? '', due: made.due }
      : { amount: '0', currency }),
    createdAt: timeOf(made.created_at),
  };
}

/** Parses a time. Undefined when it cannot be right. */
function timeOf(text: string | undefined): Date | undefined {
  const time = new Date(text ?? Number.NaN);
  const isPlausible = time >= FIRST_TIME && time.getTime() <= Date.now() + DAY_MS;
  return isPlausible ? time : undefined;
}
