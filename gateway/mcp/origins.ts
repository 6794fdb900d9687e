import type { IncomingHttpHeaders } from 'node:http';

/** Names by which a machine reaches itself: an attacker's name is never one of them. */
const LOOPBACK: readonly string[] = ['localhost', '127.0.0.1', '[::1]'];

export interface OriginRules {
  /** Whether the request's `Host` is one of ours. */
  isOurHost(headers: IncomingHttpHeaders): boolean;
  /** Whether a browser's page of that origin may call; undefined for a request that names none. */
  allows(headers: IncomingHttpHeaders): boolean | undefined;
}

/**
 * Which hosts and origins `/mcp` answers, so that a page that a person happens to open cannot use a
 * name of its own (DNS rebinding) or the person's browser to get here.
 *
 * @param o.publicUrl our own address, whose host and origin are allowed.
 * @param o.allowedOrigins further origins whose pages may call, such as `https://inspector.example`.
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
      // A stack on this machine is reached by several names of it, and at several ports.
      return isLoopback && origin === `http://${host}`;
    },
  };
}

function hostnameOf(url: string): string {
  return URL.canParse(url) ? new URL(url).hostname : '';
}
