import { until } from '../kit/until.ts';
import type { Namespace } from './kubectl.ts';
import { processPods } from './pods.ts';

const READ =
  "fetch('http://127.0.0.1:9464/metrics').then((r) => r.text()).then((text) => console.log(text))";

/** Sum of a metric over its labels, by pod of our processes; without pods that do not export it. */
export async function metricByPod(
  space: Namespace,
  metricOf: (app: string) => string,
): Promise<Readonly<Record<string, number>>> {
  const sums: Record<string, number> = {};
  for (const { metadata } of await processPods(space)) {
    const command = ['exec', metadata.name, '-c', 'server', '--', 'node', '-e', READ];
    const metric = metricOf(metadata.labels.app ?? '');
    const lines = (await space.kubectl(...command))
      .split('\n')
      .filter((line) => line.startsWith(`${metric}{`) || line.startsWith(`${metric} `));
    if (lines.length > 0)
      sums[metadata.name] = lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
    else if (metric.endsWith('_count')) sums[metadata.name] = 0;
  }
  return sums;
}

/** RPCs by pod: what a service has answered, what the gateway has sent. */
function rpcsByPod(space: Namespace): Promise<Readonly<Record<string, number>>> {
  return metricByPod(
    space,
    (app) => `rpc_${app === 'gateway' ? 'client' : 'server'}_call_duration_seconds_count`,
  );
}

/** Calls every service through the gateway until each pod has served an RPC. @returns RPCs by pod. */
export async function untilEachServed(
  space: Namespace,
  callAll: () => Promise<unknown>,
): Promise<Readonly<Record<string, number>>> {
  let counts: Readonly<Record<string, number>> = {};
  const eachServed = async () => {
    await callAll();
    counts = await rpcsByPod(space);
    return Object.values(counts).every((count) => count > 0);
  };
  await until(eachServed, { withinMs: 60_000, everyMs: 100 }).catch(() => {});
  return counts;
}

/** A caller gives up after this time. Milliseconds. */
const DEADLINE_MS = 10_000;

/**
 * One REST call to each service, and how each ended: its status, or the name of an error. Whether the objects exist does
 * not matter.
 */
export async function callEveryService(url: string, key: string): Promise<readonly string[]> {
  const headers = { 'X-Authorization': key, 'Content-Type': 'application/json' };
  const call = async (method: string, path: string, body?: object) => {
    const signal = AbortSignal.timeout(DEADLINE_MS);
    const init = { method, headers, signal, ...(body && { body: JSON.stringify(body) }) };
    try {
      const response = await fetch(`${url}/api/v1/${path}`, init);
      await response.arrayBuffer();
      return String(response.status);
    } catch (error) {
      return error instanceof Error ? error.name : String(error);
    }
  };
  return Promise.all([
    call('GET', 'webhooks'),
    call('GET', 'warehouse/return/details?order_name=%23NONE'),
    call('POST', 'dispositioning/assess', { items: [{ line_item_id: 1 }] }),
    call('PUT', 'destinations/1', { name: 'Trial' }),
    call('POST', 'returns/1/fraud-report', { category: 'other', comment: 'trial' }),
    call('POST', 'cart', { cart: [1] }),
  ]);
}
