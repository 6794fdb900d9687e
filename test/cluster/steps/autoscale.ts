import { z } from 'zod';
import { renderOverlay } from '../../../deploy/check/render.ts';
import { until } from '../../kit/until.ts';
import { PRODUCTION } from '../kubectl.ts';
import { startLoad } from '../load.ts';
import { withOverlay } from '../overlay.ts';
import { isReady, processPods } from '../pods.ts';
import { metricByPod } from '../rpcs.ts';
import { makeKey } from '../shop.ts';
import { gatewayUrl, hasOnly, secondsSince, show, type Trial } from '../trial.ts';

const HURRIED = 4;
const GATEWAY = 'horizontalpodautoscaler/gateway';
const SERVED = 'rpc_client_call_duration_seconds_count';
const named = z.looseObject({ kind: z.string(), metadata: z.object({ name: z.string() }) });

/**
 * The autoscaler of the gateway adds a pod under load, and callers use it. Its target is lowered, so that a node of two
 * cores can reach it. Needs the step `production` and a metrics server.
 */
export async function autoscale(trial: Trial): Promise<void> {
  const { check } = trial;
  const before = new Set((await gateways()).map(({ metadata }) => metadata.name));
  await PRODUCTION.apply(await autoscaler());
  const load = startLoad({
    url: await gatewayUrl(),
    path: '/api/v1/webhooks',
    headers: { 'X-Authorization': await makeKey('--per-minute', '60000') },
    hurried: HURRIED,
    say: trial.say,
  });
  const startedMs = performance.now();
  try {
    const added = await until(
      async () => (await gateways()).find((pod) => isReady(pod) && !before.has(pod.metadata.name)),
      { withinMs: 240_000, everyMs: 1_000, byTheClock: true },
    ).catch(() => undefined);
    const name = added?.metadata.name ?? '';
    check(
      `the autoscaler has added ${name || 'no pod'} after ${secondsSince(startedMs)} s`,
      !!added,
    );
    const served = async () => (await metricByPod(PRODUCTION, () => SERVED))[name] ?? 0;
    const count = await until(async () => (await served()) || false, { withinMs: 60_000 }).catch(
      () => 0,
    );
    check(`it has served: ${count} RPCs sent`, count > 0);
  } finally {
    const counts = await load.stop();
    check(`callers were answered: ${show(counts)}`, hasOnly(counts, ['200']));
    await PRODUCTION.kubectl('delete', GATEWAY);
    await PRODUCTION.kubectl('scale', 'deployment/gateway', `--replicas=${before.size}`);
  }
}

async function gateways() {
  const all = await processPods(PRODUCTION);
  return all.filter(({ metadata }) => metadata.labels.app === 'gateway');
}

/** That of the component, for 50 mCPU instead of 500, and at most three pods. */
function autoscaler(): Promise<object> {
  const spec = [
    { op: 'replace', path: '/spec/maxReplicas', value: 3 },
    { op: 'replace', path: '/spec/metrics/0/resource/target/averageValue', value: '50m' },
  ];
  const target = { kind: 'HorizontalPodAutoscaler', name: 'gateway' };
  const overlay = {
    path: 'test/cluster/production',
    components: ['deploy/components/autoscaling'],
    images: {},
    patches: [{ target, patch: JSON.stringify(spec) }],
  };
  return withOverlay(overlay, async (folder) => {
    const objects = renderOverlay(folder).map((one) => named.safeParse(one).data);
    const found = objects.find(
      (one) => one?.kind === target.kind && one.metadata.name === target.name,
    );
    if (!found) throw new Error('the component has no autoscaler of the gateway');
    return found;
  });
}
