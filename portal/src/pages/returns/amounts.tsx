import { Stack, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import type {
  Return,
  ReturnAmount,
  ReturnInstantRefund,
} from '../../../../proto/gen/rms/portal/v1/return_pb.ts';
import { DataTable } from '../../parts/data-table.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Time } from '../../parts/time.tsx';
import { inWords, moneyText, negated } from '../../words.ts';
import { isUnpaid, isZero } from './amount-text.tsx';

interface Row {
  /** In words of people. */
  readonly title: string;
  /** Whether the amount is deducted. */
  readonly minus?: true;
  /** Whether it is the result of the rows above. */
  readonly sum?: true;
}

/**
 * The amounts by their names in the REST API, with signs: what the shopper gets is above zero, what is deducted from it is
 * below. So the rows down to `return_total` and to `total` add up to them, and the rows from the credit to the gift
 * card. `exchange_credit_total` is left out, because it is a part of the credit and of the exchange items.
 */
const ROWS: Readonly<Record<string, Row>> = {
  return_product_total: { title: 'Goods, before discounts' },
  return_discount_total: { title: 'Discounts', minus: true },
  return_tax_total: { title: 'Taxes' },
  return_total: { title: 'Goods, after discounts and with taxes', sum: true },
  refund_shipping_total: { title: 'Shipping that is refunded' },
  handling_fee: { title: 'Handling fee', minus: true },
  total: { title: 'Total', sum: true },
  refund: { title: 'Refund to the shopper', sum: true },
  return_credit_total: { title: 'Credit for the shopper' },
  exchange_total: { title: 'Exchange items', minus: true },
  upsell: { title: 'For the shopper to pay on top' },
  gift_card: { title: 'Gift card for the rest', sum: true },
};

/** Their titles in a return that has ended without paying them. */
const UNPAID: Readonly<Record<string, string>> = {
  refund: 'Would have been refunded',
  gift_card: 'Would have been a gift card',
};

/** The amounts of the return that are not zero, and its total, in both currencies. */
export function Amounts({ about }: { readonly about: Return }) {
  const { amounts, currency, presentmentCurrency, instantRefunds } = about;
  const isOther = presentmentCurrency !== '' && presentmentCurrency !== currency;
  const rows = amounts.filter(
    ({ name, amount }) => name in ROWS && (name === 'total' || !isZero(amount)),
  );
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
          rowKey={({ name }) => name}
          columns={[
            {
              title: 'Amount',
              cell: ({ name }) =>
                of(
                  name,
                  <span title={name}>
                    {(isUnpaid(about) && UNPAID[name]) || ROWS[name]?.title}
                  </span>,
                ),
            },
            {
              title: `${currency}, your shop`,
              align: 'end',
              cell: ({ name, amount }) => of(name, signed(name, currency, amount?.shop)),
            },
            ...(isOther
              ? [
                  {
                    title: `${presentmentCurrency}, the shopper`,
                    align: 'end' as const,
                    cell: ({ name, amount }: ReturnAmount) =>
                      of(name, signed(name, presentmentCurrency, amount?.presentment)),
                  },
                ]
              : []),
          ]}
        />
        {instantRefunds.map((paid) => (
          <InstantRefund key={paid.id} paid={paid} />
        ))}
      </Stack>
    </Panel>
  );
}

/** Sums stand out. */
function of(name: string, cell: ReactNode): ReactNode {
  return ROWS[name]?.sum ? <strong>{cell}</strong> : cell;
}

function signed(name: string, currency: string, value = ''): string {
  return moneyText(ROWS[name]?.minus ? negated(value) : value, currency);
}

const STATES: Readonly<Record<string, string>> = {
  open: 'it is not decided whether the shopper keeps it',
  returned: 'the shopper keeps it, because the goods arrived',
  charged: 'it was charged back, because the goods did not arrive',
  charge_failed: 'the shopper keeps it, because charging it back failed',
};

function InstantRefund({ paid }: { readonly paid: ReturnInstantRefund }) {
  return (
    <Text size="sm">
      Instant refund of {paid.money && moneyText(paid.money.value, paid.money.currency)} on{' '}
      <Time at={paid.createdAt} as="day" />: {STATES[paid.state] ?? inWords(paid.state)}.
    </Text>
  );
}
