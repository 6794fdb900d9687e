import { randomUUID } from 'node:crypto';
import { type DescField, type DescMessage, type DescMethod, ScalarType } from '@bufbuild/protobuf';
import { submission } from '../../../deploy/local/demo/submission.ts';

/** One id of each kind of object in a shop. */
export interface Ids {
  readonly returnId: bigint;
  readonly lineItemId: bigint;
  readonly labelId: bigint;
  readonly requestId: bigint;
  readonly creditId: bigint;
  readonly destinationId: bigint;
  readonly subscriptionId: bigint;
  readonly orderId: bigint;
  readonly orderName: string;
  readonly deliveryId: string;
  readonly replayId: bigint;
  readonly token: string;
  readonly email: string;
}

/** Ids that exist in no shop. */
export const MISSING_IDS: Ids = {
  returnId: 987_654_321n,
  lineItemId: 987_654_321n,
  labelId: 987_654_321n,
  requestId: 987_654_321n,
  creditId: 987_654_321n,
  destinationId: 987_654_321n,
  subscriptionId: 987_654_321n,
  orderId: 1_000_000_987_654n,
  orderName: '#nobody',
  deliveryId: `msg_${randomUUID()}`,
  replayId: 987_654_321n,
  token: 'n'.repeat(43),
  email: 'nobody@example.com',
};

/** Which of the ids a field with that name gets. */
const ID_FIELDS: Readonly<Record<string, keyof Ids>> = {
  returnId: 'returnId',
  returnIds: 'returnId',
  lineItemId: 'lineItemId',
  lineItemIds: 'lineItemId',
  labelId: 'labelId',
  requestId: 'requestId',
  creditId: 'creditId',
  destinationId: 'destinationId',
  consolidationDestinationId: 'destinationId',
  subscriptionId: 'subscriptionId',
  orderId: 'orderId',
  orderName: 'orderName',
  query: 'orderName',
  deliveryId: 'deliveryId',
  replayId: 'replayId',
  token: 'token',
  email: 'email',
};

/** Valid texts for fields that reject `x`. */
const TEXTS: Readonly<Record<string, string>> = {
  amount: '1.00',
  rate: '1.00',
  shop: '1.00',
  category: 'grade_a',
  url: 'https://hooks.example.com/foreign',
  topic: 'return',
  trigger: 'return.closed',
  version: '2026-07',
  countryCode: 'GB',
  grade: 'a',
};

/** Fields that are left out: the caller, fields that keep their value when absent, and fields with their own rules. */
const OMITTED = new Set([
  ...['shopId', 'actor', 'settings', 'cursor', 'states', 'presentment', 'remove', 'changes'],
  ...['amounts', 'exchanges', 'pageSize', 'categoryName'],
]);

type Json = Record<string, unknown>;

/**
 * All requests of an RPC that name objects, one for each way to name them. Fields for ids get one of `ids`, other fields
 * get valid values. Requests are built from the descriptor, so that future RPCs are covered too.
 */
export function requestsNaming(method: DescMethod, ids: Ids): Json[] {
  if (method.name === 'SubmitReturn') return [submissionTo(ids)];
  const category = method.parent.typeName.startsWith('rms.fraud') ? { category: 'other' } : {};
  const changes =
    method.name === 'EditReturn' ? { changes: [{ lineItemId: ids.lineItemId, quantity: 2 }] } : {};
  return waysOf(method.input, ids).map((way) => ({ ...way, ...category, ...changes }));
}

/** One message for each alternative of its `oneof`, if it has one. */
function waysOf(message: DescMessage, ids: Ids): Json[] {
  const common = messageOf(message, ids);
  const choice = message.oneofs.find(({ fields }) => fields.length > 1);
  if (!choice) return [common];
  return choice.fields.map((field) => ({
    ...common,
    [choice.localName]: { case: field.localName, value: valueFor(field, ids) },
  }));
}

/** Whether a request of the RPC can name an object. */
export function namesThings(method: DescMethod): boolean {
  // It records what a shopper states, and looks nothing up.
  if (method.name === 'DeclareWithdrawal') return false;
  return method.name === 'SubmitReturn' || mentionsId(method.input);
}

function mentionsId(message: DescMessage): boolean {
  return message.fields.some(
    (field) =>
      !OMITTED.has(field.localName) &&
      (field.localName in ID_FIELDS || (field.message !== undefined && mentionsId(field.message))),
  );
}

function submissionTo(ids: Ids): Json {
  const shop = { id: 1, currency: 'GBP', destinationId: Number(ids.destinationId) };
  return { ...submission(shop, { key: randomUUID(), serial: Number(ids.destinationId) }) };
}

function messageOf(message: DescMessage, ids: Ids): Json {
  const entries = message.fields
    .filter(({ localName, oneof, fieldKind }) => {
      const isChoice = oneof !== undefined && oneof.fields.length > 1;
      return !OMITTED.has(localName) && !isChoice && fieldKind !== 'map';
    })
    .map((field) => [field.localName, valueFor(field, ids)])
    .filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries);
}

function valueFor(field: DescField, ids: Ids): unknown {
  if (field.fieldKind === 'list' && field.message) return waysOf(field.message, ids);
  const single = singleOf(field, ids);
  return field.fieldKind === 'list' && single !== undefined ? [single] : single;
}

function singleOf(field: DescField, ids: Ids): unknown {
  const name = ID_FIELDS[field.localName];
  if (name) return ids[name];
  // Times are optional in every request.
  if (field.message) return isTime(field.message) ? undefined : waysOf(field.message, ids)[0];
  if (field.enum) return field.enum.values.at(-1)?.number;
  switch (field.scalar) {
    case ScalarType.STRING:
      return field.localName === 'idempotencyKey' || field.localName === 'partnerShipmentId'
        ? randomUUID()
        : (TEXTS[field.localName] ?? 'x');
    case ScalarType.INT64:
      return 1n;
    case ScalarType.INT32:
      return 1;
    default:
      return undefined;
  }
}

function isTime(message: DescMessage): boolean {
  return message.typeName.startsWith('google.protobuf.');
}
