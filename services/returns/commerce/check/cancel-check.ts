import { Check } from '../../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { TYPE_OF } from '../http/protocol.ts';
import type { CheckRule } from './checks.ts';
import { differing, isEffect, isSame, shown } from './compare.ts';
import type { CheckSession } from './session.ts';

export const ORDER_CANCEL_RULE: CheckRule = {
  check: Check.ORDER_CANCEL,
  title: 'cancels an order once, or rejects it',
  run: orderCancel,
};

/** Makes an exchange order and cancels it. An endpoint may reject the cancellation. Returns what is wrong. */
async function orderCancel(session: CheckSession): Promise<string[]> {
  const order = (await session.create('exchange_order', session.newKey('exchange_order'))).effect();
  if (typeof order === 'string') return [order];
  const key = session.newKey('order_cancel');
  const before = (await session.find('order_cancel', key)).found();
  const dataOf = (id: unknown) => ({
    ...session.dataOf('order_cancel', key),
    exchange_order: { id, name: order.name ?? '' },
  });
  const reply = await session.send(TYPE_OF.order_cancel, dataOf(order.id));
  // Accept a rejection: some platforms cannot cancel orders, and then a person cancels them.
  if (reply.problemAsRefusal() === undefined) return [];
  const made = reply.effect();
  if (typeof made === 'string') return [made];
  const problems: string[] = [];
  if (before !== null) problems.push(`a key that was never used: ${shown(before)}`);
  const again = (await session.send(TYPE_OF.order_cancel, dataOf(order.id))).effect();
  if (!isSame(made, again)) problems.push(differing(made, again));
  const found = (await session.find('order_cancel', key)).found();
  if (!isSame(made, found)) problems.push(differing(made, found));
  const crossed = (await session.find('exchange_order', key)).found();
  if (isEffect(crossed)) problems.push('its key also finds an order; search by kind and key');
  return problems;
}
