import { z } from 'zod';
import { CART_ENTRIES_MAX } from '../../../services/contract/limits.ts';
import { id, typed } from '../../../services/contract/resources/fields.ts';
import { createCart as create } from '../../actions/carts.ts';
import { idempotencyKey } from '../fields.ts';
import { defineTool } from '../tool.ts';

const QUANTITY_MAX = 1_000_000;
const QUANTITY_RULE = `a whole number from 1 to ${QUANTITY_MAX}`;

export const createCart = defineTool({
  name: 'create_cart',
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
  async run(context, { items }) {
    const cart = items.map(({ variant_id, quantity = 1 }) => ({ variant_id, quantity }));
    const { token } = await create(context, { cart }, context.callId);
    return { token, items: cart.length };
  },
});
