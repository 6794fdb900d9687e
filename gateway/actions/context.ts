import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ActorSchema } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import type { Services } from '../services.ts';
import type { ReadReturn } from './read-returns.ts';

/** The context of an action: the services, the only shop that it may access, and the actor. */
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

/** Returns a part of a response that the service always sends. @throws Error when it is absent, which is a bug. */
export function sent<T>(part: T | undefined, name: string): T {
  if (part === undefined) throw new Error(`the service answered without ${name}`);
  return part;
}
