import type { Place } from './environment.ts';
import type { System } from './system.ts';

const RESPONSE_MS = 2_000;

/** The total of a metric over the running processes of a service. 0 when there is no such metric. */
export async function metricOf(
  system: System,
  service: Place['service'],
  name: string,
): Promise<number> {
  const pages = await Promise.all(
    system.members(service).map(async ({ place }) => {
      const url = `http://127.0.0.1:${place.metricsPort}/metrics`;
      const page = fetch(url, { signal: AbortSignal.timeout(RESPONSE_MS) }).then((one) =>
        one.text(),
      );
      return page.catch(() => '');
    }),
  );
  const lines = pages.flatMap((page) => page.split('\n'));
  return lines
    .filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
    .map((line) =>
      Number(/\} ([\d.e+-]+)|^\S+ ([\d.e+-]+)/.exec(line)?.slice(1).find(Boolean) ?? 0),
    )
    .reduce((sum, value) => sum + value, 0);
}
