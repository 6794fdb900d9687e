import { Code } from '@connectrpc/connect';
import { z } from 'zod';
import { requiredText } from '../../../services/contract/resources/fields.ts';
import { DomainError } from '../../../services/platform/errors.ts';
import { listedWithoutBounds } from '../argument-schema.ts';
import { idempotencyKey } from '../fields.ts';
import { defineTool, ToolError } from '../tool.ts';

/** Maximum length of an id. Characters. */
const ID_MAX = 64;

export const disconnectAssistant = defineTool({
  name: 'disconnect_assistant',
  title: 'Disconnect assistant',
  description:
    'Use this when the user wants to end the access of an assistant to this shop: one of their own, or, with team.manage, of any member. Name it and let the user confirm first. To connect it again, its member must sign in again. If is_this_connection is true, you lose your own access.',
  hints: {
    readOnly: { is: false, because: 'It ends the access of an assistant.' },
    destructive: {
      is: true,
      because: 'The assistant loses its access until its member signs in again.',
    },
    idempotent: { is: true, because: 'A disconnected assistant stays disconnected.' },
    openWorld: {
      is: false,
      because: "It changes only this service's own records.",
    },
  },
  input: z.strictObject({
    assistant_id: listedWithoutBounds(requiredText({ max: ID_MAX })).describe(
      'The id from list_assistants',
    ),
    idempotency_key: idempotencyKey,
  }),
  output: z.strictObject({ assistant_id: z.string(), disconnected: z.literal(true) }),
  subject: ({ assistant_id }) => assistant_id,
  async run({ assistants }, { assistant_id }) {
    try {
      await assistants.disconnect(assistant_id);
    } catch (error) {
      if (!(error instanceof DomainError) || error.code !== Code.NotFound) throw error;
      throw new ToolError(
        'No such assistant is connected, or the user may not disconnect it. list_assistants returns the connected assistants.',
      );
    }
    return { assistant_id, disconnected: true as const };
  },
});
