import { DEV } from '../kubectl.ts';
import { PROCESSES } from '../pods.ts';
import { checkNoRestarts, secondsSince, type Trial } from '../trial.ts';
import { applyDev } from './install.ts';

/** A twentieth of a core for every process of ours. */
const LIMIT = [
  { op: 'add', path: '/spec/template/spec/containers/0/resources/limits/cpu', value: '50m' },
];

/** Installs the dev overlay with processes that get hardly any CPU while they start. */
export async function starved(trial: Trial): Promise<void> {
  const startedMs = performance.now();
  const target = { kind: 'Deployment', name: PROCESSES.join('|') };
  await applyDev(trial, [{ target, patch: JSON.stringify(LIMIT) }]);
  trial.check(`with 50 mCPU each, all is ready after ${secondsSince(startedMs)} s`, true);
  await checkNoRestarts(trial, DEV);
}
