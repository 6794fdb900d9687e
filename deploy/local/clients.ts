import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Services } from '../../gateway/services.ts';
import { Actor_Kind, type ActorSchema } from '../../proto/gen/rms/common/v1/actor_pb.ts';

/** The clients of all services, the same as in the gateway. */
export type Clients = Services;

/** The actor of the local stack's own calls. */
export const LOCAL_ACTOR: MessageInitShape<typeof ActorSchema> = {
  kind: Actor_Kind.SERVICE,
  id: 'local-stack',
  name: 'Local stack',
};
