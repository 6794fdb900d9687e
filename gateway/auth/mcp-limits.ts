import type pg from 'pg';
import type { Logger } from '../../services/platform/log.ts';
import { createLeasedLimit } from './leased-limit.ts';
import type { Admission } from './rate-limits.ts';

/** Requests a minute to `/mcp`; generous, since hosted assistants share few addresses. */
export const MCP_LIMITS = {
  /** Of one signed-in user over all shops: every method, `tools/call` included. */
  requests: 600,
  /** Of one address: those refused without a valid token, an allowed `Host` or an allowed `Origin`. */
  refused: 1_200,
} as const;

export type McpSizes = Readonly<Record<keyof typeof MCP_LIMITS, number>>;

/** What `/mcp` counts beside the tool calls of the interface. None of the methods rejects. */
export interface McpLimits {
  /** Counts one request of a signed-in user, before its body is read. */
  request(userId: bigint): Promise<Admission>;
  /** Counts what a body of that user costs beyond its request, in the same bucket. */
  body(userId: bigint, points: number): Promise<Admission>;
  /** Counts one refused request of an address. */
  refused(address: string): Promise<Admission>;
  /** Whether the address is known to have had too many requests refused. Counts nothing. */
  isBlocked(address: string): boolean;
  /** Forgets what this process remembers; the shared counters are rows of `rate_limits`. */
  forget(): void;
}

export function createMcpLimits(o: {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly sizes?: Partial<McpSizes>;
  /** How long a request waits for the count that replicas share; see `createLeasedLimit`. */
  readonly patienceMs?: number;
}): McpLimits {
  const sizes = { ...MCP_LIMITS, ...o.sizes };
  const limitOf = (name: string) =>
    createLeasedLimit(o.pool, o.logger, {
      name,
      ...(o.patienceMs !== undefined && { patienceMs: o.patienceMs }),
    });
  const requests = limitOf('mcp-requests');
  const refused = limitOf('mcp-refused');
  return {
    request: (userId) => requests.take(String(userId), sizes.requests),
    // Any request that is allowed passes while the window is full: one point of it is its request.
    body: (userId, points) =>
      requests.take(String(userId), sizes.requests, Math.min(points, sizes.requests - 1)),
    refused: (address) => refused.take(address, sizes.refused),
    isBlocked: (address) => refused.isUsedUp(address),
    forget() {
      requests.forget();
      refused.forget();
    },
  };
}
