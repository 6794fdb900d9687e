import { Code } from '@connectrpc/connect';
import { z } from 'zod';
import {
  ADDRESS_TEXT_MAX,
  CART_ENTRIES_MAX,
  DESTINATION_NAME_MAX,
} from '../../../services/contract/limits.ts';
import { destination } from '../../../services/contract/resources/destination.ts';
import {
  boolean,
  choice,
  id,
  requiredText,
  text,
  typed,
} from '../../../services/contract/resources/fields.ts';
import { isoTime } from '../../../services/contract/time.ts';
import { RELEASED, stageOf } from '../../../services/contract/versions.ts';
import { destinationView } from '../../../services/contract/views/objects.ts';
import { textOrNull } from '../../../services/contract/views/values.ts';
import { DESTINATION_TYPES } from '../../../services/contract/vocabulary.ts';
import { DomainError } from '../../../services/platform/values/errors.ts';
import { blank } from '../../../services/platform/values/text.ts';
import { createCart as create } from '../../actions/carts.ts';
import {
  listDestinations as list,
  updateDestination as update,
} from '../../actions/destinations.ts';
import { KNOWN_CLIENTS } from '../../oauth/clients/known-clients.ts';
import type { ActiveGrant } from '../../tenancy/grants.ts';
import { PERMISSIONS, ROLE_PERMISSIONS, ROLES } from '../../tenancy/permissions.ts';
import { listedWithoutBounds } from '../schema/arguments.ts';
import { cursor, detail, idempotencyKey, limit, nextCursor } from '../schema/fields.ts';
import { maskedEmail } from '../schema/masked-email.ts';
import { pageOf } from '../schema/pages.ts';
import { asIn, described, listedAs, undescribed } from '../schema/result-schema.ts';
import { defineTool, readOnlyHints, ToolError } from '../tool.ts';

