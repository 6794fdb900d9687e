import { z } from 'zod';
import { isoTime } from '../../../services/contract/time.ts';
import { RELEASED, stageOf } from '../../../services/contract/versions.ts';
import { PERMISSIONS, ROLE_PERMISSIONS, ROLES } from '../../tenancy/permissions.ts';
import { described } from '../result-schema.ts';
import { defineTool, readOnlyHints } from '../tool.ts';

export const getShopContext = defineTool({
  name: 'get_shop_context',
  title: 'Get shop context',
  description:
    'Use this when a conversation begins, or when you need to know which shop you work in, its currency, who is signed in and what this user may do.',
  hints: readOnlyHints('the signed-in user and the shop'),
  input: z.strictObject({}),
  output: z.strictObject({
    shop: z.strictObject({
      id: z.int(),
      name: z.string(),
      currency: z.string().describe('ISO 4217; the currency of all amounts that name no other one'),
    }),
    user: z.strictObject({
      id: z.int(),
      name: z.string().nullable(),
      role: z.enum(ROLES),
      permissions: z.array(z.enum(PERMISSIONS)),
      read_only: z.boolean().describe('The user allowed you only to read'),
    }),
    api_versions: z
      .array(
        described('version, stage', z.strictObject({ version: z.string(), stage: z.string() })),
      )
      .describe('Released API versions, oldest first'),
    now: z
      .string()
      .meta({ format: 'date-time', description: 'The current time in UTC, as all times' }),
  }),
  async run({ user, calendar }) {
    const now = new Date();
    return {
      shop: { id: Number(user.shopId), name: user.shopName, currency: user.currency },
      user: {
        id: Number(user.userId),
        name: user.name,
        role: user.role,
        permissions: [...ROLE_PERMISSIONS[user.role]],
        read_only: user.isReadOnly,
      },
      api_versions: RELEASED.map((version) => ({ version, stage: stageOf(version, calendar) })),
      now: isoTime(now),
    };
  },
});
