import { judgeUrl, portOf, type UrlPolicy } from '../guard/guard.ts';

/** Where a URL leads, taken apart. */
export interface Target {
  readonly url: URL;
  readonly origin: string;
  readonly port: number;
  /** With the query. */
  readonly path: string;
  readonly isAllowedOrigin: boolean;
}

/** URLs whose verdict is remembered. */
const MAX_TARGETS = 2_000;

/**
 * Judges URLs before each attempt, and remembers those that passed: what a text says does not
 * change. What can change are the ports of this stack, and they are looked at each time.
 *
 * @returns the target, or why there is none, in words that follow "it".
 */
export function createTargets(policy: UrlPolicy): (text: string) => Target | string {
  const known = new Map<string, Target>();

  function judge(text: string): Target | string {
    const verdict = judgeUrl(text, policy);
    if (!verdict.ok) return verdict.message;
    const { url, isAllowedOrigin } = verdict;
    const path = url.pathname + url.search;
    const target = { url, origin: url.origin, port: portOf(url), path, isAllowedOrigin };
    remember(text, target);
    return target;
  }

  function remember(text: string, target: Target): void {
    const oldest = known.size >= MAX_TARGETS ? known.keys().next().value : undefined;
    if (oldest !== undefined) known.delete(oldest);
    known.set(text, target);
  }

  return (text) => {
    const target = known.get(text);
    if (!target) return judge(text);
    const mayBeOwn = target.isAllowedOrigin && policy.refusedPorts().includes(target.port);
    return mayBeOwn ? judge(text) : target;
  };
}
