import { until } from '../until.ts';

/** CPU of a process in ms, user and system together, from its metrics. */
async function cpuOf(metricsUrl: string): Promise<number> {
  const text = await (await fetch(metricsUrl)).text();
  const seconds = /^process_cpu_seconds_total\S* ([\d.e+-]+)/m.exec(text)?.[1];
  if (seconds === undefined) throw new Error('the process does not say what CPU it used');
  return Number(seconds) * 1_000;
}

/** Below this, a process is idle during one pause. Milliseconds of CPU. */
const QUIET_MS = 20;
const PATIENCE_MS = 20_000;
/** Asking costs CPU itself. Milliseconds. */
const PAUSE_MS = 100;

/** Waits until later work of requests, such as events, is done. */
async function quiet(metricsUrl: string): Promise<number> {
  let last = await cpuOf(metricsUrl);
  return until(
    async () => {
      const now = await cpuOf(metricsUrl);
      const used = now - last;
      last = now;
      return used < QUIET_MS && now;
    },
    PATIENCE_MS,
    PAUSE_MS,
  );
}

/** The CPU of one request in ms, including its later work. Sends `count` of them one after the other. */
export async function cpuOfRequest(
  metricsUrl: string,
  count: number,
  send: () => Promise<unknown>,
): Promise<number> {
  const before = await quiet(metricsUrl);
  for (let sent = 0; sent < count; sent += 1) await send();
  return ((await quiet(metricsUrl)) - before) / count;
}

export function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
