import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ActorSchema } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import type { Services } from '../services.ts';
import type { ReadReturn } from './read-returns.ts';

/** What an action needs: the services, the shop it is confined to, and on whose behalf it acts. */
export interface ActionContext {
  readonly services: Services;
  readonly readReturn: ReadReturn;
  readonly shopId: bigint;
  readonly actor: MessageInitShape<typeof ActorSchema>;
}

/** The fields that every request to a service has. */
export function callerOf(context: ActionContext) {
  return { shopId: context.shopId, actor: context.actor };
}

/** A part of an answer that the service always sends; its absence is a fault of ours. */
export function sent<T>(part: T | undefined, name: string): T {
  if (part === undefined) throw new Error(`the service answered without ${name}`);
  return part;
}
