import { Check } from '../../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { TYPE_OF } from '../http/protocol.ts';
import type { CheckRule } from './checks.ts';
import { amountOf, isEffect } from './compare.ts';
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
  return [...problems, ...(await upsell(session))];
}

/** Requests an exchange order that the returned goods do not pay completely. An endpoint may reject it. */
async function upsell(session: CheckSession): Promise<string[]> {
  const { currency } = session;
  const key = session.newKey('exchange_order');
  const [amount, paid, due] = ['15', '10', '5'].map((units) => amountOf(units, currency, '0'));
  const data = { ...session.dataOf('exchange_order', key, amount), paid_by_return: paid, due };
  const reply = await session.send(TYPE_OF.exchange_order, data);
  if (reply.problemAsRefusal() === undefined) {
    const isMade = isEffect((await session.find('exchange_order', key)).found());
    return isMade ? ['it rejected an exchange order with `due`, and made it all the same'] : [];
  }
  const made = reply.effect();
  const found = (await session.find('exchange_order', key)).found();
  const asks = (one: typeof found) => isEffect(one) && Object(one).due === due;
  if (asks(made) && asks(found)) return [];
  if (typeof made === 'string') return [`an exchange order with \`due\`: ${made}`];
  return [
    `the shopper must still pay ${due} of an exchange order of ${amount} ${currency}, and the answer, or that to effect.find, has no \`due\` of ${due}. Ask the shopper for it and answer it, or reject the request with 422; do not make the order as paid`,
  ];
}
