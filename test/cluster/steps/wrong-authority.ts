import { until } from '../../kit/until.ts';
import { PRODUCTION } from '../kubectl.ts';
import { isReady, processPods, untilReady } from '../pods.ts';
import { untilRolledOut } from '../release.ts';
import { foreignAuthority } from '../secrets.ts';
import type { Trial } from '../trial.ts';

const CARTS = 'deployment/carts';

/** A new pod that has the wrong authority of PostgreSQL. Needs the step `production`. */
export async function wrongAuthority({ check }: Trial): Promise<void> {
  const before = new Set((await processPods(PRODUCTION)).map(({ metadata }) => metadata.name));
  const authority = foreignAuthority('foreign-database-ca');
  await PRODUCTION.apply(authority);
  try {
    await PRODUCTION.kubectl('patch', CARTS, '-p', JSON.stringify(mounts(authority)));
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
    await PRODUCTION.kubectl('rollout', 'undo', CARTS);
    await untilRolledOut(PRODUCTION, 'carts');
    await untilReady(PRODUCTION);
  }
}

/**
 * Only carts mounts the foreign authority. A change of the ConfigMap that all mount reaches running pods at any time
 * within a minute, and stays as long.
 */
function mounts({ metadata: { name } }: ReturnType<typeof foreignAuthority>) {
  const volumes = [{ name: 'database-ca', configMap: { name } }];
  return { spec: { template: { spec: { volumes } } } };
}
