import { demoShop } from '../demo.ts';
import { DEV } from '../kubectl.ts';
import { applyOverlay } from '../overlay.ts';
import { untilReady } from '../pods.ts';
import { callEveryService, untilEachServed } from '../rpcs.ts';
import { checkNoRestarts, devUrl, isEmpty, show, type Trial } from '../trial.ts';

/** Installs the dev overlay, and calls every service through the gateway until each pod has served. */
export async function install(trial: Trial): Promise<void> {
  await applyDev(trial);
  await checkNoRestarts(trial, DEV);
  const url = await devUrl(trial);
  const { key } = await demoShop();
  const silent = await podsWithoutRpc(async () => {
    await callEveryService(url, key);
  });
  trial.check(`every pod has served an RPC ${show(silent)}`, isEmpty(silent));
}

export async function applyDev({ images }: Trial, patches: readonly object[] = []): Promise<void> {
  await applyOverlay(DEV, {
    path: 'deploy/overlays/dev',
    images: { rms: images.release, 'rms-dev': images.demo, 'rms-edge': images.edge },
    patches,
  });
  await untilReady(DEV);
}

async function podsWithoutRpc(callAll: () => Promise<void>) {
  const counts = await untilEachServed(DEV, callAll);
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count === 0));
}
