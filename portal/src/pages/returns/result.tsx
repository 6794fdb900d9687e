import { Alert } from '@mantine/core';
import type { ReactNode } from 'react';
import type { Return, ReturnEffect } from '../../../../proto/gen/rms/portal/v1/return_pb.ts';
import { Bullets } from '../../parts/bullets.tsx';
import { Time } from '../../parts/time.tsx';
import { inWords, moneyText } from '../../words.ts';

/** What processing made at the commerce provider: what, how much, to whom and when. */
export function Result({ about }: { readonly about: Return }) {
  const { effects, archivedAt, summary } = about;
  const state = summary?.state ?? '';
  const isClosed = state === 'closed';
  if (!isClosed && effects.length === 0) return null;
  const title = isClosed ? (
    <>
      Processed <Time at={archivedAt} none="" />
    </>
  ) : (
    (ENDED[state] ?? 'Processing has not ended, and has made this so far')
  );
  return (
    <Alert color={isClosed ? 'green' : 'yellow'} role="status" title={title}>
      {effects.length === 0 ? (
        'No refund, gift card or order was to be made.'
      ) : (
        <Bullets items={effects.map((made) => [`${made.kind} ${made.reference}`, textOf(made)])} />
      )}
    </Alert>
  );
}

/** Titles of returns that ended without being processed. Only an exchange order is undone by a cancellation. */
const ENDED: Readonly<Record<string, string>> = {
  cancelled: 'Made before the return was cancelled, which cancelled the order',
  expired: 'Made before the return expired',
};

/** What was made, in words of people. */
const MADE: Readonly<Record<string, (amount: string) => string>> = {
  refund: (amount) => `${amount} refunded to the shopper's original payment method`,
  gift_card: (amount) => `Gift card of ${amount} issued to the shopper`,
  exchange_order: () => 'Exchange order placed',
};

function textOf({ kind, money, reference, createdAt }: ReturnEffect): ReactNode {
  const amount = money ? moneyText(money.value, money.currency) : '';
  return (
    <>
      {MADE[kind]?.(amount) ?? `${inWords(kind)} ${amount}`}
      {createdAt && (
        <>
          {' '}
          on <Time at={createdAt} />
        </>
      )}{' '}
      (reference {reference})
    </>
  );
}
