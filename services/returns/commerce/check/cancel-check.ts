import { Check } from '../../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { TYPE_OF } from '../http/protocol.ts';
import type { CheckRule } from './checks.ts';
import {
  type CheckSession,
  differing,
  effectIn,
  foundIn,
  isEffect,
  isSame,
  notARefusal,
  shown,
} from './session.ts';

export const ORDER_CANCEL_RULE: CheckRule = {
  check: Check.ORDER_CANCEL,
  title: 'cancels an order once, or rejects it',
  run: orderCancel,
};

/** Makes an exchange order and cancels it. An endpoint may reject that. Returns what is wrong. */
async function orderCancel(session: CheckSession): Promise<string[]> {
  const order = effectIn(await session.create('exchange_order', session.newKey('exchange_order')));
  if (typeof order === 'string') return [order];
  const key = session.newKey('order_cancel');
  const before = foundIn(await session.find('order_cancel', key));
  const dataOf = (id: unknown) => ({
    ...session.dataOf('order_cancel', key),
    exchange_order: { id, name: order.name ?? '' },
  });
  const reply = await session.send(TYPE_OF.order_cancel, dataOf(order.id));
  // A platform may be unable to cancel orders. Then a person cancels them.
  if (notARefusal(reply) === undefined) return [];
  const made = effectIn(reply);
  if (typeof made === 'string') return [made];
  const problems: string[] = [];
  if (before !== null) problems.push(`a key that was never used: ${shown(before)}`);
  const again = effectIn(await session.send(TYPE_OF.order_cancel, dataOf(order.id)));
  if (!isSame(made, again)) problems.push(differing(made, again));
  const found = foundIn(await session.find('order_cancel', key));
  if (!isSame(made, found)) problems.push(differing(made, found));
  const crossed = foundIn(await session.find('exchange_order', key));
  if (isEffect(crossed)) problems.push('its key also finds an order; search by kind and key');
  return problems;
}
