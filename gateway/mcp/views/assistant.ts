import { z } from 'zod';
import { isoTime } from '../../../services/contract/time.ts';
import { KNOWN_CLIENTS } from '../../oauth/clients/known-clients.ts';
import type { LiveGrant } from '../../tenancy/grants.ts';
import { maskedEmail } from '../masked-email.ts';

const when = (description: string) => z.string().meta({ format: 'date-time', description });

/** An assistant that acts for a member of the shop. */
export const assistant = z.strictObject({
  assistant_id: z.string().describe('disconnect_assistant takes it'),
  client: z.string().describe('Name of the client where it is known, else its client id'),
  app: z
    .string()
    .nullable()
    .describe('Host, or scheme, that its sign-in went to; null when unknown'),
  user: z.strictObject({
    id: z.int(),
    name: z.string().nullable(),
    email: z.string().nullable().describe('Masked'),
  }),
  is_own: z.boolean().describe('Whether it acts for the signed-in person'),
  is_this_connection: z.boolean().describe('Whether it is the one that asks'),
  connected_at: when('When it was connected'),
  last_used_at: when('To the minute; null when it was never used').nullable(),
  expires_at: when('When it must be connected again'),
});

/** @param who the signed-in person, and the grant of this call. */
export function assistantView(
  grant: LiveGrant,
  who: { readonly userId: bigint; readonly grantId: string },
): z.output<typeof assistant> {
  return {
    assistant_id: grant.id,
    client:
      KNOWN_CLIENTS.find(({ clientId }) => clientId === grant.clientId)?.name ?? grant.clientId,
    app: grant.app,
    user: { id: Number(grant.userId), name: grant.userName, email: maskedEmail(grant.email) },
    is_own: grant.userId === who.userId,
    is_this_connection: grant.id === who.grantId,
    connected_at: isoTime(grant.createdAt),
    last_used_at: grant.lastUsedAt && isoTime(grant.lastUsedAt),
    expires_at: isoTime(grant.expiresAt),
  };
}
