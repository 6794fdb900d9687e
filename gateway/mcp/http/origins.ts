import type { IncomingHttpHeaders } from 'node:http';

/** Host names of the local machine. No attacker can register them. */
const LOOPBACK: readonly string[] = ['localhost', '127.0.0.1', '[::1]'];

export interface OriginRules {
  /** Whether the `Host` header has a name of this service. */
  isOurHost(headers: IncomingHttpHeaders): boolean;
  /** Whether a page of this origin may send requests; undefined for a request without an `Origin` header. */
  allows(headers: IncomingHttpHeaders): boolean | undefined;
}

/**
 * Checks the host and origin of requests to `/mcp`. This protects against pages that call the service through the
 * user's browser or by DNS rebinding.
 *
 * @param o.publicUrl our own address. Its host and origin are allowed.
 * @param o.allowedOrigins additional allowed origins, such as `https://inspector.example`.
 */
export function createOriginRules(o: {
  publicUrl: string;
  allowedOrigins: readonly string[];
}): OriginRules {
  const own = new URL(o.publicUrl);
  const hosts: ReadonlySet<string> = new Set([own.hostname, ...LOOPBACK]);
  const origins: ReadonlySet<string> = new Set([own.origin, ...o.allowedOrigins]);
  const isLoopback = LOOPBACK.includes(own.hostname);
  return {
    isOurHost: ({ host }) => host !== undefined && hosts.has(hostnameOf(`http://${host}`)),
    allows({ origin, host }) {
      if (origin === undefined || origin === '') return undefined;
      if (origins.has(origin)) return true;
      // A local stack has several host names and ports, so its pages may use any of them.
      return isLoopback && origin === `http://${host}`;
    },
  };
}

function hostnameOf(url: string): string {
  return URL.canParse(url) ? new URL(url).hostname : '';
}
