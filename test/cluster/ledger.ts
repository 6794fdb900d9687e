import { z } from 'zod';
import { until } from '../kit/until.ts';
import { arrived, type DemoReturn, demoReturn } from './demo.ts';
import { DEV } from './kubectl.ts';
import type { Trial } from './trial.ts';

/** Where the webhooks of the ledger go; the demo has a subscription of its own. */
export const PATH = '/cluster';

/** Makes open returns in the demo shop. */
export async function moreReturns(count: number): Promise<readonly DemoReturn[]> {
  const command = ['node', 'deploy/demo/more-returns.ts', String(count)];
  const made = await DEV.kubectl('exec', 'deployment/demo', '-c', 'demo', '--', ...command);
  return z.array(demoReturn).parse(JSON.parse(made));
}

/** Compares: every processed return has its webhook, none has come twice. */
export async function checkLedger({ check, say }: Trial, processed: readonly number[]) {
  say('compare what was processed with what arrived');
  const lost = async () => {
    const ids = new Set([...(await arrived(PATH)).values()].map(({ returnId }) => returnId));
    return processed.filter((id) => !ids.has(id));
  };
  const isAllThere = async () => (await lost()).length === 0;
  await until(isAllThere, { withinMs: 120_000, everyMs: 1_000 }).catch(() => {});
  const missing = await lost();
  check(
    `${processed.length} returns processed, ${missing.length} webhooks lost`,
    missing.length === 0,
  );
  const repeated = [...(await arrived(PATH)).values()].filter(({ count }) => count > 1);
  check(`${repeated.length} came more than once`, repeated.length === 0);
}
