import { Check } from '../../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { TYPE_OF } from '../http/protocol.ts';
import type { CheckRule } from './checks.ts';
import { amountOf } from './compare.ts';
import type { CheckSession } from './session.ts';

/** Amounts that find mistakes: zeros at the end must stay, and binary floating point cannot represent these numbers. */
const AMOUNTS = [
  ['1', '10'],
  ['19', '99'],
  ['4', '35'],
  ['8', '20'],
  ['12345', '67'],
] as const;
/**
 * Amounts in currencies with no decimals and with three. Shoppers may pay in another currency than that of the shop.
 */
const OTHER_DECIMALS = [
  { amount: '1550', currency: 'JPY' },
  { amount: '4.125', currency: 'KWD' },
] as const;

export const MONEY_RULE: CheckRule = {
  check: Check.MONEY,
  title: 'keeps amounts exactly',
  run: money,
};

async function money(session: CheckSession): Promise<string[]> {
  const own = AMOUNTS.map(([units, fraction]) => ({
    amount: amountOf(units, session.currency, fraction),
    currency: session.currency,
  }));
  const others = OTHER_DECIMALS.filter(({ currency }) => currency !== session.currency);
  const problems: string[] = [];
  for (const { amount, currency } of [...own, ...others]) {
    const data = { ...session.dataOf('refund', session.newKey('refund'), amount), currency };
    const reply = await session.send(TYPE_OF.refund, data);
    // Accept a rejection: a platform may sell only in the currency of the shop.
    if (currency !== session.currency && reply.problemAsRefusal() === undefined) continue;
    const made = reply.effect();
    if (typeof made === 'string') problems.push(`${amount} ${currency}: ${made}`);
    else if (made.amount !== amount || made.currency !== currency) {
      problems.push(
        `requested were ${amount} ${currency}, answered ${made.amount} ${made.currency}; use decimals, not floating point, with the decimals and the currency of the request`,
      );
    }
  }
  return problems;
}
