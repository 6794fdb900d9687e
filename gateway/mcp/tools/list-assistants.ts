import { z } from 'zod';
import { isoTime } from '../../../services/contract/time.ts';
import { KNOWN_CLIENTS } from '../../oauth/clients/known-clients.ts';
import type { ActiveGrant } from '../../tenancy/grants.ts';
import { ROLES } from '../../tenancy/permissions.ts';
import { cursor, limit, nextCursor } from '../fields.ts';
import { maskedEmail } from '../masked-email.ts';
import { described } from '../result-schema.ts';
import { defineTool, readOnlyHints, ToolError } from '../tool.ts';

const when = (description: string) => z.string().meta({ format: 'date-time', description });

/** An assistant that acts for a member of the shop. */
const assistant = z.strictObject({
  assistant_id: z.string().describe('The id for disconnect_assistant'),
  client: z.string().describe('Its name or client id'),
  app: z.string().nullable().describe('Host or scheme'),
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
  async run({ assistants, user }, { limit: max, cursor: from }) {
    const found = await assistants.list({
      // One more entry than the page has shows whether there is a next page.
      limit: max + 1,
      ...(from !== undefined && { after: placeOf(from) }),
    });
    const page = found.slice(0, max);
    const last = page.at(-1);
    return {
      assistants: page.map((grant) => assistantView(grant, user)),
      next_cursor: last && found.length > page.length ? cursorOf(last) : null,
    };
  },
});

/** @param caller the signed-in user, and the grant of this call. */
function assistantView(
  grant: ActiveGrant,
  caller: { readonly userId: bigint; readonly grantId: string },
): z.output<typeof assistant> {
  return {
    assistant_id: grant.id,
    client:
      KNOWN_CLIENTS.find(({ clientId }) => clientId === grant.clientId)?.name ?? grant.clientId,
    app: grant.app,
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

function cursorOf({ id, createdAt }: ActiveGrant): string {
  return Buffer.from(`${createdAt.toISOString()} ${id}`).toString('base64url');
}

function placeOf(text: string): Pick<ActiveGrant, 'id' | 'createdAt'> {
  const plain = Buffer.from(text, 'base64url').toString();
  const [, time = '', id = ''] =
    /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) ([\w-]{20,64})$/.exec(plain) ?? [];
  const createdAt = new Date(time);
  if (id !== '' && !Number.isNaN(createdAt.getTime())) return { id, createdAt };
  throw new ToolError(
    'cursor must be the next_cursor of a previous page. Omit it to get the first page.',
  );
}
