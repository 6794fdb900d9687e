import type { MessageInitShape } from '@bufbuild/protobuf';
import type pg from 'pg';
import type { ActorSchema } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { invalidField } from '../../services/platform/values/errors.ts';
import type { Author } from '../tenancy/audit.ts';
import { type EndedGrant, type EndedList, listEndedGrants } from '../tenancy/ended-access.ts';
import { type ActiveGrant, listGrants, revokeGrant } from '../tenancy/grants.ts';
import { permits, type Role } from '../tenancy/permissions.ts';

/** The user who lists or disconnects the connected assistants of a shop. */
export interface AssistantsViewer {
  readonly shopId: bigint;
  readonly userId: bigint;
  readonly role: Role;
  readonly actor: MessageInitShape<typeof ActorSchema>;
  /** IP address of the client and id of the request, for the audit log. */
  readonly from: Pick<Author, 'source' | 'requestId'>;
}

/**
 * The connected assistants that a user may see and disconnect. With `team.manage`, these are all assistants of the
 * shop. Otherwise they are the user's own.
 */
export interface Assistants {
  /**
   * Returns a page of these assistants. The oldest is first, unless `isNewestFirst`.
   *
   * @param o.cursor the `nextCursor` of the previous page; empty for the first page.
   * @throws DomainError INVALID_ARGUMENT for any other cursor.
   */
  list(o: { limit: number; cursor: string; isNewestFirst?: boolean }): Promise<AssistantsPage>;
  /** Returns those whose access has ended, as {@link listEndedGrants} does. */
  listEnded(): Promise<EndedList<EndedGrant>>;
  /**
   * Disconnects an assistant, so that its next call is rejected. A second call for the same assistant succeeds too,
   * while its grant is stored.
   *
   * @throws DomainError NOT_FOUND when the grant does not exist or the user may not end it.
   */
  disconnect(id: string): Promise<void>;
}

export interface AssistantsPage {
  readonly grants: readonly ActiveGrant[];
  /** Empty after the last page. */
  readonly nextCursor: string;
}

export function createAssistants(pool: pg.Pool, viewer: AssistantsViewer): Assistants {
  const { shopId, userId, role, actor, from } = viewer;
  const owner = permits(role, ['team.manage']) ? { shopId } : { shopId, userId };
  return {
    async list({ limit, cursor, ...o }) {
      const after = placeOf(cursor);
      // Reads one grant more than a page has. If it exists, there is a next page.
      const page = { limit: limit + 1, ...(after && { after }) };
      const found = await listGrants(pool, { ...owner, ...page, ...o });
      const grants = found.slice(0, limit);
      const last = grants.at(-1);
      return { grants, nextCursor: last && found.length > limit ? cursorOf(last) : '' };
    },
    listEnded: () => listEndedGrants(pool, owner),
    disconnect: (id) => revokeGrant(pool, { ...owner, id, by: { actor, ...from } }),
  };
}

type Place = Pick<ActiveGrant, 'id' | 'createdAt'>;

function cursorOf({ id, createdAt }: Place): string {
  return Buffer.from(`${createdAt.toISOString()} ${id}`).toString('base64url');
}

function placeOf(cursor: string): Place | undefined {
  if (cursor === '') return undefined;
  const text = Buffer.from(cursor, 'base64url').toString();
  const [, time = '', id = ''] =
    /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) ([\w-]{20,64})$/.exec(text) ?? [];
  const createdAt = new Date(time);
  if (id !== '' && !Number.isNaN(createdAt.getTime())) return { id, createdAt };
  throw invalidField('cursor', 'must be the next_cursor of a previous page');
}
