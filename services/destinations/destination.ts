import { isDeepStrictEqual } from 'node:util';
import { Code } from '@connectrpc/connect';
import { z } from 'zod';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { DestinationType } from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { ADDRESS_TEXT_MAX, DESTINATION_NAME_MAX } from '../contract/limits.ts';
import { countryName } from '../platform/values/countries.ts';
import { changedSince, DomainError } from '../platform/values/errors.ts';
import { MAX_ID } from '../platform/values/ids.ts';
import {
  callerShape,
  id,
  idempotencyKey,
  optionalIdempotencyKey,
  requiredText,
  text,
} from '../platform/values/input.ts';

/**
 * Maximum number of destinations of a shop, for the error text. The constraint `destinations_quota` enforces it: change
 * both.
 */
const DESTINATIONS_PER_SHOP = 1_000;

const line = text(ADDRESS_TEXT_MAX);

/** An address. An absent text becomes an empty one. An absent country name is set from the country code. */
const address = z
  .object({
    name: line,
    company: line,
    address1: line,
    address2: line,
    city: line,
    state: line,
    zip: line,
    country: line,
    countryCode: z
      .string()
      .regex(/^([A-Za-z]{2})?$/, 'must be two letters')
      .transform((code) => code.toUpperCase()),
    phone: line,
  })
  .transform((input) => ({ ...input, country: input.country || countryName(input.countryCode) }));

type Address = z.infer<typeof address>;

const NO_ADDRESS: Address = {
  name: '',
  company: '',
  address1: '',
  address2: '',
  city: '',
  state: '',
  zip: '',
  country: '',
  countryCode: '',
  phone: '',
};

const type = z.enum(DestinationType, 'must be a known destination type');

/** A destination to create. Without a type it becomes a warehouse; without `enabled` it is enabled. */
export const newDestination = z.object({
  ...callerShape,
  idempotencyKey,
  name: requiredText(DESTINATION_NAME_MAX),
  type: type.transform((value) => value || DestinationType.WAREHOUSE),
  enabled: z.boolean().default(true),
  address: address.default(NO_ADDRESS),
});
export type NewDestination = z.infer<typeof newDestination>;

/**
 * A change of a destination. The name is required. Absent fields keep their values. An address replaces the whole
 * address.
 */
export const destinationEdit = z.object({
  ...callerShape,
  idempotencyKey: optionalIdempotencyKey,
  destinationId: id,
  name: requiredText(DESTINATION_NAME_MAX),
  type: type.transform((value) => value || undefined),
  enabled: z.boolean().optional(),
  address: address.optional(),
  expected: z
    .object({
      name: text(DESTINATION_NAME_MAX),
      type,
      enabled: z.boolean(),
      address: address.optional(),
    })
    .optional(),
});
type DestinationEdit = z.infer<typeof destinationEdit>;

/** The destination's location at the commerce provider. In the message 0 means no location; here that is undefined. */
export const locationLink = z.object({
  ...callerShape,
  destinationId: id,
  providerLocationId: z
    .bigint()
    .refine((value) => value >= 0n && value <= MAX_ID, 'must be an id up to 2^53-1, or 0')
    .transform((value) => value || undefined),
});

/** The fields of a destination that callers can change. */
export interface DestinationState {
  readonly name: string;
  readonly type: DestinationType;
  readonly enabled: boolean;
  readonly providerLocationId: bigint | undefined;
  readonly address: Address;
}

/** A place that returns are shipped to. */
export interface Destination extends DestinationState {
  readonly id: bigint;
  readonly updatedAt: Date;
}

/** @throws DomainError REVISION_CONFLICT when somebody has changed a value that the edit expects. */
export function applyEdit(current: Destination, edit: DestinationEdit): DestinationState {
  const { expected } = edit;
  const changed =
    expected &&
    (['name', 'type', 'enabled', 'address'] as const).find(
      (field) => edit[field] !== undefined && !isDeepStrictEqual(current[field], expected[field]),
    );
  if (changed) throw changedSince(changed);
  return {
    name: edit.name,
    type: edit.type ?? current.type,
    enabled: edit.enabled ?? current.enabled,
    providerLocationId: current.providerLocationId,
    address: edit.address ?? current.address,
  };
}

/** One error for a destination that does not exist and for one of another shop, so that they look the same. */
export function destinationNotFound(destinationId: bigint): DomainError {
  return new DomainError(
    Code.NotFound,
    ErrorReason.DESTINATION_NOT_FOUND,
    `destination ${destinationId} does not exist`,
  );
}

export function quotaExceeded(): DomainError {
  return new DomainError(
    Code.ResourceExhausted,
    ErrorReason.QUOTA_EXCEEDED,
    `a shop has at most ${DESTINATIONS_PER_SHOP} destinations`,
  );
}

export function keyConflict(): DomainError {
  return new DomainError(
    Code.AlreadyExists,
    ErrorReason.IDEMPOTENCY_CONFLICT,
    'the idempotency key was used for another destination',
    { field: 'idempotency_key' },
  );
}
