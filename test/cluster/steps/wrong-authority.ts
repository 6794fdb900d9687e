import { until } from '../../kit/until.ts';
import { PRODUCTION } from '../kubectl.ts';
import { isReady, processPods, untilReady } from '../pods.ts';
import { untilRolledOut } from '../release.ts';
import { foreignAuthority } from '../secrets.ts';
import type { Trial } from '../trial.ts';

const CA = 'configmap/database-ca';

/** A new pod that has the wrong authority of PostgreSQL. Needs the step `production`. */
export async function wrongAuthority({ check }: Trial): Promise<void> {
  const known = JSON.parse(await PRODUCTION.kubectl('get', CA, '-o', 'json'));
  const before = new Set((await processPods(PRODUCTION)).map(({ metadata }) => metadata.name));
  await PRODUCTION.apply(foreignAuthority());
  try {
    await PRODUCTION.kubectl('rollout', 'restart', 'deployment/carts');
    const log = await until(
      async (see) => {
        const pods = await processPods(PRODUCTION);
        const fresh = pods.find(({ metadata }) => !before.has(metadata.name));
        const text = fresh && (await PRODUCTION.kubectl('logs', fresh.metadata.name));
        const isRefused = fresh && !isReady(fresh) && see(text)?.includes('sslrootcert');
        return isRefused ? text : false;
      },
      { withinMs: 60_000, everyMs: 1_000, despiteErrors: true },
    ).catch(() => '');
    const line = log.split('\n').find((one) => one.includes('sslrootcert')) ?? '{}';
    const { msg = '', err } = JSON.parse(line);
    check(`a new pod stays unready, and logs: ${msg}: ${err?.message}`, line !== '{}');
  } finally {
    await PRODUCTION.apply({ ...known, metadata: { name: 'database-ca' } });
    await PRODUCTION.kubectl('rollout', 'restart', 'deployment/carts');
    await untilRolledOut(PRODUCTION, 'carts');
    await untilReady(PRODUCTION);
  }
}
