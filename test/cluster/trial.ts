import type { Namespace } from './kubectl.ts';
import type { AnswerCounts } from './load.ts';
import { pods, restarts } from './pods.ts';

export interface Images {
  readonly release: string;
  readonly demo: string;
  readonly next: string;
}

/** What every step of a run needs. */
export interface Trial {
  readonly images: Images;
  /** Address of the Service `gateway`; its cluster IP by default. */
  readonly gateway?: string;
  say(text: string): void;
  /** Reports whether something holds, and counts what does not. */
  check(what: string, holds: boolean): void;
}

export async function checkNoRestarts({ check }: Trial, space: Namespace): Promise<void> {
  const counts = await restarts(space);
  const { length } = await pods(space);
  check(`no container of ${length} pods was restarted ${show(counts)}`, isEmpty(counts));
}

export async function gatewayUrl(trial: Trial, space: Namespace): Promise<string> {
  if (trial.gateway !== undefined) return trial.gateway;
  const ip = await space.kubectl('get', 'service/gateway', '-o', 'jsonpath={.spec.clusterIP}');
  return `http://${ip}`;
}

export function hasOnly(counts: AnswerCounts, allowed: readonly string[]): boolean {
  return Object.keys(counts).every((answer) => allowed.includes(answer));
}

export function isEmpty(record: object): boolean {
  return Object.keys(record).length === 0;
}

export function show(record: object): string {
  const parts = Object.entries(record).map(([name, count]) => `${name} × ${count}`);
  return parts.join(', ');
}

/** Whole seconds since a time of `performance.now()`. */
export function secondsSince(startedMs: number): number {
  return Math.round((performance.now() - startedMs) / 1_000);
}
