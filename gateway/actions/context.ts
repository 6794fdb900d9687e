import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ActorSchema } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import type { Return, SubmitterSchema } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import type { DetailsSelector } from '../../services/contract/resources/details-query.ts';
import type { Services } from '../services.ts';
import type { FieldChange } from '../tenancy/field-change.ts';
import type { Access } from './access.ts';

/** The shop and the actor of a read. `createReturnReader` sends reads with an equal reader together, as one call. */
export interface Reader {
  readonly shopId: bigint;
  readonly actor: MessageInitShape<typeof ActorSchema>;
  /** If present, only returns with this submitter are found. Such a read is sent alone. */
  readonly submitter?: MessageInitShape<typeof SubmitterSchema> | undefined;
}

/**
 * Reads one return. When the selector finds several returns of an order, reads the newest. Rejects with the errors of
 * the RPC `FindReturn`.
 */
export type ReadReturn = (reader: Reader, selector: DetailsSelector) => Promise<Return>;

/** The context of an action: the services, the only shop that it may access, and the actor. */
export interface ActionContext {
  readonly services: Services;
  readonly readReturn: ReadReturn;
  readonly shopId: bigint;
  readonly actor: MessageInitShape<typeof ActorSchema>;
  /** An action calls this with the fields that it changed, for the audit log. Absent when nobody logs the changes. */
  readonly noteChanges?: (changes: readonly FieldChange[]) => void;
  /** The public address of the gateway, for calls of the portal. */
  readonly publicUrl?: string;
  /** What a key or an app reaches in the shop. Absent for people and assistants, whose rights were checked. */
  readonly access?: Access;
}

/** Collects the changes that the actions of one call note. */
export function changeNotes(): Required<Pick<ActionContext, 'noteChanges'>> & {
  /** The collected changes, as a part of the detail of an audit entry. */
  detail(): { readonly changes?: readonly FieldChange[] };
} {
  const noted: FieldChange[] = [];
  return {
    noteChanges: (changes) => void noted.push(...changes),
    detail: () => (noted.length > 0 ? { changes: noted } : {}),
  };
}

/** The fields that every request to a service has. */
export function callerOf(context: ActionContext) {
  return { shopId: context.shopId, actor: context.actor };
}

/** Returns a part of a service's response that is always present. @throws Error when it is absent, which is a bug. */
export function sent<T>(part: T | undefined, name: string): T {
  if (part === undefined) throw new Error(`the response of the service has no ${name}`);
  return part;
}
