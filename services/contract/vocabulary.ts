/**
 * The words of the public interface: every list of values that a field may have. This file imports no other file, so
 * that every service may import it.
 */

/** The topics of webhook subscriptions (interface: Webhook subscription). */
export const TOPICS = [
  'return',
  'return.processing',
  'label',
  'restock',
  'label.request',
  'giftcard',
  'partner.returns.shipment',
  'withdrawal',
] as const;
export type Topic = (typeof TOPICS)[number];

/** The triggers about one return. Topic `return` delivers each of them. docs/recipes/webhook-event.md adds one. */
export const RETURN_TRIGGERS = [
  'return.created',
  'return.updated',
  'return.closed',
  'return.processing.failed',
  'label.created',
  'label.updated',
  'restock.requested',
  'label.request.issued',
  'label.request.cancelled',
  'giftcard.requested',
] as const;
export type ReturnTrigger = (typeof RETURN_TRIGGERS)[number];

/** The triggers of webhook subscriptions (interface: Webhook subscription). */
export const TRIGGERS = [...RETURN_TRIGGERS, 'shipment.processed', 'withdrawal.received'] as const;
export type Trigger = (typeof TRIGGERS)[number];

/** Interface: Webhook status. */
export const WEBHOOK_STATUSES = ['active', 'inactive'] as const;

/** The health of a webhook: how well its deliveries work. */
export const WEBHOOK_HEALTH = ['healthy', 'failing', 'paused', 'inactive'] as const;

/** Warnings about a webhook that probably does not do what its owner wanted. */
export const WEBHOOK_WARNINGS = ['NEVER_DELIVERS', 'DUPLICATE'] as const;

/** The states of a webhook's delivery. */
export const DELIVERY_STATES = [
  'waiting',
  'held',
  'delivered',
  'exhausted',
  'expired',
  'dropped',
] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

/** A replay sends ended deliveries again. A backfill sends stored events that a webhook did not get. */
export const REPLAY_KINDS = ['replay', 'backfill'] as const;
export const REPLAY_STATES = ['running', 'done', 'cancelled', 'failed'] as const;
/** Why a replay cannot send a delivery. */
export const UNREPLAYABLE_REASONS = [
  'waiting',
  'subscription_deleted',
  'subscription_inactive',
  'payload_gone',
] as const;

/** The codes in the object with which process return answers 200 (interface: Errors, process return). */
export const PROCESS_REFUSALS = ['UNPROCESSABLE_FLAGGED_RETURN', 'UNPROCESSABLE_RETURN'] as const;
export type ProcessRefusalCode = (typeof PROCESS_REFUSALS)[number];

/** What may become of a line item (interface: Disposition item). */
export const DISPOSITION_OUTCOMES = [
  'back_to_stock',
  'resale_hold',
  'recycle',
  'donate',
  'missing',
] as const;

/** The types of a destination (interface: Destination). */
export const DESTINATION_TYPES = ['warehouse', 'donate'] as const;

/** The categories of a fraud report (interface: Fraud report). The last one requires a comment. */
export const FRAUD_CATEGORIES = [
  'package-never-received',
  'package-is-empty',
  'package-is-missing-items',
  'instant-return-charge-failed',
  'keep-item-abuse',
  'splitting-returns-to-avoid-restrictions',
  'item-is-worn',
  'other',
] as const;
export type FraudCategory = (typeof FRAUD_CATEGORIES)[number];

/** The categories of gradings. Responses of 2026-07 have these values. */
export const CONDITION_CATEGORIES = [
  'grade_a',
  'grade_b',
  'grade_c',
  'grade_d',
  'incorrect_item',
  'missing',
  'junk',
] as const;
export type ConditionCategory = (typeof CONDITION_CATEGORIES)[number];

export const RETURN_STATES = ['open', 'review', 'closed', 'cancelled', 'expired'] as const;
export const RETURN_TYPES = ['standard', 'warranty'] as const;
export const RETURN_OUTCOMES = [
  'exchange',
  'upsell',
  'refund',
  'credit',
  'exchange+refund',
  'exchange+credit',
] as const;
/** The outcomes that a line item of a submission can have. */
export const SUBMITTED_OUTCOMES = ['refund', 'exchange', 'credit'] as const;
/** Why units of an order line cannot be returned. */
export const INELIGIBILITY_CODES = [
  'WINDOW_ENDED',
  'NOT_FULFILLED',
  'FINAL_SALE',
  'COUNTRY_NOT_SERVED',
  'ALREADY_RETURNED',
  'IN_OPEN_RETURN',
  'REFUNDED',
  'NOT_A_PRODUCT',
  'ORDER_CANCELLED',
] as const;
export type IneligibilityCode = (typeof INELIGIBILITY_CODES)[number];
export const LINE_OUTCOMES = ['exchange', 'refund', 'credit', 'default'] as const;
export const RETURN_METHODS = ['mail', 'in_store', 'drop_off', 'keep_item'] as const;
export const LABEL_STATUSES = [
  'new',
  'pre_transit',
  'in_transit',
  'out_for_delivery',
  'delivered',
  'error',
  'failure',
] as const;
export const CURRENCY_TYPES = ['shop', 'presentment'] as const;
export type CurrencyType = (typeof CURRENCY_TYPES)[number];

/** Who does something, in a timeline. */
export const AUTHOR_KINDS = ['user', 'api_key', 'partner_app', 'service', 'system'] as const;

// The words of a shop's policy for returns. The first of each list is the default.

/** From when the days of a return window count. */
export const WINDOW_STARTS = ['delivered', 'fulfilled', 'ordered'] as const;
/** When a return is processed without a person. */
export const AUTOMATIC_MOMENTS = [
  'manual',
  'in_transit',
  'delivered',
  'arrived',
  'graded',
] as const;
/** Which units are paid. */
export const REFUND_BASES = ['announced', 'arrived'] as const;
/** What a withdrawal from the contract becomes. */
export const WITHDRAWAL_HANDLINGS = ['manual', 'return'] as const;
