import type { MessageInitShape } from '@bufbuild/protobuf';
import type pg from 'pg';
import type { ActorSchema } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import type { Author } from '../tenancy/audit.ts';
import { type LiveGrant, listGrants, revokeGrant } from '../tenancy/grants.ts';
import { permits, type Role } from '../tenancy/permissions.ts';

/** Who looks at the connected assistants of a shop. */
export interface AssistantsViewer {
  readonly shopId: bigint;
  readonly userId: bigint;
  readonly role: Role;
  readonly actor: MessageInitShape<typeof ActorSchema>;
  /** Where the request came from, for the audit log. */
  readonly from: Pick<Author, 'source' | 'requestId'>;
}

/** The connected assistants that a person may see and disconnect: their own, with `team.manage` all of the shop. */
export interface Assistants {
  /** Oldest first. @param o.after the grant that the page before ended with. */
  list(o: { limit: number; after?: Pick<LiveGrant, 'id' | 'createdAt'> }): Promise<LiveGrant[]>;
  /**
   * Its tokens are refused from the next call on. Repeatable while the grant is remembered.
   *
   * @throws DomainError NOT_FOUND when there is none, or it is not theirs to end.
   */
  disconnect(id: string): Promise<void>;
}

export function createAssistants(pool: pg.Pool, viewer: AssistantsViewer): Assistants {
  const { shopId, userId, role, actor, from } = viewer;
  const whose = permits(role, ['team.manage']) ? { shopId } : { shopId, userId };
  return {
    list: (page) => listGrants(pool, { ...whose, ...page }),
    disconnect: (id) => revokeGrant(pool, { ...whose, id, by: { actor, ...from } }),
  };
}
