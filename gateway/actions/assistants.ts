import type { MessageInitShape } from '@bufbuild/protobuf';
import type pg from 'pg';
import type { ActorSchema } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import type { Author } from '../tenancy/audit.ts';
import { type ActiveGrant, listGrants, revokeGrant } from '../tenancy/grants.ts';
import { permits, type Role } from '../tenancy/permissions.ts';

/** The user who lists or disconnects the connected assistants of a shop. */
export interface AssistantsViewer {
  readonly shopId: bigint;
  readonly userId: bigint;
  readonly role: Role;
  readonly actor: MessageInitShape<typeof ActorSchema>;
  /** IP address and id of the request, for the audit log. */
  readonly from: Pick<Author, 'source' | 'requestId'>;
}

/** The connected assistants that a user may see and disconnect: with `team.manage` all of the shop, else the user's own. */
export interface Assistants {
  /** Oldest first. @param o.after the last grant of the previous page. */
  list(o: { limit: number; after?: Pick<ActiveGrant, 'id' | 'createdAt'> }): Promise<ActiveGrant[]>;
  /**
   * Disconnects an assistant, so that its next call is rejected. Idempotent as long as the grant is stored.
   *
   * @throws DomainError NOT_FOUND when the grant does not exist or the user may not end it.
   */
  disconnect(id: string): Promise<void>;
}

export function createAssistants(pool: pg.Pool, viewer: AssistantsViewer): Assistants {
  const { shopId, userId, role, actor, from } = viewer;
  const owner = permits(role, ['team.manage']) ? { shopId } : { shopId, userId };
  return {
    list: (page) => listGrants(pool, { ...owner, ...page }),
    disconnect: (id) => revokeGrant(pool, { ...owner, id, by: { actor, ...from } }),
  };
}
