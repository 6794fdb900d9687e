import { judgeUrl, portOf, type UrlPolicy } from '../guard/guard.ts';

/** The parts of a URL that a request needs. */
export interface Target {
  readonly url: URL;
  readonly origin: string;
  readonly port: number;
  /** Path with the query. */
  readonly path: string;
  readonly isAllowedOrigin: boolean;
}

/** Maximum number of cached URLs. */
const MAX_TARGETS = 2_000;

/**
 * Checks URLs before each attempt and caches valid ones, because the result for a text does not change. Only the ports
 * of this stack can change, so they are checked each time.
 *
 * @returns the target, or the reason against it as text that follows "it".
 */
export function createTargets(policy: UrlPolicy): (text: string) => Target | string {
  const known = new Map<string, Target>();

  function judge(text: string): Target | string {
    const check = judgeUrl(text, policy);
    if (!check.ok) return check.message;
    const { url, isAllowedOrigin } = check;
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
