import { timestampDate } from '@bufbuild/protobuf/wkt';
import type { Cart, CartEntry } from '../../../proto/gen/rms/carts/v1/carts_pb.ts';
import {
  type Effect,
  EffectKindSchema,
  EffectStateSchema,
} from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import {
  type Destination,
  DestinationType,
} from '../../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import type {
  ConditionRecord,
  DispositionRecord,
} from '../../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import type { Report } from '../../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import type { Address } from '../../../proto/gen/rms/returns/v1/address_pb.ts';
import {
  DispositionOutcomeSchema,
  type Label,
  UpsellPaymentSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { GiftCard } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { conditionView } from '../details/inspection.ts';
import { labelView } from '../details/label.ts';
import type { CartObject } from '../resources/cart.ts';
import type { DestinationObject } from '../resources/destination.ts';
import {
  EFFECT_KINDS,
  EFFECT_STATES,
  type EffectObject,
  UPSELL_PAYMENTS,
} from '../resources/effect.ts';
import type { FraudReportObject } from '../resources/fraud-report.ts';
import type { GiftCardObject } from '../resources/gift-card.ts';
import type { DispositionEntry, GradingEntry } from '../resources/inspection.ts';
import type { RecordedLabel } from '../resources/label.ts';
import { isoTime } from '../time.ts';
import { parseExactJson } from '../validate/exact-json.ts';
import { DISPOSITION_OUTCOMES, FRAUD_CATEGORIES } from '../vocabulary.ts';
import { idNumber, iso, textOrNull, word } from './values.ts';

/** A destination in responses (interface: Destination). */
export function destinationView(destination: Destination): DestinationObject {
  return {
    id: Number(destination.id),
    type: destination.type === DestinationType.DONATE ? 'donate' : 'warehouse',
    name: destination.name,
    enabled: destination.enabled,
    provider_location_id: idNumber(destination.providerLocationId),
    address: addressView(destination.address),
  };
}

/** An address without its phone number, which no response contains. Unknown parts are empty texts. */
export function addressView(address: Address | undefined): DestinationObject['address'] {
  return {
    name: address?.name ?? '',
    company: address?.company ?? '',
    address1: address?.address1 ?? '',
    address2: address?.address2 ?? '',
    city: address?.city ?? '',
    state: address?.state ?? '',
    zip: address?.zip ?? '',
    country: address?.country ?? '',
    country_code: address?.countryCode ?? '',
  };
}

/** One entry of the response of assess dispositions. Throws for a record without an outcome, which should not exist. */
export function dispositionView(record: DispositionRecord): DispositionEntry {
  const { disposition, lineItemId } = record;
  const outcome = word(DispositionOutcomeSchema, disposition?.outcome ?? 0, DISPOSITION_OUTCOMES);
  if (outcome === null) throw new Error(`line item ${lineItemId} has no disposition outcome`);
  return {
    line_item_id: Number(lineItemId),
    disposition_outcome: outcome,
    return_processor: disposition?.returnProcessor ?? null,
    note: disposition?.note ?? null,
    inspected_at: iso(disposition?.inspectedAt),
  };
}

/** One entry of the response of grade items. Throws for a record without a condition, which should not exist. */
export function gradingView({ condition, lineItemId }: ConditionRecord): GradingEntry {
  if (!condition) throw new Error(`line item ${lineItemId} has no condition`);
  return { line_item_id: Number(lineItemId), condition: conditionView(condition) };
}

/** An effect as partners see it. Throws when a required field is missing. */
export function effectView(effect: Effect): EffectObject {
  const kind = word(EffectKindSchema, effect.kind, EFFECT_KINDS);
  const state = word(EffectStateSchema, effect.state, EFFECT_STATES);
  if (!kind || !state || !effect.amount) {
    throw new Error(`effect ${effect.key} has no kind, state or amount`);
  }
  return {
    effect: kind,
    key: effect.key,
    state,
    amount: effect.amount.value,
    currency: effect.amount.currency,
    asked: iso(effect.requestedAt),
    answered: iso(effect.answeredAt),
    provider_id: textOrNull(effect.providerId),
    name: textOrNull(effect.name),
    problem: textOrNull(effect.problem),
    due: textOrNull(effect.due),
    upsell_payment: word(UpsellPaymentSchema, effect.upsellPayment, UPSELL_PAYMENTS),
  };
}

/**
 * A fraud report in responses (interface: Fraud report). Throws for a report without a time, which should not exist.
 */
export function fraudReportView(report: Report): FraudReportObject {
  if (!report.createdAt) throw new Error(`fraud report ${report.id} has no time`);
  return {
    id: Number(report.id),
    return_id: Number(report.returnId),
    category: FRAUD_CATEGORIES.find((category) => category === report.category) ?? null,
    comment: report.comment ?? null,
    created_at: isoTime(timestampDate(report.createdAt)),
  };
}

/** A gift card as partners see it. Throws when it has no amount. */
export function giftCardView(card: GiftCard): GiftCardObject {
  if (!card.money) throw new Error(`gift card ${card.id} has no amount`);
  return {
    id: Number(card.id),
    return_id: Number(card.returnId),
    order_id: Number(card.providerOrderId),
    order_name: textOrNull(card.name),
    amount: card.money.value,
    currency: card.money.currency,
    issued_at: iso(card.issuedAt),
  };
}

/** A label with its ids, as in the responses of record label and update label. */
export function recordedLabelView(label: Label): RecordedLabel {
  return { id: Number(label.id), return_id: Number(label.returnId), ...labelView(label) };
}

/** A cart in responses (interface: Cart). `data` repeats the request. It has `shopify` only when the request had it. */
export function cartView(cart: Cart): CartObject {
  const data = { cart: cart.entries.map(entryView) };
  if (cart.shopifyNull) return { token: cart.token, data: { ...data, shopify: null } };
  if (cart.shopify === undefined) return { token: cart.token, data };
  return { token: cart.token, data: { ...data, shopify: cart.shopify } };
}

function entryView(entry: CartEntry): unknown {
  return entry.objectJson === '' ? Number(entry.variantId) : parseExactJson(entry.objectJson);
}
