import { Stack, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import type { Totals } from '../../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type InstantRefund,
  InstantRefundState,
} from '../../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { DataTable } from '../../parts/data-table.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Time } from '../../parts/time/time.tsx';
import { moneyText, negated } from '../../words.ts';
import { hasOtherCurrency, isUnpaid, isZero } from './amount-text.tsx';
import type { Checked } from './check.ts';

interface Row {
  readonly name: keyof Omit<Totals, '$typeName' | '$unknown'>;
  /** In words of people. */
  readonly title: string;
  /** Whether the amount is deducted. */
  readonly minus?: true;
  /** Whether it is the result of the rows above. */
  readonly sum?: true;
  /** The title in a return that has ended without paying it. */
  readonly unpaid?: string;
}

/**
 * The amounts with signs: what the shopper gets is above zero, what is deducted from it is below. So the rows down to
 * `returnTotal` and to `total` add up to them, and the rows from the credit to the gift card. `exchangeCreditTotal` is
 * left out, because it is a part of the credit and of the exchange items.
 */
const ROWS: readonly Row[] = [
  { name: 'returnProductTotal', title: 'Goods, before discounts' },
  { name: 'returnDiscountTotal', title: 'Discounts', minus: true },
  { name: 'returnTaxTotal', title: 'Taxes' },
  { name: 'returnTotal', title: 'Goods, after discounts and with taxes', sum: true },
  { name: 'refundShippingTotal', title: 'Shipping that is refunded' },
  { name: 'handlingFee', title: 'Handling fee', minus: true },
  { name: 'total', title: 'Total', sum: true },
  {
    name: 'refund',
    title: 'Refund to the shopper',
    sum: true,
    unpaid: 'Would have been refunded',
  },
  { name: 'returnCreditTotal', title: 'Credit for the shopper' },
  { name: 'exchangeTotal', title: 'Exchange items', minus: true },
  { name: 'upsell', title: 'For the shopper to pay on top' },
  {
    name: 'giftCard',
    title: 'Gift card for the rest',
    sum: true,
    unpaid: 'Would have been a gift card',
  },
];

/** The amounts of the return that are not zero, and its total, in both currencies. */
export function Amounts({ about, check }: Checked) {
  const { totals, presentmentTotals, currency, presentmentCurrency } = about;
  const isOther = hasOtherCurrency(about);
  const rows = ROWS.map((row) => ({
    row,
    shop: totals?.[row.name] ?? '',
    presentment: presentmentTotals?.[row.name] ?? '',
  })).filter((amount) => totals && (amount.row.name === 'total' || !isZero(amount)));
  return (
    <Panel
      title="Money"
      about={
        isOther
          ? `The shopper paid in ${presentmentCurrency}. The amounts are as stored, not converted.`
          : undefined
      }
    >
      <Stack gap="sm">
        <DataTable
          caption="Money"
          cards={isOther}
          rows={rows}
          rowKey={({ row }) => row.name}
          columns={[
            {
              title: 'Amount',
              cell: ({ row }) =>
                of(
                  row,
                  <span title={apiName(row.name)}>
                    {(isUnpaid(about) && row.unpaid) || row.title}
                  </span>,
                ),
            },
            {
              title: `${currency}, your shop`,
              align: 'end',
              cell: ({ row, shop }) => of(row, signed(row, currency, shop)),
            },
            ...(isOther
              ? [
                  {
                    title: `${presentmentCurrency}, the shopper`,
                    align: 'end' as const,
                    cell: ({ row, presentment }: (typeof rows)[number]) =>
                      of(row, signed(row, presentmentCurrency, presentment)),
                  },
                ]
              : []),
          ]}
        />
        {check.instantRefunds.map((paid) => (
          <PaidBefore key={String(paid.id)} paid={paid} />
        ))}
      </Stack>
    </Panel>
  );
}

/** Sums stand out. */
function of({ sum }: Row, cell: ReactNode): ReactNode {
  return sum ? <strong>{cell}</strong> : cell;
}

function signed({ minus }: Row, currency: string, value: string): string {
  return moneyText(minus ? negated(value) : value, currency);
}

/** The name in the REST API, such as `return_total`. */
function apiName(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

const STATES: Readonly<Partial<Record<InstantRefundState, string>>> = {
  [InstantRefundState.OPEN]: 'it is not decided whether the shopper keeps it',
  [InstantRefundState.RETURNED]: 'the shopper keeps it, because the goods arrived',
  [InstantRefundState.CHARGED]: 'it was charged back, because the goods did not arrive',
  [InstantRefundState.CHARGE_FAILED]: 'the shopper keeps it, because charging it back failed',
};

function PaidBefore({ paid }: { readonly paid: InstantRefund }) {
  return (
    <Text size="sm">
      Instant refund of {paid.money && moneyText(paid.money.value, paid.money.currency)} on{' '}
      <Time at={paid.createdAt} as="day" />: {STATES[paid.state] ?? 'in a state unknown here'}.
    </Text>
  );
}
