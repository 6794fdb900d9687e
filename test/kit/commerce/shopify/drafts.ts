import { formatAmount, minorOf } from '../../../../services/platform/values/money.ts';
import { type MadeDraft, makerOf, type Shop } from './shop.ts';
import { draftView, numberOf } from './views.ts';

export interface MoneyInput {
  readonly amount: string;
  readonly currencyCode: string;
}

interface DraftInput {
  readonly tags: readonly string[];
  readonly note: string;
  readonly presentmentCurrencyCode: string;
  readonly appliedDiscount?: { readonly value: number; readonly amountWithCurrency: MoneyInput };
  readonly lineItems: readonly {
    readonly priceOverride?: MoneyInput;
    readonly originalUnitPriceWithCurrency?: MoneyInput;
  }[];
}

/** The mutations of draft orders. */
export function draftMutationsOf(shop: Shop, lagMs: number) {
  const make = makerOf(shop, lagMs);
  return {
    draftOrderCreate({ input }: { input: DraftInput }) {
      if (input.tags.some((tag) => tag.length > 40)) {
        return { draftOrder: null, userErrors: [{ message: 'Tag is too long' }] };
      }
      const currency = input.presentmentCurrencyCode;
      const sum = input.lineItems.reduce((minor, line) => {
        const price = line.priceOverride ?? line.originalUnitPriceWithCurrency;
        return minor + minorOf(price?.amount ?? '0', currency);
      }, 0n);
      const discount = input.appliedDiscount?.amountWithCurrency.amount;
      const amount = formatAmount(sum - minorOf(discount ?? '0', currency), currency);
      const made = make({ note: input.note, amount, currency });
      const { tags } = input;
      const draft: MadeDraft = { ...made, tags, discount, invoices: [], order: undefined };
      shop.drafts.push(draft);
      return { draftOrder: draftView(draft), userErrors: [] };
    },
    draftOrderComplete({ id, paymentPending }: { id: string; paymentPending?: boolean }) {
      const draft = shop.drafts.find((one) => one.id === numberOf(id));
      if (!draft || draft.order) {
        const message = draft ? 'This order has been paid' : 'Draft order not found';
        return { draftOrder: null, userErrors: [{ message }] };
      }
      const { note, amount, currency } = draft;
      draft.order = {
        ...make({ note, amount, currency }),
        isPending: paymentPending === true && !shop.marksAsPaid,
        isRefunded: false,
        cancelledAt: undefined,
        isShipped: false,
      };
      return { draftOrder: draftView(draft), userErrors: [] };
    },
    draftOrderInvoiceSend({ id }: { id: string }) {
      const draft = shop.drafts.find((one) => one.id === numberOf(id));
      if (!draft) return { draftOrder: null, userErrors: [{ message: 'Draft order not found' }] };
      draft.invoices.push(new Date());
      return { draftOrder: draftView(draft), userErrors: [] };
    },
  };
}
