import { z } from 'zod';
import type { LiveGrant } from '../../tenancy/grants.ts';
import { cursor, limit, nextCursor } from '../fields.ts';
import { defineTool, readOnlyHints, ToolRefusal } from '../tool.ts';
import { assistant, assistantView } from '../views/assistant.ts';

export const listConnectedAssistants = defineTool({
  name: 'list_connected_assistants',
  title: 'List connected assistants',
  description:
    'Use this when the person wants to know which assistants and apps may act for them in this shop, since when, and when each was last used. People with the permission team.manage see those of the whole shop. The oldest come first.',
  hints: readOnlyHints('which assistants are connected to the shop'),
  input: z.strictObject({ limit, cursor }),
  output: z.strictObject({ assistants: z.array(assistant), next_cursor: nextCursor }),
  async run({ assistants, user }, { limit: max, cursor: from }) {
    const found = await assistants.list({
      // One more than the page shows whether there is a next page.
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

function cursorOf({ id, createdAt }: LiveGrant): string {
  return Buffer.from(`${createdAt.toISOString()} ${id}`).toString('base64url');
}

function placeOf(text: string): Pick<LiveGrant, 'id' | 'createdAt'> {
  const plain = Buffer.from(text, 'base64url').toString();
  const [, time = '', id = ''] =
    /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) ([\w-]{20,64})$/.exec(plain) ?? [];
  const createdAt = new Date(time);
  if (id !== '' && !Number.isNaN(createdAt.getTime())) return { id, createdAt };
  throw new ToolRefusal(
    'cursor must be the next_cursor of a page before. Leave it out to start from the first page.',
  );
}
