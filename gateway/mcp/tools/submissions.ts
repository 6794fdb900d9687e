import { z } from 'zod';
import {
  OutcomeSchema,
  type Return,
  ReturnStateSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  SHOPPER_COMMENT_MAX,
  SHORT_TEXT_MAX,
  SUBMITTED_LINES_MAX,
} from '../../../services/contract/limits.ts';
import { choice, id, text, typed } from '../../../services/contract/resources/fields.ts';
import { eligibilityView } from '../../../services/contract/views/eligibility.ts';
import { textOrNull, word, zero } from '../../../services/contract/views/values.ts';
import {
  INELIGIBILITY_CODES,
  RETURN_METHODS,
  RETURN_OUTCOMES,
  RETURN_STATES,
  SUBMITTED_OUTCOMES,
} from '../../../services/contract/vocabulary.ts';
import { getEligibility, submitReturn } from '../../actions/submissions.ts';
import { listedWithoutBounds } from '../schema/arguments.ts';
import {
  idempotencyKey,
  namedId,
  orderName,
  orderProviderId,
  UNTRUSTED,
} from '../schema/fields.ts';
import { described } from '../schema/result-schema.ts';
import { defineTool, readOnlyHints, ToolError } from '../tool.ts';

const outcomes = () => z.array(z.enum(SUBMITTED_OUTCOMES));

const line = z.strictObject({
  provider_line_item_id: z.int(),
  sku: z.string().nullable(),
  ordered_quantity: z.int(),
  returnable_quantity: z.int(),
  window_ends_at: z.string().nullable(),
  refund: z.string(),
  outcomes: outcomes(),
  reasons: z.array(z.enum(INELIGIBILITY_CODES)),
  untrusted_data: z.strictObject({
    title: z.string().nullable(),
    variant_title: z.string().nullable(),
  }),
});

export const checkEligibility = defineTool({
  name: 'check_eligibility',
  right: 'seeReturns',
  title: 'Check eligibility',
  description:
    'Use this when you need to know what of an order may be returned by the policy, and why not the rest.',
  hints: readOnlyHints("an order at the shop's commerce platform, and the policy"),
  input: z.strictObject({
    order_name: orderName.optional(),
    provider_order_id: orderProviderId.optional(),
  }),
  output: z.strictObject({
    order_name: z.string(),
    presentment_currency: z.string(),
    return_methods: z.array(z.enum(RETURN_METHODS)),
    lines: z.array(described(`Units, refund, reasons; untrusted_data: ${UNTRUSTED}`, line)),
  }),
  sample: () => ({ order_name: '#T10' }),
  async run(context, { order_name, provider_order_id }) {
    const order =
      order_name === undefined
        ? ({ case: 'providerOrderId', value: BigInt(provider_order_id ?? 0) } as const)
        : ({ case: 'orderName', value: order_name } as const);
    if ((order_name === undefined) === (provider_order_id === undefined)) {
      throw new ToolError('Give exactly one of order_name and provider_order_id.');
    }
    const found = eligibilityView(await getEligibility(context, { order, email: undefined }));
    return {
      order_name: found.order_name,
      presentment_currency: found.presentment_currency,
      return_methods: found.return_methods,
      lines: found.lines.map(({ title, variant_title, image: _, price: __, reasons, ...rest }) => ({
        ...rest,
        reasons: reasons.map(({ code }) => code),
        untrusted_data: { title, variant_title },
      })),
    };
  },
});

const item = z.strictObject(
  {
    provider_line_item_id: id().meta({ description: undefined }),
    quantity: z
      .int({ error: typed('a whole number from 1 to 1000000') })
      .min(1)
      .max(1_000_000),
    outcome: choice(SUBMITTED_OUTCOMES).optional(),
    reason: listedWithoutBounds(text({ max: SHORT_TEXT_MAX })).optional(),
    comment: listedWithoutBounds(text({ max: SHOPPER_COMMENT_MAX })).optional(),
  },
  { error: typed('an object') },
);

export const createReturn = defineTool({
  name: 'create_return',
  right: 'submitReturns',
  title: 'Create return',
  description:
    'Use this when the user asked to submit a return for a shopper, after check_eligibility. Name the items and the refund, and let the user confirm first.',
  hints: {
    readOnly: { is: false, because: 'It creates a return.' },
    destructive: { is: false, because: 'Nothing is lost, and cancel_return cancels the return.' },
    idempotent: {
      is: false,
      because: 'Each call without an idempotency key may create a return of more units.',
    },
    openWorld: { is: true, because: 'The commerce platform looks up the order.' },
  },
  input: z.strictObject({
    order_name: orderName,
    items: z
      .array(item, { error: typed('a list') })
      .min(1, { error: 'must have at least 1 entry' })
      .max(SUBMITTED_LINES_MAX, { error: `must have at most ${SUBMITTED_LINES_MAX} entries` }),
    return_method: choice(RETURN_METHODS).optional(),
    destination_id: namedId.optional(),
    idempotency_key: idempotencyKey,
  }),
  output: z.strictObject({
    return_id: z.int(),
    state: z.enum(RETURN_STATES).nullable(),
    outcome: z.enum(RETURN_OUTCOMES).nullable(),
    presentment_currency: z.string(),
    refund: z.string(),
    return_credit: z.string(),
    handling_fee: z.string(),
  }),
  subject: ({ order_name }) => order_name,
  // Each call is about another of the sample orders (services/commerce/sample-orders.ts).
  sample: ({ longText }) => {
    const nth = Number(longText(9)) % 1_000_000;
    return {
      order_name: `#T10-${nth}`,
      items: [{ provider_line_item_id: (900_010_000_000 + nth) * 10, quantity: 1 }],
    };
  },
  costly: ({ longText }) => ({
    order_name: '#T10',
    items: Array.from({ length: SUBMITTED_LINES_MAX }, (_, n) => ({
      provider_line_item_id: n + 1,
      quantity: 1,
      comment: longText(SHOPPER_COMMENT_MAX),
    })),
  }),
  async run(context, input) {
    const { idempotency_key: _, ...body } = input;
    const made = await submitReturn(context, body, { key: context.callId });
    return createdView(made.return);
  },
});

function createdView(ret: Return) {
  const { presentmentCurrency: currency, presentmentTotals: totals } = ret;
  return {
    return_id: Number(ret.id),
    state: word(ReturnStateSchema, ret.state, RETURN_STATES),
    outcome: word(OutcomeSchema, ret.outcome, RETURN_OUTCOMES),
    presentment_currency: currency,
    refund: textOrNull(totals?.refund) ?? zero(currency),
    return_credit: textOrNull(totals?.returnCreditTotal) ?? zero(currency),
    handling_fee: textOrNull(totals?.handlingFee) ?? zero(currency),
  };
}
