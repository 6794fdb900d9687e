import { TYPE_OF } from '../http/protocol.ts';
import { differing, isEffect, isSame, shown } from './compare.ts';
import { type CheckSession, effectIn, foundIn, notARefusal } from './session.ts';

/** Asks for a restock, which an endpoint may reject unless its shop needs it. Returns what is wrong. */
export async function restock(session: CheckSession): Promise<string[]> {
  const key = session.newKey('restock');
  const before = foundIn(await session.find('restock', key));
  const reply = await session.create('restock', key);
  // An endpoint may leave stock to the merchant, if the shop's setting does.
  if (!session.mustRestock && notARefusal(reply) === undefined) return [];
  const made = effectIn(reply);
  if (typeof made === 'string') return [made];
  const problems: string[] = [];
  if (before !== null) problems.push(`a key that was never used: ${shown(before)}`);
  const again = effectIn(await session.create('restock', key));
  if (!isSame(made, again)) problems.push(differing(made, again));
  const found = foundIn(await session.find('restock', key));
  if (!isSame(made, found)) problems.push(differing(made, found));
  const crossed = foundIn(await session.find('refund', key));
  if (isEffect(crossed)) problems.push('its key also finds a refund; search by kind and key');
  const nothing = { ...session.dataOf('restock', session.newKey('restock')), lines: [] };
  const problem = notARefusal(await session.send(TYPE_OF.restock, nothing));
  return problem ? [...problems, `no lines: ${problem}`] : problems;
}
