import type { MessageInitShape } from '@bufbuild/protobuf';
import { Outcome } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  GiftCardMode,
  RestockMode,
  type SettingsSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { FailureKind } from '../../../services/commerce/provider.ts';
import type { SubmissionPart } from '../builders.ts';
import { exchangeWith, newLine, upsell } from '../services/processing.ts';

/** A kind of return, and the effects and events that its processing must have. */
export interface Scenario {
  readonly name: string;
  readonly settings: MessageInitShape<typeof SettingsSchema>;
  readonly submission: () => SubmissionPart;
  /** How the first calls of the provider fail. */
  readonly failure?: { readonly kind: FailureKind; readonly times: number };
  /** Effects at the provider, as `amount currency`. */
  readonly order?: string;
  /** What the shopper is asked to pay of the order, once. */
  readonly due?: string;
  readonly giftCard?: string;
  readonly refund?: string;
  /**
   * Whether the return is cancelled after its exchange order was made. Then the provider rejects everything else, and
   * cancels the order once.
   */
  readonly cancelled?: true;
  /** Units that go back to stock at the provider, in one effect. */
  readonly restocked?: number;
  /** Events in addition to `return.closed`, each exactly once. */
  readonly requests?: readonly string[];
}

type Work = Omit<Scenario, 'name' | 'settings'> & Partial<Pick<Scenario, 'settings'>>;

/** An exchange of 1860 yen on goods of 3100. */
function yenExchange(rest: 'gift card' | 'refund'): SubmissionPart {
  const spent = { shop: '12.00', presentment: '1860' };
  const all = { shop: '20.00', presentment: '3100' };
  return {
    presentmentCurrency: 'JPY',
    outcome: rest === 'refund' ? Outcome.EXCHANGE_REFUND : Outcome.EXCHANGE_CREDIT,
    exchanges: [{ variantId: 9n, title: 'Hat', price: spent }],
    lines: [{ ...newLine(), price: all }],
    amounts: { returnCredit: rest === 'refund' ? spent : all },
  };
}

const WORK: Readonly<Record<string, Work>> = {
  refund: { submission: () => ({}), refund: '20.00 GBP' },
  'gift card': {
    submission: () => ({
      outcome: Outcome.CREDIT,
      amounts: { returnCredit: { shop: '20.00' } },
    }),
    giftCard: '20.00 GBP',
  },
  exchange: {
    submission: () => ({
      outcome: Outcome.EXCHANGE,
      exchanges: [{ variantId: 9n, title: 'Coat', price: { shop: '20.00' } }],
      amounts: { returnCredit: { shop: '20.00' } },
    }),
    order: '20.00 GBP',
  },
  upsell: {
    submission: () => upsell(),
    order: '25.00 GBP',
    due: '5.00',
  },
  'exchange and gift card': {
    submission: () => exchangeWith('gift card'),
    order: '12.00 GBP',
    giftCard: '8.00 GBP',
  },
  'exchange and refund': {
    submission: () => exchangeWith('refund'),
    order: '12.00 GBP',
    refund: '8.00 GBP',
  },
  'exchange and gift card in yen': {
    submission: () => yenExchange('gift card'),
    order: '1860 JPY',
    giftCard: '1240 JPY',
  },
  'exchange and refund in yen': {
    submission: () => yenExchange('refund'),
    order: '1860 JPY',
    refund: '1240 JPY',
  },
  'refund and restock': {
    settings: { restockMode: RestockMode.PROVIDER },
    submission: () => ({ destinationId: 7n }),
    refund: '20.00 GBP',
    restocked: 2,
  },
  'exchange, gift card and restock': {
    settings: { restockMode: RestockMode.PROVIDER },
    submission: () => ({ ...exchangeWith('gift card'), destinationId: 7n }),
    order: '12.00 GBP',
    giftCard: '8.00 GBP',
    restocked: 2,
  },
};

const FAILURES: Readonly<Record<string, Pick<Scenario, 'failure'>>> = {
  '': {},
  ', after two transient failures of the provider': { failure: { kind: 'passing', times: 2 } },
  ', after one permanent failure of the provider': { failure: { kind: 'final', times: 1 } },
};

/** Every kind of effect, alone and combined, in one and in two currencies, with and without failures of the provider. */
export const SCENARIOS: readonly Scenario[] = [
  ...Object.entries(WORK).flatMap(([name, work]) =>
    Object.entries(FAILURES).map(([how, failure]) => ({
      name: `${name}${how}`,
      settings: {},
      ...work,
      ...failure,
    })),
  ),
  {
    name: 'exchange that is cancelled',
    settings: {},
    submission: () => exchangeWith('refund'),
    order: '12.00 GBP',
    cancelled: true,
  },
  {
    name: 'exchange, card and stock by event',
    settings: { giftCardMode: GiftCardMode.EXTERNAL, restockMode: RestockMode.WEBHOOK },
    submission: () => ({ ...exchangeWith('gift card'), destinationId: 7n }),
    order: '12.00 GBP',
    requests: ['giftcard.requested', 'restock.requested'],
  },
];
