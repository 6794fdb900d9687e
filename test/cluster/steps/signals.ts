import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../kit/until.ts';
import { signal, startKiller, stopKiller } from '../killer.ts';
import { PRODUCTION } from '../kubectl.ts';
import type { AnswerCounts } from '../load.ts';
import { isReady, type Pod, PROCESSES, processPods, restartsOf, untilReady } from '../pods.ts';
import { callEveryService } from '../rpcs.ts';
import { makeKey } from '../shop.ts';
import { gatewayUrl, secondsSince, show, type Trial } from '../trial.ts';

/** A frozen process is restarted and ready within this time. Seconds. */
const FROZEN_S = 60;
const PAUSE_MS = 250;

/** SIGKILL and SIGSTOP of one of the two pods of each process, while every service is called. */
export async function signals(trial: Trial): Promise<void> {
  await startKiller(trial.images.release);
  const url = await gatewayUrl();
  const key = await makeKey('--per-minute', '60000');
  try {
    for (const app of PROCESSES) {
      const pods = (await processPods(PRODUCTION)).filter(
        ({ metadata }) => metadata.labels.app === app,
      );
      // Each pod is restarted once: a second restart of the same waits longer.
      for (const [index, name] of (['SIGKILL', 'SIGSTOP'] as const).entries()) {
        const pod = pods[index];
        if (!pod) throw new Error(`${app} has fewer than two pods`);
        const load = startCalls(url, key);
        const tookS = await restartAfter(pod, () => signal(pod, name));
        const counts = await load.stop();
        trial.check(`${app}, ${name}: ready after ${tookS} s, ${show(counts)}`, tookS < FROZEN_S);
      }
    }
  } finally {
    await stopKiller();
  }
}

/** @returns seconds until the pod is ready with a new container. */
async function restartAfter(pod: Pod, act: () => Promise<void>): Promise<number> {
  const startedMs = performance.now();
  await act();
  const isBack = async () => {
    const now = (await processPods(PRODUCTION)).find(
      ({ metadata }) => metadata.name === pod.metadata.name,
    );
    return now !== undefined && restartsOf(now) > restartsOf(pod) && isReady(now);
  };
  await until(isBack, { withinMs: 120_000, everyMs: 500, byTheClock: true }).catch(() => {});
  const tookS = secondsSince(startedMs);
  await untilReady(PRODUCTION);
  return tookS;
}

/** Calls every service again and again. */
function startCalls(url: string, key: string): { stop(): Promise<AnswerCounts> } {
  const stopping = new AbortController();
  const counts: Record<string, number> = {};
  const running = (async () => {
    while (!stopping.signal.aborted) {
      for (const answer of await callEveryService(url, key))
        counts[answer] = (counts[answer] ?? 0) + 1;
      await sleep(PAUSE_MS);
    }
  })();
  return {
    async stop() {
      stopping.abort();
      await running;
      return counts;
    },
  };
}
