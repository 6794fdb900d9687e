import { DEV, type Namespace, PRODUCTION } from './kubectl.ts';
import type { AnswerCounts } from './load.ts';
import { pods, restarts } from './pods.ts';

export interface Images {
  readonly release: string;
  readonly demo: string;
  readonly edge: string;
  readonly next: string;
}

/** What every step of a run needs. */
export interface Trial {
  readonly images: Images;
  /** Public address of the dev overlay; the cluster IP of the Service `edge` by default. */
  readonly publicUrl?: string;
  say(text: string): void;
  /** Reports whether something holds, and counts what does not. */
  check(what: string, holds: boolean): void;
}

export async function checkNoRestarts({ check }: Trial, space: Namespace): Promise<void> {
  const counts = await restarts(space);
  const { length } = await pods(space);
  check(`no container of ${length} pods was restarted ${show(counts)}`, isEmpty(counts));
}

/** The public address of the dev overlay: callers come through the edge. */
export async function devUrl(trial: Trial): Promise<string> {
  return trial.publicUrl ?? `http://${await clusterIp(DEV, 'edge')}`;
}

/** The gateways of the production overlay, without the edge and its limits. */
export async function gatewayUrl(): Promise<string> {
  return `http://${await clusterIp(PRODUCTION, 'gateway')}`;
}

export async function clusterIp(space: Namespace, service: string): Promise<string> {
  return space.kubectl('get', `service/${service}`, '-o', 'jsonpath={.spec.clusterIP}');
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
