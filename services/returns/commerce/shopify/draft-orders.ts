import { z } from 'zod';
import type { Operation } from './client.ts';
import { presentment, userErrors } from './shapes.ts';

/** Maximum number of drafts with one key that are read. Usually there is one. */
const MAX_DRAFTS = 20;

const DRAFT = `
fragment DraftParts on DraftOrder {
  id
  ready
  tags
  invoiceSentAt
  totalPriceSet { presentmentMoney { amount currencyCode } }
  appliedDiscount { amountSet { presentmentMoney { amount currencyCode } } }
  order {
    id
    name
    createdAt
    totalPriceSet { presentmentMoney { amount currencyCode } }
    totalOutstandingSet { presentmentMoney { amount currencyCode } }
  }
}`;

const draft = z.object({
  id: z.string(),
  ready: z.boolean(),
  tags: z.array(z.string()),
  invoiceSentAt: z.string().nullable(),
  totalPriceSet: presentment,
  appliedDiscount: z.object({ amountSet: presentment }).nullable(),
  order: z
    .object({
      id: z.string(),
      name: z.string(),
      createdAt: z.string(),
      totalPriceSet: presentment,
      totalOutstandingSet: presentment,
    })
    .nullable(),
});
export type Draft = z.infer<typeof draft>;

export const FIND_DRAFTS = {
  name: 'FindDrafts',
  text: `
query FindDrafts($query: String!) {
  draftOrders(first: ${MAX_DRAFTS}, sortKey: ID, query: $query) { nodes { ...DraftParts } }
}
${DRAFT}`,
  data: z.object({ draftOrders: z.object({ nodes: z.array(draft) }) }),
} satisfies Operation<z.ZodType>;

/** Reads one draft by its id, and not from the search index. */
export const READ_DRAFT = {
  name: 'ReadDraft',
  text: `
query ReadDraft($id: ID!) {
  draftOrder(id: $id) { ...DraftParts }
}
${DRAFT}`,
  data: z.object({ draftOrder: draft.nullable() }),
} satisfies Operation<z.ZodType>;

export const CREATE_DRAFT = {
  name: 'CreateDraft',
  text: `
mutation CreateDraft($input: DraftOrderInput!) {
  draftOrderCreate(input: $input) {
    draftOrder { ...DraftParts }
    userErrors { field message }
  }
}
${DRAFT}`,
  data: z.object({
    draftOrderCreate: z.object({ draftOrder: draft.nullable(), userErrors }).nullable(),
  }),
} satisfies Operation<z.ZodType>;

export const COMPLETE_DRAFT = {
  name: 'CompleteDraft',
  text: `
mutation CompleteDraft($id: ID!, $pending: Boolean) {
  draftOrderComplete(id: $id, paymentPending: $pending) {
    draftOrder { ...DraftParts }
    userErrors { field message }
  }
}
${DRAFT}`,
  data: z.object({
    draftOrderComplete: z.object({ draftOrder: draft.nullable(), userErrors }).nullable(),
  }),
} satisfies Operation<z.ZodType>;

/** Sends the shopper the invoice of a draft. The draft then has `invoiceSentAt`. */
export const SEND_INVOICE = {
  name: 'SendInvoice',
  text: `
mutation SendInvoice($id: ID!) {
  draftOrderInvoiceSend(id: $id) {
    draftOrder { ...DraftParts }
    userErrors { field message }
  }
}
${DRAFT}`,
  data: z.object({
    draftOrderInvoiceSend: z.object({ draftOrder: draft.nullable(), userErrors }).nullable(),
  }),
} satisfies Operation<z.ZodType>;

const address = z.object({
  firstName: z.string().nullable(),
  lastName: z.string().nullable(),
  company: z.string().nullable(),
  address1: z.string().nullable(),
  address2: z.string().nullable(),
  city: z.string().nullable(),
  provinceCode: z.string().nullable(),
  countryCodeV2: z.string().nullable(),
  zip: z.string().nullable(),
  phone: z.string().nullable(),
});

export const RECIPIENT = {
  name: 'Recipient',
  text: `
query Recipient($order: ID!) {
  order(id: $order) {
    email
    customer { id }
    shippingAddress {
      firstName lastName company address1 address2 city provinceCode countryCodeV2 zip phone
    }
  }
}`,
  data: z.object({
    order: z
      .object({
        email: z.string().nullable(),
        customer: z.object({ id: z.string() }).nullable(),
        shippingAddress: address.nullable(),
      })
      .nullable(),
  }),
} satisfies Operation<z.ZodType>;
