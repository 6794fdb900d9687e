import { Code } from '@connectrpc/connect';
import { z } from 'zod';
import { requiredText } from '../../../services/contract/resources/fields.ts';
import { DomainError } from '../../../services/platform/errors.ts';
import { idempotencyKey } from '../fields.ts';
import { defineTool, ToolRefusal } from '../tool.ts';

/** Maximum length of an id. Characters. */
const ID_MAX = 64;

export const disconnectAssistant = defineTool({
  name: 'disconnect_assistant',
  title: 'Disconnect assistant',
  description:
    'Use this when the person wants an assistant or app to lose its access to this shop at once: one of their own, or, with the permission team.manage, that of any member. Name it and have the person confirm. It is refused from its next call on; the member must sign in and agree again to connect it. With is_this_connection it ends this very conversation with the shop.',
  hints: {
    readOnly: { is: false, because: 'It ends the access of an assistant.' },
    destructive: {
      is: true,
      because: 'The access is lost, and only a new sign-in of its member brings it back.',
    },
    idempotent: { is: true, because: 'A disconnected assistant stays disconnected.' },
    openWorld: {
      is: false,
      because: "It changes only this service's own records.",
    },
  },
  input: z.strictObject({
    assistant_id: requiredText({ max: ID_MAX }).describe('As list_connected_assistants returns it'),
    idempotency_key: idempotencyKey,
  }),
  output: z.strictObject({ assistant_id: z.string(), disconnected: z.literal(true) }),
  subject: ({ assistant_id }) => assistant_id,
  async run({ assistants }, { assistant_id }) {
    try {
      await assistants.disconnect(assistant_id);
    } catch (error) {
      if (!(error instanceof DomainError) || error.code !== Code.NotFound) throw error;
      throw new ToolRefusal(
        'No such assistant is connected, or it is not yours to disconnect. list_connected_assistants returns the existing ones.',
      );
    }
    return { assistant_id, disconnected: true as const };
  },
});
