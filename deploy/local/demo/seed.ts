import { Code, ConnectError } from '@connectrpc/connect';
import type { MemoryFile } from '../memory.ts';
import type { Plan } from '../plan.ts';
import type { Access } from '../running.ts';
import { seedPeople } from './people.ts';
import { type SeedContext, type SeededShop, seedShop } from './shops.ts';

/** What seeding needs of the stack. Calls `report` once for every 20 % of the progress. */
export async function seedContextOf(
  plan: Plan,
  { clients, commerce, pools }: Access,
  report: (text: string) => void,
): Promise<SeedContext> {
  let reported = 0;
  return {
    pool: pools.gateway,
    clients,
    commerce,
    memory: plan.memory,
    seededAt: await seedingTime(plan.memory),
    today: plan.today,
    baseUrl: plan.baseUrl,
    sinkUrl: `http://127.0.0.1:${plan.ports.sink}/webhooks`,
    progress(share) {
      const step = Math.floor(share * 5);
      if (step > reported) report(`${step * 20} %`);
      reported = Math.max(reported, step);
    },
  };
}

/** The start of the seeding. It is stored, so that an interrupted seeding sends the same data again. */
async function seedingTime(memory: MemoryFile): Promise<Date> {
  memory.memory.seeded.at ??= new Date().toISOString();
  await memory.save();
  return new Date(String(memory.memory.seeded.at));
}

/**
 * Creates the demo's people and fills its shops. It continues an interrupted run, and does nothing when it is
 * complete.
 */
export async function seedDemo(
  context: SeedContext,
  shopIds: readonly number[],
): Promise<readonly SeededShop[]> {
  const { seeded } = context.memory.memory;
  // This function stored the value in an earlier run.
  if (seeded.shops) return seeded.shops as readonly SeededShop[];
  const [shops] = await Promise.all([
    seedShops(context, shopIds),
    seedPeople(context.pool, shopIds),
  ]);
  seeded.shops = shops;
  await context.memory.save();
  return shops;
}

async function seedShops(context: SeedContext, ids: readonly number[]): Promise<SeededShop[]> {
  const shops: SeededShop[] = [];
  for (const [at, id] of ids.entries()) {
    const progress = (share: number) => context.progress((at + share) / ids.length);
    shops.push(await withRetries(() => seedShop({ ...context, progress }, id, at === 0)));
  }
  return shops;
}

/** Maximum number of attempts for a shop. */
const MAX_RUNS = 5;
const BUSY = [Code.DeadlineExceeded, Code.Unavailable, Code.ResourceExhausted];

/** Repeats `work` while the machine is too busy to respond in time. Each repeat continues where the last one stopped. */
async function withRetries<T>(work: () => Promise<T>): Promise<T> {
  for (let run = 1; ; run += 1) {
    try {
      return await work();
    } catch (error) {
      if (run === MAX_RUNS || !BUSY.includes(ConnectError.from(error).code)) throw error;
    }
  }
}