export const getShopContext = defineTool({
  name: 'get_shop_context',
  right: 'ownSession',
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
  sample: () => ({}),
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

const when = (description: string) => z.string().meta({ format: 'date-time', description });

/** An assistant that acts for a member of the shop. */
const assistant = z.strictObject({
  assistant_id: z.string().describe('The id for disconnect_assistant'),
  client: z.string(),
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
  role: z.enum(ROLES),
  read_only: z.boolean(),
  is_own: z.boolean(),
  is_this_connection: z.boolean(),
  connected_at: z.string(),
  last_used_at: when('Precise to one minute').nullable(),
  expires_at: when('When it must be connected again'),
});

export const listAssistants = defineTool({
  name: 'list_assistants',
  right: 'ownAssistants',
  title: 'List assistants',
  description:
    'Use this when the user wants to know which assistants are connected to this shop, for whom, with which rights, and when each was last used. Users with team.manage see those of all members. The oldest comes first.',
  hints: readOnlyHints('the list of connected assistants'),
  input: z.strictObject({ limit, cursor }),
  output: z.strictObject({
    assistants: z.array(
      described(
        'assistant_id (for disconnect_assistant), client, app (host or scheme), calls_itself (its own word, not verified), user (id, name, masked email), role, read_only, is_own, is_this_connection, connected_at, last_used_at (precise to one minute), expires_at (when it must be connected again)',
        assistant,
      ),
    ),
    next_cursor: nextCursor,
  }),
  sample: () => ({ limit: 5 }),
  costly: () => ({}),
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

/** Maximum length of an id. Characters. */
const ID_MAX = 64;

export const disconnectAssistant = defineTool({
  name: 'disconnect_assistant',
  right: 'ownAssistants',
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
  sample: ({ assistant }) => ({ assistant_id: assistant }),
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

const full = undescribed(destination.shape);

export const listDestinations = defineTool({
  name: 'list_destinations',
  right: 'seeDestinations',
  title: 'List destinations',
  description:
    'Use this when you need the warehouses and donation centres that returns are shipped to, or the id of one by its name.',
  hints: readOnlyHints("the shop's destinations"),
  input: z.strictObject({ detail, limit, cursor }),
  output: z.strictObject({
    destinations: z.array(
      z.strictObject({
        id: full.id,
        name: full.name,
        type: full.type,
        enabled: full.enabled,
        city: z.string(),
        country_code: z.string(),
        provider_location_id: full.provider_location_id
          .optional()
          .describe('Only with detail full'),
        address: described('As in update_destination, with detail full', full.address).optional(),
      }),
    ),
    next_cursor: nextCursor,
  }),
  sample: () => ({ detail: 'full' }),
  costly: () => ({ limit: 50 }),
  async run(context, input) {
    const page = pageOf('destinations', await list(context), input);
    const destinations = page.rows.map((row) => {
      const { address, provider_location_id, ...rest } = destinationView(row);
      const { city, country_code } = address;
      const more = input.detail === 'full' && { address, provider_location_id };
      return { ...rest, city, country_code, ...more };
    });
    return { destinations, next_cursor: page.nextCursor };
  },
});

/** The schema of an address in the list of tools. All parts follow one rule, so the list has it once. */
const ADDRESS = {
  type: 'object',
  description:
    'Replaces the whole address: name, company, address1, address2, city, state, zip, country, country_code (two letters), phone',
  additionalProperties: { type: 'string', maxLength: ADDRESS_TEXT_MAX },
};

const part = () => text({ max: ADDRESS_TEXT_MAX }).optional();

export const updateDestination = defineTool({
  name: 'update_destination',
  right: 'changeDestinations',
  title: 'Update destination',
  description:
    'Use this when a warehouse or donation centre must be renamed, moved, enabled or disabled for new returns. Omitted fields are not changed, but an address replaces the whole stored one: read it with list_destinations first.',
  hints: {
    readOnly: { is: false, because: 'It changes the destination.' },
    destructive: { is: true, because: 'The sent values replace the stored ones.' },
    idempotent: { is: true, because: 'A repeat with the same values changes nothing.' },
    openWorld: { is: false, because: 'It changes a record of this service.' },
  },
  input: z.strictObject({
    destination_id: id().describe('The id from list_destinations'),
    name: requiredText({ max: DESTINATION_NAME_MAX }).describe('Its new name, or the current one'),
    type: choice(DESTINATION_TYPES).optional(),
    enabled: boolean().optional().describe('Whether new returns may go there'),
    address: listedAs(
      ADDRESS,
      z.strictObject(
        {
          name: part(),
          company: part(),
          address1: part(),
          address2: part(),
          city: part(),
          state: part(),
          zip: part(),
          country: part().describe('Full name; when absent, the name of the country_code'),
          country_code: z
            .string({ error: typed('a string') })
            .regex(/^(?:[A-Za-z]{2})?$/, { error: 'must be two ASCII letters' })
            .optional(),
          phone: part().describe('Stored, but never returned'),
        },
        { error: typed('an object') },
      ),
    ).optional(),
    idempotency_key: idempotencyKey,
  }),
  output: z.strictObject({ destination: asIn('list_destinations', destination) }),
  subject: ({ destination_id }) => String(destination_id),
  sample: ({ destination }) => ({
    destination_id: destination,
    name: 'Leeds 2',
    address: { city: 'Leeds', country_code: 'gb' },
  }),
  costly: ({ destination, longText }) => ({ destination_id: destination, name: longText(191) }),
  async run(context, { destination_id, idempotency_key: _, ...body }) {
    if (body.address && Object.values(body.address).every((line) => blank(line ?? ''))) {
      throw new ToolError('address has no text. Omit it to keep the stored address.');
    }
    const changed = await update(context, BigInt(destination_id), body, context.callId);
    return { destination: destinationView(changed) };
  },
});

const QUANTITY_MAX = 1_000_000;
const QUANTITY_RULE = `a whole number from 1 to ${QUANTITY_MAX}`;

export const createCart = defineTool({
  name: 'create_cart',
  right: 'createCarts',
  title: 'Create cart',
  description:
    'Use this when a shopper needs a cart of product variants, for example for an exchange. It returns a token. A checkout can read the cart with this token for 30 days. It orders and charges nothing.',
  hints: {
    readOnly: { is: false, because: 'It stores a cart.' },
    destructive: { is: false, because: 'It only adds a cart, which is deleted after 30 days.' },
    idempotent: { is: false, because: 'Each call without an idempotency key stores another cart.' },
    openWorld: {
      is: false,
      because: 'The cart is stored in this service.',
    },
  },
  input: z.strictObject({
    items: z
      .array(
        z.strictObject(
          {
            variant_id: id().describe("The variant's id at the commerce platform"),
            quantity: z
              .int({ error: typed(QUANTITY_RULE) })
              .min(1, { error: `must be ${QUANTITY_RULE}` })
              .max(QUANTITY_MAX, { error: `must be ${QUANTITY_RULE}` })
              .optional()
              .describe('1 when absent'),
          },
          { error: typed('an object') },
        ),
        { error: typed('a list') },
      )
      .min(1, { error: 'must have at least 1 entry' })
      .max(CART_ENTRIES_MAX, { error: `must have at most ${CART_ENTRIES_MAX} entries` }),
    idempotency_key: idempotencyKey,
  }),
  output: z.strictObject({ token: z.string(), items: z.int().describe('Entries in the cart') }),
  subject: ({ items }) => `${items.length} items`,
  sample: () => ({ items: [{ variant_id: 5, quantity: 2 }, { variant_id: 6 }] }),
  costly: () => ({ items: Array.from({ length: 500 }, (_, n) => ({ variant_id: n + 1 })) }),
  async run(context, { items }) {
    const cart = items.map(({ variant_id, quantity = 1 }) => ({ variant_id, quantity }));
    const { token } = await create(context, { cart }, context.callId);
    return { token, items: cart.length };
  },
});
