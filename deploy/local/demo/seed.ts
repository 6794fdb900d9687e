import { Code, ConnectError } from '@connectrpc/connect';
import type { MemoryFile } from '../memory.ts';
import { seedPeople } from './people.ts';
import { type SeedContext, type SeededShop, seedShop } from './shops.ts';

/** When seeding began; remembered, so that an interrupted one sends the same again. */
export async function seedingTime(memory: MemoryFile): Promise<Date> {
  memory.memory.seeded.at ??= new Date().toISOString();
  await memory.save();
  return new Date(String(memory.memory.seeded.at));
}

/**
 * Makes the demo's people and fills its shops; carries on where an interrupted run stopped, and does
 * nothing once it is complete.
 */
export async function seedDemo(
  context: SeedContext,
  shopIds: readonly number[],
): Promise<readonly SeededShop[]> {
  const { seeded } = context.memory.memory;
  // Written by this very function, in an earlier run.
  if (seeded.shops) return seeded.shops as readonly SeededShop[];
  await seedPeople(context.pool, shopIds);
  const shops: SeededShop[] = [];
  for (const [at, id] of shopIds.entries()) {
    const progress = (share: number) => context.progress((at + share) / shopIds.length);
    shops.push(await resuming(() => seedShop({ ...context, progress }, id, at === 0)));
  }
  seeded.shops = shops;
  await context.memory.save();
  return shops;
}

/** Times that a shop is tried. */
const MOST_RUNS = 5;
const BUSY = [Code.DeadlineExceeded, Code.Unavailable, Code.ResourceExhausted];

/** Runs `work` again, which carries on where it stopped, while the machine is too busy to answer in time. */
async function resuming<T>(work: () => Promise<T>): Promise<T> {
  for (let run = 1; ; run += 1) {
    try {
      return await work();
    } catch (error) {
      if (run === MOST_RUNS || !BUSY.includes(ConnectError.from(error).code)) throw error;
    }
  }
}
