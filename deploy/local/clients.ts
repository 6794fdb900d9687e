import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Services } from '../../gateway/services.ts';
import { Actor_Kind, type ActorSchema } from '../../proto/gen/rms/common/v1/actor_pb.ts';

export const SERVICE_NAMES = [
  'returns',
  'dispositions',
  'destinations',
  'fraud',
  'carts',
  'webhooks',
] as const satisfies readonly (keyof Services)[];

export type ServiceName = (typeof SERVICE_NAMES)[number];

/** The clients of all services, the same as in the gateway. */
export type Clients = Services;

/** The actor of the local stack's own calls. */
export const LOCAL_ACTOR: MessageInitShape<typeof ActorSchema> = {
  kind: Actor_Kind.SERVICE,
  id: 'local-stack',
  name: 'Local stack',
};
