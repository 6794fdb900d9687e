import { z } from 'zod';
import { isoTime } from '../../../services/contract/time.ts';
import { textOrNull } from '../../../services/contract/views/values.ts';
import { KNOWN_CLIENTS } from '../../oauth/clients/known-clients.ts';
import type { ActiveGrant } from '../../tenancy/grants.ts';
import { ROLES } from '../../tenancy/permissions.ts';
import { cursor, limit, nextCursor } from '../fields.ts';
import { maskedEmail } from '../masked-email.ts';
import { described } from '../result-schema.ts';
import { defineTool, readOnlyHints } from '../tool.ts';

const when = (description: string) => z.string().meta({ format: 'date-time', description });

/** An assistant that acts for a member of the shop. */
const assistant = z.strictObject({
  assistant_id: z.string().describe('The id for disconnect_assistant'),
  client: z.string().describe('Its name or client id'),
  app: z.string().nullable().describe('Host or scheme'),
  calls_itself: z.string().nullable().describe('Its own word, not verified'),
  user: described(
    'id, name and masked email',
    z.strictObject({
      id: z.int(),
      name: z.string().nullable(),
      email: z.string().nullable(),
    }),
  ),
  role: z.enum(ROLES).describe('The rights of its user'),
  read_only: z.boolean().describe('It may only read'),
  is_own: z.boolean().describe('It acts for the signed-in user'),
  is_this_connection: z.boolean().describe('It makes this call'),
  connected_at: z.string(),
  last_used_at: when('Precise to one minute').nullable(),
  expires_at: when('When it must be connected again'),
});

export const listAssistants = defineTool({
  name: 'list_assistants',
  title: 'List assistants',
  description:
    'Use this when the user wants to know which assistants are connected to this shop, for whom, with which rights, and when each was last used. Users with team.manage see those of all members. The oldest comes first.',
  hints: readOnlyHints('the list of connected assistants'),
  input: z.strictObject({ limit, cursor }),
  output: z.strictObject({ assistants: z.array(assistant), next_cursor: nextCursor }),
  async run({ assistants, user }, { limit: max, cursor: from = '' }) {
    const { grants, nextCursor: next } = await assistants.list({ limit: max, cursor: from });
    return {
      assistants: grants.map((grant) => assistantView(grant, user)),
      next_cursor: textOrNull(next),
    };
  },
});

/** One row of the list. @param caller the signed-in user, and the grant of this call. */
function assistantView(
  grant: ActiveGrant,
  caller: { readonly userId: bigint; readonly grantId: string },
): z.output<typeof assistant> {
  return {
    assistant_id: grant.id,
    client:
      KNOWN_CLIENTS.find(({ clientId }) => clientId === grant.clientId)?.name ?? grant.clientId,
    app: grant.app,
    calls_itself: grant.selfName,
    user: { id: Number(grant.userId), name: grant.userName, email: maskedEmail(grant.email) },
    role: grant.role,
    read_only: grant.isReadOnly,
    is_own: grant.userId === caller.userId,
    is_this_connection: grant.id === caller.grantId,
    connected_at: isoTime(grant.createdAt),
    last_used_at: grant.lastUsedAt && isoTime(grant.lastUsedAt),
    expires_at: isoTime(grant.expiresAt),
  };
}
