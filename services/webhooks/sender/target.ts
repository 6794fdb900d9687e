import { checkUrl, portOf, type UrlPolicy } from '../../platform/outbound/guard.ts';

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
 * Creates the check of URLs before each attempt. Valid URLs are cached, because the result for a text does not change.
 * Only the ports of this stack can change, so they are checked each time.
 *
 * @returns a function that returns the target. When the URL is not allowed, it returns the reason, as the text after
 *   "it".
 */
export function createTargets(policy: UrlPolicy): (text: string) => Target | string {
  const cache = new Map<string, Target>();

  function check(text: string): Target | string {
    const result = checkUrl(text, policy);
    if (!result.ok) return result.message;
    const { url, isAllowedOrigin } = result;
    const path = url.pathname + url.search;
    const target = { url, origin: url.origin, port: portOf(url), path, isAllowedOrigin };
    const oldest = cache.size >= MAX_TARGETS ? cache.keys().next().value : undefined;
    if (oldest !== undefined) cache.delete(oldest);
    cache.set(text, target);
    return target;
  }

  return (text) => {
    const target = cache.get(text);
    if (!target) return check(text);
    const mayBeOwn = target.isAllowedOrigin && policy.stackPorts().includes(target.port);
    return mayBeOwn ? check(text) : target;
  };
}
