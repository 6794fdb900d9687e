import { until } from '../until.ts';

/** CPU time of a process (user and system) in ms, from its metrics. */
async function cpuOf(metricsUrl: string): Promise<number> {
  const text = await (await fetch(metricsUrl)).text();
  const seconds = /^process_cpu_seconds_total\S* ([\d.e+-]+)/m.exec(text)?.[1];
  if (seconds === undefined) throw new Error('the metrics have no process_cpu_seconds_total');
  return Number(seconds) * 1_000;
}

/** A process with less CPU time during one pause is idle. Milliseconds. */
const QUIET_MS = 20;
const TIMEOUT_MS = 20_000;
/** Reading the metrics costs CPU too. Milliseconds. */
const PAUSE_MS = 100;

/** Waits until the background work of requests, such as events, is done. Returns the CPU time so far. */
async function untilQuiet(metricsUrl: string): Promise<number> {
  let last = await cpuOf(metricsUrl);
  return until(
    async () => {
      const now = await cpuOf(metricsUrl);
      const used = now - last;
      last = now;
      return used < QUIET_MS && now;
    },
    TIMEOUT_MS,
    PAUSE_MS,
  );
}

/** CPU time of one request in ms, with its background work. Sends `count` requests one after the other. */
export async function cpuOfRequest(
  metricsUrl: string,
  count: number,
  send: () => Promise<unknown>,
): Promise<number> {
  const before = await untilQuiet(metricsUrl);
  for (let sent = 0; sent < count; sent += 1) await send();
  return ((await untilQuiet(metricsUrl)) - before) / count;
}

export function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
